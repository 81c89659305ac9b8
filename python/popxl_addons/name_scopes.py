"""NameScopeMeta: classes whose `build` runs inside a name scope of the object."""

import inspect
from functools import wraps
from typing import Any

from popxl.context import _CURRENT_CONTEXT


class NameScopeMeta(type):
    """Metaclass that runs `build` inside the module's name scope."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
        """Wrap the class's own `build`."""
        build = namespace.get("build")
        if inspect.isfunction(build):
            namespace["build"] = _in_name_scope(build)
        return super().__new__(mcs, name, bases, namespace)


def _in_name_scope(build: Any) -> Any:
    @wraps(build)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope = getattr(self, "_name_scope", None)
        if scope is None:
            return build(self, *args, **kwargs)
        scopes = _CURRENT_CONTEXT.name_scopes  # as `popxl.name_scope`, which takes longer than adding an op
        scopes.append(scope)
        try:
            return build(self, *args, **kwargs)
        finally:
            scopes.pop()

    return wrapper
