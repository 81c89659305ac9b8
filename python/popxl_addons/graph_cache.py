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
    """Return parameter → argument of a call, defaults applied.

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
    """Hash an argument so that interchangeable ones are equal.

    Args:
        arg: anything that a function is called with.

    Returns:
        The hash; tensors count by shape, dtype and meta shape, graphs by identity.

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
        # weak both ways: a cache that outlives a program does not keep its graphs
        self._graphs: weakref.WeakKeyDictionary[popxl.Ir, Graphs] = weakref.WeakKeyDictionary()

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """Return the graph of `fn` for these arguments, building it on first use."""
        return self._create(fn, args, kwargs)[0]

    def _create(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[popxl.Graph, bool]:
        """Return (graph, whether it was built now)."""
        ir = popxl.gir()
        graphs = self._graphs.setdefault(ir, weakref.WeakValueDictionary())
        key = get_function_hash(fn, *args, **kwargs)
        known = graphs.get(key)
        if known is not None:
            return known, False
        graphs[key] = made = ir.create_graph(fn, *args, **kwargs)
        return made, True


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: calls of the function become calls of a cached graph.

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
