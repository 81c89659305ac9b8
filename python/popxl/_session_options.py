"""``ir._pb_ir.getSessionOptions()``: the options of a program, which `popxl.Session` reads when it is made."""

import os
import warnings
from enum import Enum
from typing import Any

from popart_core import SessionOptions, VirtualGraphMode
from popart_core import _ir as _core

# The options that popxl.Session follows; popxl.ops also checks partialsTypeMatMuls. Options about fetching host data
# ahead have no effect here: host data are arrays that are complete when a run starts.
_HEEDED = (
    "rearrangeAnchorsOnHost",
    "rearrangeStreamsOnHost",
    "enablePrefetchDatastreams",
    "defaultBufferingDepth",
    "defaultPrefetchBufferingDepth",
    "useHostCopyOps",
    "enableExplicitMainLoops",
    "enableStochasticRounding",
    "enableLoadAndOffloadRNGState",
    "throwIfLog2ScaleTensorNotInRange",
    "partialsTypeMatMuls",
    "enableReplicatedGraphs",
    "replicatedGraphCount",
    "enableDistributedReplicatedGraphs",
    "globalReplicationFactor",
    "globalReplicaOffset",
    "enableInplaceAmbiguityChecking",
    "enableEngineCaching",
    "cachePath",
    "engineOptions",
    "dotChecks",
    "logDir",
    "numIOTiles",
)


def _new_options() -> SessionOptions:
    options = SessionOptions()
    options.virtualGraphMode = VirtualGraphMode.Manual
    options.enableExplicitMainLoops = True
    options.useHostCopyOps = True
    options.explicitRecomputation = True
    options.aliasZeroCopy = True
    options.enableInplaceAmbiguityChecking = True
    options.enableVariablesCaching = False
    options.decomposeGradSum = True
    return options


def get_session_options(self: Any) -> SessionOptions:
    """Return the options, which the program may change."""
    if not hasattr(self, "_session_options"):
        self._session_options = _new_options()
    return self._session_options


def dot_checks(options: SessionOptions) -> set[str]:
    """Checkpoints that write DOT files, in upper case: those of the options and of POPART_DOT_CHECKS."""
    given = {*options.dotChecks, *os.environ.get("POPART_DOT_CHECKS", "").split(":")}
    return {str(getattr(name, "name", name)).upper() for name in given} - {""}


def local_replicas(options: SessionOptions) -> int:
    """Replicas of this process."""
    return options.replicatedGraphCount if options.enableReplicatedGraphs else 1


def global_replicas(options: SessionOptions) -> int:
    """Replicas of all processes."""
    return options.getGlobalReplicationFactor()


def set_replicas(options: SessionOptions, count: int) -> None:
    """Set the number of replicas of each process."""
    processes = global_replicas(options) // local_replicas(options)
    options.enableReplicatedGraphs, options.replicatedGraphCount = count > 1, count
    if options.enableDistributedReplicatedGraphs:
        options.globalReplicationFactor = count * processes


def set_distributed_replicas(options: SessionOptions, total: int, local: int, offset: int) -> None:
    """Set the number of replicas in all processes, the number in this process, and the index of its first one."""
    set_replicas(options, local)
    if total > local:
        options.enableDistributedReplicatedGraphs = True
        options.globalReplicationFactor, options.globalReplicaOffset = total, offset


def unheeded_options(pb_ir: Any) -> list[str]:
    """Names of changed options that popxl.Session does not follow, but that affect results or memory elsewhere."""
    given = getattr(pb_ir, "_session_options", None)
    if given is None:
        return []
    fresh, table = _new_options(), type(given)
    names = [n for n in dir(given) if isinstance(getattr(table, n), property) and n not in _HEEDED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about older names of options
        changed = [n for n in names if _differ(getattr(given, n), getattr(fresh, n))]
    return [n for n in changed if not (getattr(table, n).__doc__ or "").startswith("no effect")]


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, (bool, int, float, str, Enum)) and a != b


_core.Ir.getSessionOptions = get_session_options
