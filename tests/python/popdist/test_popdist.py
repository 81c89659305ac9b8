"""popdist answers for a plain process, and reads what poprun sets."""

import popdist
import pytest


def test_a_plain_process_is_the_only_instance():
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getNumInstances()) == (0, 1)
    assert (popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()) == (1, 1)
    assert popdist.getGlobalReplicaOffset() == 0


def test_the_environment_of_poprun_is_read(monkeypatch: pytest.MonkeyPatch):
    values = {"NUM_TOTAL_REPLICAS": 8, "NUM_LOCAL_REPLICAS": 4, "NUM_INSTANCES": 2, "INSTANCE_INDEX": 1}
    for name, value in values.items():
        monkeypatch.setenv(f"POPDIST_{name}", str(value))
    monkeypatch.setenv("POPDIST_REPLICA_INDEX_OFFSET", "4")
    assert popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getNumInstances()) == (1, 2)
    assert (popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()) == (4, 8)
    assert popdist.getGlobalReplicaOffset() == 4
