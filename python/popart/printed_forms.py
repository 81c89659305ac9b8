"""Printed forms of the core's value objects: ``InputSettings(tileSet=TileSet.IO, …)``."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import popart_core

# Class -> members to show, in order; methods are called.
_MEMBERS = {
    "AccumulateOuterFragmentSettings": "schedule excludedVirtualGraphs",
    "AutodiffSettings": "stitchStrategy",
    "AutomaticLossScalingSettings": "enabled toTrackTensors binEdgeLocation thresholdUpperCountProportion updatePeriod "
    "gradientTensorTrackingMethod",
    "BatchSerializationSettings": "factor concatOnVirtualGraphChange concatOnExecutionPhaseChange "
    "concatOnPipelineStageChange transformContext method batchSchedule",
    "ClipNormSettings": "weightIds maxNorm",
    "CommGroup": "type replicaGroupSize",
    "DeveloperSettings": "minTensorsForPrefetch",
    "ExecutionPhaseSettings": "phases stages weightIOSchedule activationIOSchedule optimizerStateIOSchedule "
    "accumulatorIOSchedule schedule",
    "ExperimentalSettings": "customTransformApplierSettings createHostTransferableTensorWithOffset",
    "InputSettings": "tileSet exchangeStrategy replicatedStreamMode",
    "OpDefinition": "inputs outputs attributes",
    "OpDefinitionAttribute": "supportedValuesRegex",
    "OptimizerValue": "val isConst",
    "ReplicatedCollectivesSettings": "prepareScheduleForMergingCollectives mergeAllReduceCollectives "
    "mergeReduceScatterCollectives mergeAllGatherCollectives",
    "TensorLocation": "storage loadTileSet storageTileSet replicatedTensorSharding shardingDomain",
    "TensorLocationSettings": "location minElementsForOffChip minElementsForReplicatedTensorSharding",
}
_OPTIMIZERS = {
    "SGD": "learningRates weightDecays momentums dampenings velocityScalings nesterov",
    "ConstSGD": "learningRates weightDecays",
    "Adam": "learningRates weightDecays beta1s beta2s epss maxWeightNorms",
    "Adaptive": "learningRates weightDecays alphas momentums epss",
}


def _text(value: Any) -> str:
    """Print members of enumerations by name, and containers of the core like Python's."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if hasattr(value, "items"):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_text, value))) + "}"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _form(name: str, members: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{member}={_text(value)}' for member, value in members.items())})"


def _member(value: Any, name: str) -> Any:
    found = getattr(value, name)
    return found() if callable(found) else found


def _of_members(members: Iterable[str]) -> Callable[[Any], str]:
    names = list(members)
    return lambda self: _form(type(self).__name__, {name: _member(self, name) for name in names})


def _optimizer(self: Any) -> str:
    names = next(_OPTIMIZERS[c.__name__] for c in type(self).__mro__ if c.__name__ in _OPTIMIZERS).split()
    return _form(type(self).__name__, {name: getattr(self, name)().getDefault() for name in names})


def _data_flow(self: "popart_core.DataFlow") -> str:
    anchors = {name: self.art(name) for name in self.anchors()}
    return _form("DataFlow", {"batchesPerStep": self.batchesPerStep(), "anchorTensors": anchors})


def _anchor_return_type(self: "popart_core.AnchorReturnType") -> str:
    kind = self.id()
    period = f", {self.rp()}" if kind == popart_core.AnchorReturnTypeId.EveryN else ""
    return f"AnchorReturnType({kind.name!r}{period})"


def _variable_settings(self: "popart_core.VariableSettings") -> str:
    grouping = (
        {"sharedVariableDomain_": self.getSharedVariableDomain()}
        if self.isUsingCommGroup()
        else {"stride": self.getStride(), "groupSize": self.getGroupSize()}
    )
    return _form("VariableSettings", {**grouping, "retrievalMode_": self.getRetrievalMode()})


def _session_options(self: "popart_core.SessionOptions") -> str:
    """The options that differ from a new object's."""
    fresh = popart_core.SessionOptions()
    given = {}
    for name in dir(self):
        value = None if name.startswith("_") else getattr(self, name)
        if value is not None and not callable(value) and _text(value) != _text(getattr(fresh, name)):
            given[name] = value
    return _form("SessionOptions", given)


def _define(name: str, form: Callable[[Any], str]) -> None:
    setattr(getattr(popart_core, name), "__repr__", form)  # noqa: B010 (a class of the core has no such attribute)


for _name, _names in _MEMBERS.items():
    _define(_name, _of_members(_names.split()))
for _name in _OPTIMIZERS:
    _define(_name, _optimizer)
_define("AnchorReturnType", _anchor_return_type)
_define("DataFlow", _data_flow)
_define("VariableSettings", _variable_settings)
_define("SessionOptions", _session_options)
_define("ReplicaGrouping", lambda self: str(self))
_define("OptimizerValueMap", lambda self: _form("OptimizerValueMap", {"default": self.getDefault()}))
_define("NumIOTiles", lambda self: f"NumIOTiles({int(self)})")
_define(
    "OpDefinitionOperand",
    lambda self: _form("OpDefinitionOperand", {"name": self.name, "supportedTensors": self.supportedTensors}),
)
for _name in ("_StringMap", "_TensorLocationMap"):
    _define(_name, lambda self: _text(dict(self.items())))
