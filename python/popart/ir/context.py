"""Current graph and settings; see `popxl.context`."""

from collections.abc import Iterator
from contextlib import contextmanager

from popxl import context as _context
from popxl.context import (
    get_current_context,
    get_current_graph,
    get_main_graph,
    io_tiles,
    ipu,
    name_scope,
    pipeline_stage,
)

gcg = get_current_graph
gmg = get_main_graph
virtual_graph = ipu


@contextmanager
def in_sequence(enabled: bool = True) -> Iterator[None]:
    """Run the ops created inside in the order of their creation.

    Args:
        enabled: False: no constraints; at the outermost level it does nothing.

    Raises:
        TypeError: `enabled` is None.
    """
    if enabled is None:
        raise TypeError("in_sequence: got None, expected True or False.")
    if not enabled and get_current_context().in_sequence is None:
        yield
        return
    with _context.in_sequence(bool(enabled)):
        yield


__all__ = [
    "gcg",
    "get_current_context",
    "get_current_graph",
    "get_main_graph",
    "gmg",
    "in_sequence",
    "io_tiles",
    "ipu",
    "name_scope",
    "pipeline_stage",
    "virtual_graph",
]
