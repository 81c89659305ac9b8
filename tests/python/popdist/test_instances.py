"""popdist in jobs of several instances, which mpirun or poprun starts: all functions, and the order of beginnings."""

import json
import re

import pytest

from tests.python.popdist.jobs import lines_of, poprun

COLLECTIVES = """
import json
import numpy as np

popdist.init()
me, all_ = popdist.getInstanceIndex(), popdist.getNumInstances()
assert popdist.isBackendInitialized()
popdist.synchronize()


def of(instance, shape, dtype):
    return np.random.default_rng(instance).normal(0, 9, shape).astype(dtype)


for dtype in ("float32", "float64", "float16", "int32", "uint8", "complex64"):
    for shape in ((), (3,), (2, 0), (1000, 257)):
        parts = [of(i, shape, dtype) for i in range(all_)]
        mine = parts[me]
        wide = [part.astype("float32") if dtype == "float16" else part for part in parts]
        total = wide[0] + wide[1] if all_ == 2 else (wide[0] + wide[1]) + (wide[2] + wide[3])
        total = total.astype(dtype)
        expected = {"sum": total, "mean": total / all_}
        if dtype != "complex64":
            expected |= {"min": np.minimum.reduce(parts), "max": np.maximum.reduce(parts)}
        for op, value in expected.items():
            np.testing.assert_array_equal(popdist.allReduce(mine, op), np.asarray(value), strict=True)
        np.testing.assert_array_equal(popdist.allGather(mine), np.stack(parts), strict=True)
        np.testing.assert_array_equal(popdist.broadcast(mine, all_ - 1), parts[-1], strict=True)

popdist.registerCommunicator({0, all_ - 1}, 5)
ends = None if 0 < me < all_ - 1 else popdist.allGather(np.array(me), communicator=5).tolist()


def inner(scale, *, shift):
    popdist.synchronize()
    return popdist.allGather(np.array(scale * me + shift)).tolist()


last = popdist.execute_on_instances({all_ - 2, all_ - 1}, inner, 10, shift=1)
refused = ""
try:
    popdist.allReduce(np.ones(2 + me))
except ValueError as e:
    refused = str(e)
popdist.finalizeBackend()
popdist.finalizeBackend()
assert not popdist.isBackendInitialized()
popdist.init()
popdist.synchronize()
os.write(1, (json.dumps([me, ends, last, refused]) + "\\n").encode())
"""


