"""What popdist answers about the job: in a plain process, and under each launcher."""

import warnings

import popdist
import pytest

GETTERS = (
    "getNumTotalReplicas",
    "getNumLocalReplicas",
    "getReplicaIndexOffset",
    "getNumInstances",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumIpusPerReplica",
)


def answers():
    return tuple(getattr(popdist, name)() for name in GETTERS)


def test_a_plain_process_is_the_only_instance():
    assert not popdist.isPopdistEnvSet()
    assert answers() == (1, 1, 0, 1, 0, 0, 1)


def test_the_variables_of_poprun_are_read(poprun_sets):
    poprun_sets(
        NUM_TOTAL_REPLICAS=12,
        NUM_LOCAL_REPLICAS=3,
        REPLICA_INDEX_OFFSET=6,
        NUM_IPUS_PER_REPLICA=2,
        UNIFORM_REPLICAS_PER_INSTANCE=1,
        LOCAL_INSTANCE_INDEX=1,
    )
    assert popdist.isPopdistEnvSet()
    assert answers() == (12, 3, 6, 4, 2, 1, 2)
    assert popdist.getGlobalReplicaOffset() == 6


def test_number_and_index_of_instances_may_be_given(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS=8, NUM_LOCAL_REPLICAS=4, NUM_INSTANCES=5, INSTANCE_INDEX=3)
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (5, 3)


@pytest.mark.parametrize("local", [None, 2])
def test_processes_of_mpirun_are_instances(monkeypatch, local):
    for name, value in {"SIZE": 4, "RANK": 3, "LOCAL_RANK": 1}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    if local:
        monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", str(local))
    each = local or 1
    assert popdist.isPopdistEnvSet()
    assert answers() == (4 * each, each, 3 * each, 4, 3, 1, 1)


def test_a_single_process_of_mpirun_is_a_plain_one(monkeypatch):
    """Also in a Slurm allocation for several tasks."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert not popdist.isPopdistEnvSet()
    assert answers() == (1, 1, 0, 1, 0, 0, 1)


def test_tasks_of_slurm_are_instances_when_srun_starts_mpi(monkeypatch):
    for name, value in {"NTASKS": 3, "PROCID": 2, "LOCALID": 0}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    assert not popdist.isPopdistEnvSet()  # of a batch script, or without --mpi=pmix
    monkeypatch.setenv("PMIX_RANK", "2")
    assert popdist.isPopdistEnvSet()
    assert answers() == (3, 1, 2, 3, 2, 0, 1)


def test_the_variables_of_poprun_come_first(monkeypatch, poprun_sets):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("WORLD_SIZE", "4")
    poprun_sets(NUM_TOTAL_REPLICAS=6, NUM_LOCAL_REPLICAS=3, REPLICA_INDEX_OFFSET=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (2, 1)


def test_torchrun_is_named_once(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(RuntimeWarning, match="WORLD_SIZE is 2.*torchrun, which starts no MPI") as seen:
        assert popdist.getNumInstances() == 1
        popdist.init()
    assert len(seen) == 1 and "\n" not in str(seen[0].message)


def test_an_empty_variable_counts_as_unset(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS="", NUM_IPUS_PER_REPLICA="")
    assert not popdist.isPopdistEnvSet()
    assert popdist.getNumIpusPerReplica() == 1


@pytest.mark.parametrize(
    "values, words",
    [
        ({"NUM_TOTAL_REPLICAS": "many"}, ["POPDIST_NUM_TOTAL_REPLICAS: got 'many'", "1 or more"]),
        ({"NUM_TOTAL_REPLICAS": "0"}, ["POPDIST_NUM_TOTAL_REPLICAS: got '0'"]),
        ({"NUM_TOTAL_REPLICAS": 4, "NUM_LOCAL_REPLICAS": "-1"}, ["POPDIST_NUM_LOCAL_REPLICAS: got '-1'"]),
        ({"NUM_TOTAL_REPLICAS": 4, "REPLICA_INDEX_OFFSET": "1.5"}, ["POPDIST_REPLICA_INDEX_OFFSET: got '1.5'"]),
        ({"NUM_TOTAL_REPLICAS": 4, "REPLICA_INDEX_OFFSET": 4}, ["got 4 + 1", "which is 4"]),
        ({"NUM_TOTAL_REPLICAS": 5, "NUM_LOCAL_REPLICAS": 2}, ["got 5 and 0", "multiples", "which is 2"]),
        (
            {"NUM_TOTAL_REPLICAS": 6, "NUM_LOCAL_REPLICAS": 2, "REPLICA_INDEX_OFFSET": 3},
            ["got 6 and 3", "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE=0"],
        ),
    ],
)
def test_bad_variables_are_named(poprun_sets, values, words):
    poprun_sets(**values)
    with pytest.raises(ValueError) as refused:
        popdist.getNumLocalReplicas()
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_rank_beyond_the_job_is_refused(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    with pytest.raises(ValueError, match="OMPI_COMM_WORLD_RANK: got 2, expected a number below OMPI_COMM_WORLD_SIZE"):
        popdist.getInstanceIndex()


def test_unequal_instances_have_replicas_but_no_number(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS=5, NUM_LOCAL_REPLICAS=2, REPLICA_INDEX_OFFSET=3, UNIFORM_REPLICAS_PER_INSTANCE=0)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(), popdist.getReplicaIndexOffset()) == (5, 2, 3)
    for ask in (popdist.getNumInstances, popdist.getInstanceIndex):
        with pytest.raises(RuntimeError, match="different numbers of replicas"):
            ask()


def test_ipus_per_replica_are_compared(poprun_sets):
    assert popdist.checkNumIpusPerReplica(4)  # nothing says otherwise
    poprun_sets(NUM_IPUS_PER_REPLICA=2)
    assert popdist.checkNumIpusPerReplica(2)
    assert not popdist.checkNumIpusPerReplica(4)
