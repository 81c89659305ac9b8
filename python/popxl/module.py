"""popxl.Module: a callable object whose method `build` adds ops to the current graph."""

from typing import Any


class Module:
    """Base class for reusable pieces of a graph.

    Calling an instance inlines the ops of `build`; passing it to `Ir.create_graph` builds a sub-graph. Holds no state.
    """

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Add the ops. Subclasses override this.

        Raises:
            NotImplementedError: the class has no `build`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `build`.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add the ops to the current graph."""
        return self.build(*args, **kwargs)
