"""How communication of hosts begins and ends, and what a job of several instances says."""

import importlib
import subprocess
import sys

import popdist
import pytest


def test_init_is_harmless_in_a_plain_process():
    assert not popdist.isBackendInitialized()
    for _ in range(2):
        popdist.init()
        assert popdist.isBackendInitialized()
    for _ in range(2):
        popdist.finalizeBackend()
        assert not popdist.isBackendInitialized()


def test_the_parts_of_init():
    with pytest.raises(RuntimeError, match=r"No backend is registered. Call popdist.init\(\)"):
        popdist.initializeBackend()
    popdist.registerDefaultBackend()
    assert not popdist.isBackendInitialized()
    for _ in range(2):
        popdist.initializeBackend()
        assert popdist.isBackendInitialized()


def test_communication_ends_with_the_process():
    code = """
import atexit, popdist
atexit.register(lambda: print(popdist.isBackendInitialized()))  # runs after those that are registered later
popdist.init()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_a_job_of_one_instance_is_a_plain_one(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS=4, NUM_LOCAL_REPLICAS=4)
    popdist.init()
    popdist.synchronize()
    assert popdist.isBackendInitialized()


@pytest.mark.parametrize("begin", ["init", "registerDefaultBackend", "synchronize"])
def test_jobs_of_several_instances_are_refused(poprun_sets, begin):
    poprun_sets(NUM_TOTAL_REPLICAS=8, NUM_LOCAL_REPLICAS=2, REPLICA_INDEX_OFFSET=2)
    with pytest.raises(NotImplementedError) as refused:
        getattr(popdist, begin)()
    text = str(refused.value)
    assert "2 of the 8 replicas" in text and "not built yet" in text and "poprun --num-replicas 8" in text
    assert "\n" not in text
    assert not popdist.isBackendInitialized()


def test_backends_in_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        popdist.registerBackend(str(tmp_path / "backend.so"))
    (tmp_path / "backend.so").write_bytes(b"")
    with pytest.raises(NotImplementedError, match="not built yet"):
        popdist.registerBackend(str(tmp_path / "backend.so"))


@pytest.mark.parametrize("name, owner", [("poptorch", "PopTorch"), ("tensorflow", "TensorFlow")])
def test_packages_of_other_frameworks_are_named(name, owner):
    with pytest.raises(ImportError, match=f"popdist.{name} belongs to {owner}"):
        importlib.import_module(f"popdist.{name}")


def test_nothing_of_mpi_is_loaded():
    code = """
import popdist, popdist.popart
popdist.init()
popdist.synchronize()
print([line.split()[-1] for line in open("/proc/self/maps") if "libmpi" in line])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
