"""Variables kept outside the device: named here, refused until they are built."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popxl.tensor import Variable


def remote_variable(*args: Any, **kwargs: Any) -> "Variable":
    """Make a variable kept in a remote buffer.

    Raises:
        popart_exception: remote variables are not supported yet.
    """
    raise _not_supported("remote_variable")


def remote_replica_sharded_variable(*args: Any, **kwargs: Any) -> "Variable":
    """Make a remote variable sharded over replicas.

    Raises:
        popart_exception: remote variables are not supported yet.
    """
    raise _not_supported("remote_replica_sharded_variable")


def replica_sharded_buffer(*args: Any, **kwargs: Any) -> Any:
    """Make a remote buffer for a sharded variable.

    Raises:
        popart_exception: sharded variables are not supported yet.
    """
    raise _not_supported("replica_sharded_buffer")


def _not_supported(what: str) -> Exception:
    from popart_core import popart_exception

    return popart_exception(f"popxl.{what} is not supported yet. Use popxl.variable.")
