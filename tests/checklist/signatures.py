"""Parameters of functions of Python modules, and of signatures as a reference sheet writes them."""

import builtins
import inspect


def parameters(signature):
    """(name, kind, default) of each parameter."""
    return [(p.name, p.kind, p.default) for p in signature.parameters.values() if p.name not in ("self", "cls")]


def own(value):
    """The same of a function or class."""
    return parameters(inspect.signature(value))


def written(text, module):
    """The same of a text; classes and enumerations in defaults are looked up in the module."""
    scope = dict(vars(builtins)) | {name: value for name, value in vars(module).items() if name[0].isupper()}
    exec(f"def f({text}): pass", scope)
    return parameters(inspect.signature(scope["f"]))


def accepts(value, text, module):
    """Whether calls as the sheet writes them mean the same; parameters of our own may follow, with defaults."""
    have, wanted = own(value), written(text, module)
    more = have[len(wanted) :]
    return have[: len(wanted)] == wanted and all(default is not inspect.Parameter.empty for _, _, default in more)