@pytest.mark.parametrize("processes", [2, 4])
def test_collectives_of_all_instances_and_of_some(processes):
    """The oracle is NumPy on what all instances have, in the order of the tree."""
    lines, _ = lines_of(COLLECTIVES, processes, 4 // processes)
    found = [json.loads(line) for line in lines]
    inside = [10 * (processes - 2) + 1, 10 * (processes - 1) + 1]
    text = "Instance 1 calls allReduce 'sum' of float64 [3], but instance 0 calls allReduce 'sum' of float64 [2]"
    for i, (me, ends, last, refused) in enumerate(found):
        assert me == i
        assert ends == ([0, processes - 1] if i in (0, processes - 1) else None)
        assert last == (inside if i >= processes - 2 else None)
        assert refused.startswith(text)


def test_instances_of_different_sizes():
    """Three replicas in two instances: numbers follow from MPI, since variables do not tell them."""
    code = """
import numpy as np
first = os.environ["OMPI_COMM_WORLD_RANK"] == "0"
os.environ |= {"POPDIST_NUM_TOTAL_REPLICAS": "3", "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "0"}
os.environ |= {"POPDIST_NUM_LOCAL_REPLICAS": "21"[not first], "POPDIST_REPLICA_INDEX_OFFSET": "02"[not first]}
popdist.init()
counts = popdist.allGather(np.array(popdist.getNumLocalReplicas())).tolist()
os.write(1, f"{counts} {popdist.execute_on_instances({1}, popdist.getReplicaIndexOffset)}\\n".encode())
"""
    assert lines_of(code)[0] == ["[2, 1] 2", "[2, 1] None"]


@pytest.mark.parametrize("first", ["popdist", "session"])
def test_sessions_and_popdist_begin_in_either_order(first):
    """Both use one job; what popdist does between runs does not disturb sessions."""
    code = f"""
import numpy as np
if {first!r} == "popdist":
    popdist.init()
session = ready(training())
popdist.init()
step(session)
popdist.synchronize()
step(session, 1)
digests = popdist.allGather(np.frombuffer(digest(session).encode(), np.uint8))
os.write(1, (str(len(np.unique(digests, axis=0))) + bytes(digests[0]).decode() + "\\n").encode())
"""
    lines, _ = lines_of(code)
    alone = lines_of("session = ready(training())\nstep(session)\nstep(session, 1)\nprint('1' + digest(session))", 1, 4)
    assert lines == alone[0] * 2


def test_a_device_and_options_of_a_job():
    code = """
popdist.init()
options = popdist.popart.configureSessionOptions(popart.SessionOptions())
numbers = [options.replicatedGraphCount, options.globalReplicationFactor, options.globalReplicaOffset]
with popdist.popart.getDevice(2) as device:
    os.write(1, f"{options.enableDistributedReplicatedGraphs} {numbers} {device.numIpus}\\n".encode())
"""
    assert lines_of(code)[0] == ["True [2, 4, 0] 4", "True [2, 4, 2] 4"]


@pytest.mark.parametrize("order", ["mpi4py", "popdist"])
def test_programs_use_mpi4py_as_well(order):
    """mpi4py or popdist initialises MPI."""
    code = f"""
import numpy as np
if {order!r} == "popdist":
    popdist.init()
from mpi4py import MPI
me = popdist.getInstanceIndex()
for number in range(3):
    assert MPI.COMM_WORLD.allreduce(me + number) == 1 + 2 * number
    assert popdist.allReduce(np.array(me + number)) == 1 + 2 * number
os.write(1, f"{{MPI.COMM_WORLD.rank == me}}\\n".encode())
"""
    assert lines_of(code)[0] == ["True", "True"]


def test_poprun_starts_a_job_whose_instances_meet():
    code = """
import numpy as np
popdist.init()
print(popdist.isPopdistEnvSet(), popdist.allGather(np.array(popdist.getReplicaIndexOffset())).tolist(), flush=True)
"""
    result, _ = poprun(code, "--only-output-from-instance=1")
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"\[1,1\]<stdout>: ?True \[0, 2\]\n", result.stdout)


# What srun --mpi=pmix gives a process: numbers of Slurm, and the variables of PMIx, by which MPI begins.
AS_OF_SRUN = """
assert os.environ["PMIX_RANK"] == os.environ["OMPI_COMM_WORLD_RANK"]
for of_slurm, of_mpirun in {"NTASKS": "SIZE", "PROCID": "RANK", "LOCALID": "LOCAL_RANK"}.items():
    os.environ[f"SLURM_{of_slurm}"] = os.environ[f"OMPI_COMM_WORLD_{of_mpirun}"]
for name in [name for name in os.environ if name.startswith("OMPI_COMM_WORLD_")]:
    del os.environ[name]
"""


def test_tasks_of_srun_are_a_job():
    code = """
numbers = [popdist.getNumInstances(), popdist.getInstanceIndex(), popdist.getLocalInstanceIndex()]
numbers += [popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()]
popdist.init()
numbers += popdist.allGather(np.array(popdist.getReplicaIndexOffset())).tolist()
session = ready(training())
step(session)
os.write(1, f"{numbers} {digest(session)}\\n".encode())
"""
    lines, _ = lines_of(AS_OF_SRUN + code)
    (of_one,), _ = lines_of("session = ready(training())\nstep(session)\nprint(digest(session))", 1, 4)
    assert lines == [f"[2, 0, 0, 4, 0, 0, 2] {of_one}", f"[2, 1, 1, 4, 2, 0, 2] {of_one}"]


def test_one_instance_makes_the_files_of_variables(tmp_path):
    """Of popxl_addons: the others wait for it, and map the same file."""
    code = f"""
import numpy as np, popxl, popxl_addons as addons
me = popdist.getInstanceIndex()
def values():
    time.sleep(0.5 if me == 0 else 0)
    return np.full(3, 7 + me, np.float32)
ir = popxl.Ir(replication="popdist")
with ir.main_graph:
    mapped = addons.VariableFactory(values).next_memmap({str(tmp_path)!r}, "w")
os.write(1, f"{{me}} {{mapped.tolist()}}\\n".encode())
"""
    assert lines_of(code)[0] == ["0 [7.0, 7.0, 7.0]", "1 [7.0, 7.0, 7.0]"]
    assert (tmp_path / "w.npy").stat().st_size == 12
