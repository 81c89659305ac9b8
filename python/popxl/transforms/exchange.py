"""Context managers that group exchanges with host and remote memory.

On devices with one memory values and order stay the same, so only the documented checks remain.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from popxl.context import get_current_graph, in_sequence, io_tiles


@contextmanager
def merge_exchange() -> Iterator[None]:
    """Merge the loads and stores created inside into as few exchanges as possible."""
    get_current_graph()
    yield


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Create loads and stores on IO tiles as one exchange.

    Args:
        verify_overlap: check that only exchanges were created.

    Raises:
        RuntimeError: other ops than loads, stores and init were created inside.
    """
    graph = get_current_graph()
    created: list[Any] = []
    handle = graph.register_op_created_hook(created.append)
    try:
        with io_tiles(), merge_exchange(), in_sequence(False):
            yield
    finally:
        graph.remove_op_created_hook(handle)
    exchanges = ("HostLoad", "HostStore", "RemoteLoad", "RemoteLoadInplace", "RemoteStore", "RemoteCodeLoad")
    others = [op.debugName() for op in created if op.opType() != "Init" and op.opType() not in exchanges]
    if verify_overlap and others:
        raise RuntimeError(f"io_tile_exchange: these ops cannot be merged into one exchange: {others}.")
