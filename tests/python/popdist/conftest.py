"""Tests of popdist begin as a plain process that nothing has initialised."""

import os

import popart_testing
import pytest

LAUNCHERS = ("POPDIST_", "OMPI_", "PMIX_", "SLURM_")


@pytest.fixture(autouse=True)
def plain_process(monkeypatch):
    for name in list(os.environ):
        if name.startswith(LAUNCHERS) or name == "WORLD_SIZE":
            monkeypatch.delenv(name)
    popart_testing.forget_job()


@pytest.fixture
def poprun_sets(monkeypatch):
    """Sets variables of poprun, by the ends of their names."""

    def set_all(**values):
        for name, value in values.items():
            monkeypatch.setenv(f"POPDIST_{name}", str(value))

    return set_all
