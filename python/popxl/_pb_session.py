"""Methods that programs call on ``ir._pb_ir`` before they make a session with ``popart.InferenceSession.fromIr``.

They are attached to the core's Ir class: the data flow and the options are kept on the object, the session reads them.
"""

import warnings
from enum import Enum
from typing import Any

from popart_core import _ir as _core


def _set_data_flow(self: Any, data_flow: Any) -> None:
    """Set the data flow: batches per step size the stream buffers, anchors name the streams to return."""
    self._data_flow = data_flow


def _get_data_flow(self: Any) -> Any:
    """Return the data flow; one batch per step unless set."""
    if not hasattr(self, "_data_flow"):
        from popart_core import DataFlow

        self._data_flow = DataFlow(1)
    return self._data_flow


def _new_options() -> Any:
    from popart_core import SessionOptions

    options = SessionOptions()
    options.enableExplicitMainLoops = True
    options.useHostCopyOps = True
    return options


def _get_session_options(self: Any) -> Any:
    """Return the options, which the program may change."""
    if not hasattr(self, "_session_options"):
        self._session_options = _new_options()
    return self._session_options


def unheeded_options(pb_ir: Any) -> list[str]:
    """Names of options that a program has changed and that would change its results or memory in other sessions."""
    given = getattr(pb_ir, "_session_options", None)
    if given is None:
        return []
    fresh, table = _new_options(), type(given)
    names = [n for n in dir(given) if isinstance(getattr(table, n), property)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older names of options
        changed = [n for n in names if _differ(getattr(given, n), getattr(fresh, n))]
    return [n for n in changed if not (getattr(table, n).__doc__ or "").startswith("no effect")]


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, (bool, int, float, str, Enum)) and a != b


def _set_patterns(self: Any, patterns: Any) -> None:
    """Keep the patterns; hand-written programs run as they are."""
    self._patterns = patterns


def _no_effect(self: Any, *args: Any) -> None:
    """Do nothing: unused tensors and graphs cost nothing, and the other state is always up to date."""


_core.Ir.setDataFlow = _set_data_flow
_core.Ir.getDataFlow = _get_data_flow
_core.Ir.getSessionOptions = _get_session_options
_core.Ir.setPatterns = _set_patterns
_core.Ir.updateVertices = _no_effect
_core.Ir.setIsPrepared = _no_effect
_core.Ir.removeIsolatedGraphs = _no_effect
_core.Ir.removeIsolatedTensors = _no_effect
