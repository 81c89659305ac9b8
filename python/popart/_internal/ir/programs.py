"""Methods that programs call on ``ir._pb_ir`` before they make a session with ``popart.InferenceSession.fromIr``.

They are attached to the core's Ir class. The data flow is stored on the object, like the options
(`popxl._session_options`); the session reads both.
"""

from typing import Any

from popart_core import DataFlow, Patterns, PatternsLevel, getLogger
from popart_core import _ir as _core


def _set_data_flow(self: Any, data_flow: Any) -> None:
    """Set the data flow: batches per step size the stream buffers, anchors name the streams to return."""
    self._data_flow = data_flow


def _get_data_flow(self: Any) -> Any:
    """Return the data flow; one batch per step unless set."""
    if not hasattr(self, "_data_flow"):
        self._data_flow = DataFlow(1)
    return self._data_flow


def _set_patterns(self: Any, patterns: Patterns) -> None:
    """Set the patterns that `applyPreAliasPatterns` applies; those of level Default unless set."""
    self._patterns = patterns


def _apply_pre_alias_patterns(self: Any, graph: Any) -> None:
    """Apply the patterns to a graph.

    Its inputs and outputs stay. Tensors between them may disappear, for example those around an identity; any later use
    of such a tensor raises `popart_exception`.

    Args:
        self: the Ir.
        graph: graph of the Ir.
    """
    _core.applyPatterns(graph, getattr(self, "_patterns", None) or Patterns(PatternsLevel.Default))


def _log_ir(self: Any) -> None:
    """Log the program, at debug level of the module `ir`."""
    getLogger("ir").debug(self.print())


def _no_effect(self: Any, *args: Any) -> None:
    """Do nothing: unused tensors cost nothing, and facts of ops are always up to date.

    A session decides which results share the memory of an operand when it plans the memory of the whole program.
    """


_core.Ir.setDataFlow = _set_data_flow
_core.Ir.getDataFlow = _get_data_flow
_core.Ir.setPatterns = _set_patterns
_core.Ir.applyPreAliasPatterns = _apply_pre_alias_patterns
_core.Ir.logIr = _log_ir
_core.Ir.updateVertices = _no_effect
_core.Ir.setIsPrepared = _no_effect
_core.Ir.applyInplacePattern = _no_effect
_core.Ir.removeIsolatedTensors = _no_effect
