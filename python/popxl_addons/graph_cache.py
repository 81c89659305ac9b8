"""Re-use of graphs: two calls with the same function and equal argument shapes share one graph."""

import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

import popxl
import popxl.ops as ops
from popxl.context import get_current_context

from popxl_addons.graph import BoundGraph, GraphWithNamedArgs


def bound_arguments(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "OrderedDict[str, Any]":
    """Map the parameters of a function to the arguments of a call, with defaults.

    Args:
        fn: the function.
        *args: arguments by position.
        **kwargs: arguments by name.

    Returns:
        Arguments by parameter.
    """
    bound = inspect.signature(fn.__call__).bind(*args, **kwargs)
    bound.apply_defaults()
    return OrderedDict(bound.arguments)


def tensor_hash(t: Any) -> int:
    """Hash shape, dtype and meta shape of a tensor or tensor spec.

    Args:
        t: tensor or tensor spec.

    Returns:
        The hash.
    """
    return hash((tuple(t.shape), t.dtype, tuple(t.meta_shape)))


def argument_hash(arg: Any) -> int:
    """Hash an argument; arguments that can share a graph have equal hashes.

    Args:
        arg: anything that a function is called with.

    Returns:
        The hash; that of tensors depends on shape, dtype and meta shape, that of graphs on identity.

    Raises:
        TypeError: the argument cannot be hashed.
    """
    if isinstance(arg, (popxl.Tensor, popxl.TensorSpec)):
        return tensor_hash(arg)
    if isinstance(arg, BoundGraph):
        return hash((arg.graph, argument_hash(arg.args)))
    if isinstance(arg, GraphWithNamedArgs):
        return hash(arg.graph)
    if isinstance(arg, (list, tuple)):
        return hash(tuple((i, argument_hash(a)) for i, a in enumerate(arg)))
    if isinstance(arg, dict):
        return hash(tuple((key, argument_hash(a)) for key, a in arg.items()))
    return hash(arg)


def get_function_hash(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Hash a function, the current placement and its arguments.

    Args:
        fn: the function.
        *args: arguments by position.
        **kwargs: arguments by name.

    Returns:
        The hash.
    """
    ctx = get_current_context()
    arguments = tuple(argument_hash(a) for a in bound_arguments(fn, *args, **kwargs).values())
    return hash((fn, ctx.ipu_id, ctx.io_tile_set, arguments))


Graphs = weakref.WeakValueDictionary[int, popxl.Graph]


class GraphCache:
    """Graphs by function and argument shapes, separately for each Ir."""

    def __init__(self) -> None:
        # Weak in both directions: a cache that lives longer than a program does not keep its graphs alive.
        self._graphs: weakref.WeakKeyDictionary[popxl.Ir, Graphs] = weakref.WeakKeyDictionary()

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """Return the graph of `fn` for these arguments; build it at the first use."""
        return self._create(fn, args, kwargs)[0]

    def _create(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[popxl.Graph, bool]:
        """Return the graph, and whether it was built by this call."""
        ir = popxl.gir()
        graphs = self._graphs.setdefault(ir, weakref.WeakValueDictionary())
        key = get_function_hash(fn, *args, **kwargs)
        known = graphs.get(key)
        if known is not None:
            return known, False
        graphs[key] = made = ir.create_graph(fn, *args, **kwargs)
        return made, True


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function so that its calls become calls of a cached graph.

    Args:
        fn: function of tensors.

    Returns:
        The decorated function.
    """
    cache = GraphCache()

    @wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ops.call(cache.create_graph(fn, *args, **kwargs), *args, **kwargs)

    return wrapper


__all__ = ["GraphCache", "argument_hash", "bound_arguments", "function", "get_function_hash", "tensor_hash"]
