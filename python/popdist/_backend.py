"""The backend: communication between the hosts of this process's job. One per process; `init` begins it."""

from popart_core import _popdist


def init() -> None:
    """Make communication between the instances of the job ready, and end it when the process exits.

    Registers the default backend if none is registered, and initialises it. Further calls have no effect. In a plain
    process nothing is loaded. In a job of several instances all of them must call it, before or after sessions. If it
    is never called, the first session or collective joins the job.

    Raises:
        ValueError: a variable of the job is not a number, or contradicts another one.
        popart_exception: there is no Open MPI, in one line that says what to install; or the instances disagree about
            the replicas of the job.
        popart_runtime_error: some instances do not arrive within ``POPDIST_TIMEOUT`` seconds.
    """
    _popdist.init()


def registerDefaultBackend() -> None:
    """Choose the backend that `initializeBackend` begins; for a job of one instance it needs no library.

    In a job of several instances Open MPI is loaded, but not initialised.

    Raises:
        ValueError: a variable of the job is not a number, or contradicts another one.
        popart_exception: there is no Open MPI, in one line that says what to install.
    """
    _popdist.registerDefaultBackend()


def registerBackend(path: str) -> None:
    """Choose a shared object as the backend that `initializeBackend` begins. Always raises an error.

    The functions of such a file are not public, so none can be called.

    Args:
        path: its file.

    Raises:
        FileNotFoundError: there is no such file.
        NotImplementedError: there is one.
    """
    _popdist.registerBackend(str(path))


def initializeBackend() -> None:
    """Begin communication by the registered backend, until the process exits; no effect if it has begun.

    Raises:
        RuntimeError: no backend is registered.
        popart_exception, popart_runtime_error: as `init`.
    """
    _popdist.initializeBackend()


def isBackendInitialized() -> bool:
    """Whether communication has begun, and has not ended."""
    return _popdist.isBackendInitialized()


def finalizeBackend() -> None:
    """End communication; no effect if it has not begun, or has ended."""
    _popdist.finalizeBackend()
