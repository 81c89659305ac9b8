"""The backend: what the hosts of this process's job communicate by. One per process, begun by `init`."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from popdist._communicator import HostCommunicator, OneProcess
from popdist._job import job


@dataclass(frozen=True)
class Group:
    """Instances that communicate."""

    communicator: HostCommunicator
    members: tuple[int, ...]  # their numbers in the job; position i is member i of the communicator
    # Groups of registerCommunicator by their number; None where this instance is no member. Shared by all groups.
    named: dict[int, Group | None] = field(default_factory=dict)


@dataclass
class _Backend:
    begin: Callable[[], HostCommunicator] | None = None  # of the registered backend
    world: Group | None = None  # all instances, while the backend is initialised
    ends_at_exit: bool = False


_backend = _Backend()


def init() -> None:
    """Make communication between the instances of the job ready, and end it when the process exits.

    Registers the default backend if none is registered, and initialises it. More calls do nothing. In a plain process
    nothing is loaded. In a job of several instances all of them call it; before sessions, after them, or never: then
    the first session or collective joins the job.

    Raises:
        ValueError: a variable of the job is not a number, or contradicts another one.
        popart_exception: there is no Open MPI, in one line that says what to install; or the instances disagree about
            the replicas of the job.
        popart_runtime_error: some instances do not come within ``POPDIST_TIMEOUT`` seconds.
    """
    if _backend.begin is None:
        registerDefaultBackend()
    initializeBackend()


def registerDefaultBackend() -> None:
    """Choose the backend that `initializeBackend` begins: for a job of one instance one that needs no library.

    In a job of several instances Open MPI is loaded, but not initialised.

    Raises:
        ValueError: a variable of the job is not a number, or contradicts another one.
        popart_exception: there is no Open MPI, in one line that says what to install.
    """
    found = job()
    if found.total == found.local:
        _backend.begin = OneProcess
        return
    from popdist import _processes

    _processes.load()
    _backend.begin = _processes.join


def registerBackend(path: str) -> None:
    """Choose a shared object as the backend that `initializeBackend` begins. Always an error.

    Which functions such a file has is not public, so that none can be called.

    Args:
        path: its file.

    Raises:
        FileNotFoundError: there is no such file.
        NotImplementedError: there is one.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"registerBackend: there is no file '{path}'. Give the path of a shared object.")
    raise NotImplementedError(
        f"registerBackend: got '{path}', but backends in files cannot be loaded: which functions they have is not "
        "public. Call registerDefaultBackend() or init(), which use Open MPI."
    )


def initializeBackend() -> None:
    """Begin communication by the registered backend, until the process exits; does nothing when it has begun.

    Raises:
        RuntimeError: no backend is registered.
        popart_exception, popart_runtime_error: as `init`.
    """
    if _backend.world is not None:
        return
    if _backend.begin is None:
        raise RuntimeError("No backend is registered. Call popdist.init(), or registerDefaultBackend() before.")
    communicator = _backend.begin()
    _backend.world = Group(communicator, tuple(range(communicator.size)))
    if not _backend.ends_at_exit:
        atexit.register(finalizeBackend)
        _backend.ends_at_exit = True


def isBackendInitialized() -> bool:
    """Whether communication has begun, and has not ended."""
    return _backend.world is not None


def finalizeBackend() -> None:
    """End communication; does nothing when it has not begun, or has ended."""
    if _backend.world is not None:
        _backend.world.communicator.close()
        _backend.world = None


def world() -> Group:
    """All instances of the job; begins communication if nothing has."""
    if _backend.world is None:
        init()
    assert _backend.world is not None
    return _backend.world
