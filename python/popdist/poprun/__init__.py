"""poprun: starts a program as the instances of one job, by Open MPI's ``mpirun``."""

from popdist.poprun.main import main

__all__ = ["main"]
