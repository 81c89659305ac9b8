"""Methods that programs call on ``ir._pb_ir`` before they make a session with ``popart.InferenceSession.fromIr``.

They are attached to the core's Ir class: the data flow is kept on the object, as the options are
(popxl._session_options); the session reads them.
"""

from typing import Any

from popart_core import DataFlow, getLogger
from popart_core import _ir as _core


def _set_data_flow(self: Any, data_flow: Any) -> None:
    """Set the data flow: batches per step size the stream buffers, anchors name the streams to return."""
    self._data_flow = data_flow


def _get_data_flow(self: Any) -> Any:
    """Return the data flow; one batch per step unless set."""
    if not hasattr(self, "_data_flow"):
        self._data_flow = DataFlow(1)
    return self._data_flow


def _set_patterns(self: Any, patterns: Any) -> None:
    """Keep the patterns; hand-written programs run as they are."""
    self._patterns = patterns


def _log_ir(self: Any) -> None:
    """Log the program, at debug level of the module `ir`."""
    getLogger("ir").debug(self.print())


def _no_effect(self: Any, *args: Any) -> None:
    """Do nothing: unused tensors and graphs cost nothing, and the other state is always up to date.

    Patterns rewrite hand-written programs while a session lowers them, so that call sites stay valid.
    """


_core.Ir.setDataFlow = _set_data_flow
_core.Ir.getDataFlow = _get_data_flow
_core.Ir.setPatterns = _set_patterns
_core.Ir.logIr = _log_ir
_core.Ir.updateVertices = _no_effect
_core.Ir.setIsPrepared = _no_effect
_core.Ir.applyPreAliasPatterns = _no_effect
_core.Ir.applyInplacePattern = _no_effect
_core.Ir.removeIsolatedGraphs = _no_effect
_core.Ir.removeIsolatedTensors = _no_effect
