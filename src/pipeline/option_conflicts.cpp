// See option_conflicts.hpp.
#include "pipeline/option_conflicts.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <popart/error.hpp>

namespace popart::pipeline {
namespace {

using Options = SessionOptions;
struct Conflict {
  OptionApplies applies;
  const char *message;  // "{}" is replaced by the value that was found
  std::string (*found)(const Options &) = nullptr;
};

bool isTooShallow(const std::pair<const TensorId, int> &depth) { return depth.second < 1; }
bool badSplitRatio(float ratio) { return !(ratio > 0.0f && ratio < 1.0f); }

bool scalesLoss(const Options &options, RunMode mode) {
  return options.automaticLossScalingSettings.enabled && mode == RunMode::Training;
}
bool isShare(float value) { return value >= 0.0f && value <= 1.0f; }
bool tracksNamed(const Options &options) {
  return options.automaticLossScalingSettings.gradientTensorTrackingMethod ==
         GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors;
}

std::string lowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char ch) { return std::tolower(ch); });
  return text;
}

// The name of the first option that puts tensors on IO tiles; empty if there is none.
std::string locationOnIoTiles(const Options &o) {
  const auto isOnIo = [](const TensorLocation &location) {
    return location.loadTileSet == TileSet::IO || location.storageTileSet == TileSet::IO;
  };
  const std::pair<const char *, const TensorLocationSettings &> kinds[] = {
      {"activationTensorLocationSettings", o.activationTensorLocationSettings},
      {"weightTensorLocationSettings", o.weightTensorLocationSettings},
      {"optimizerStateTensorLocationSettings", o.optimizerStateTensorLocationSettings},
      {"accumulatorTensorLocationSettings", o.accumulatorTensorLocationSettings}};
  for (const auto &[name, settings] : kinds)
    if (isOnIo(settings.location)) return std::string(name) + ".location";
  for (const auto &[id, location] : o.tensorLocationSettingsOverride)
    if (isOnIo(location)) return "tensorLocationSettingsOverride['" + id + "']";
  return "";
}

bool isPrecision(const std::string &name) {
  return name.empty() || name == "float32" || name == "bfloat16" || name == "float16";
}

constexpr Conflict kConflicts[] = {
    {[](const Options &o, RunMode) { return !isPrecision(o.precision); },
     "precision must be 'bfloat16', 'float16', 'float32' or empty: got '{}'",
     [](const Options &o) { return o.precision; }},
    {[](const Options &o, RunMode) { return o.accumulationFactor < 1; },
     "accumulationFactor must be 1 or more: got {}. Set it to the micro-batches per weight update",
     [](const Options &o) { return toText(o.accumulationFactor); }},
    {[](const Options &o, RunMode) { return o.accumulationFactor > 1 && !o.enableGradientAccumulation; },
     "accumulationFactor is above 1, but enableGradientAccumulation is off: got {}. Turn it on, or set "
     "accumulationFactor "
     "to 1",
     [](const Options &o) { return toText(o.accumulationFactor); }},
    {[](const Options &o, RunMode mode) { return o.enableGradientAccumulation && mode == RunMode::Inference; },
     "enableGradientAccumulation is only for training. Turn it off for an inference session"},
    {[](const Options &o, RunMode) { return o.enableReplicatedGraphs && o.replicatedGraphCount < 1; },
     "replicatedGraphCount must be 1 or more: got {}", [](const Options &o) { return toText(o.replicatedGraphCount); }},
    {[](const Options &o, RunMode) { return o.globalReplicationFactor < 1; },
     "globalReplicationFactor must be 1 or more: got {}",
     [](const Options &o) { return toText(o.globalReplicationFactor); }},
    {[](const Options &o, RunMode) { return o.globalReplicaOffset < 0; },
     "globalReplicaOffset must be 0 or more: got {}", [](const Options &o) { return toText(o.globalReplicaOffset); }},
    {[](const Options &o, RunMode) { return o.globalReplicaOffset > o.globalReplicationFactor; },
     "globalReplicaOffset must not exceed globalReplicationFactor: got {}",
     [](const Options &o) { return toText(o.globalReplicaOffset) + " and " + toText(o.globalReplicationFactor); }},
    {[](const Options &o, RunMode) {
       return o.enableDistributedReplicatedGraphs && o.getLocalReplicationFactor() > o.globalReplicationFactor;
     },
     "replicatedGraphCount must not exceed globalReplicationFactor: got {}",
     [](const Options &o) {
       return toText(o.getLocalReplicationFactor()) + " and " + toText(o.globalReplicationFactor);
     }},
    {[](const Options &o, RunMode) {
       return o.enableDistributedReplicatedGraphs && o.globalReplicationFactor % o.getLocalReplicationFactor() != 0;
     },
     "globalReplicationFactor must be a multiple of replicatedGraphCount: got {}. Give each process as many replicas",
     [](const Options &o) {
       return toText(o.globalReplicationFactor) + " and " + toText(o.getLocalReplicationFactor());
     }},
    {[](const Options &o, RunMode) {
       return o.enableDistributedReplicatedGraphs && (o.globalReplicaOffset % o.getLocalReplicationFactor() != 0 ||
                                                      o.globalReplicaOffset >= o.globalReplicationFactor);
     },
     "globalReplicaOffset must be a multiple of replicatedGraphCount and below globalReplicationFactor: got {}. Set it "
     "to the number of the first replica of this process",
     [](const Options &o) {
       return formatText(
           "{}, with {} replicas here of {}",
           {toText(o.globalReplicaOffset), toText(o.getLocalReplicationFactor()), toText(o.globalReplicationFactor)});
     }},
    {[](const Options &o, RunMode) {
       return o.enableDistributedReplicatedGraphs && o.enableReplicatedGraphs && o.replicatedGraphCount == 1;
     },
     "enableReplicatedGraphs is on with one local replica: got replicatedGraphCount 1. Turn enableReplicatedGraphs "
     "off, "
     "or set replicatedGraphCount to the replicas of this process"},
    {[](const Options &o, RunMode) { return o.numIOTiles < 1 && !locationOnIoTiles(o).empty(); },
     "numIOTiles must be 1 or more for tensors on IO tiles: got {}. Set it, or loadTileSet and storageTileSet to "
     "Compute",
     [](const Options &o) { return toText(o.numIOTiles.numIOTiles) + " and " + locationOnIoTiles(o); }},
    {[](const Options &o, RunMode) { return o.enableExplicitMainLoops && !o.useHostCopyOps; },
     "enableExplicitMainLoops requires useHostCopyOps. Turn both on, or call enableExplicitIR(True)"},
    {[](const Options &o, RunMode) { return o.aliasZeroCopy && !o.explicitRecomputation; },
     "aliasZeroCopy requires explicitRecomputation. Turn it on"},
    {[](const Options &o, RunMode) { return o.aliasZeroCopy && o.implicitPipeliningEnabled(); },
     "aliasZeroCopy does not go with implicit pipelining. Turn one of the two off"},
    {[](const Options &o, RunMode) {
       return o.implicitPipeliningEnabled() && o.virtualGraphMode == VirtualGraphMode::Off;
     },
     "enablePipelining requires more than one virtual graph: got virtualGraphMode Off. Set virtualGraphMode to Manual "
     "and give ops a virtualGraph"},
    {[](const Options &o, RunMode) { return o.explicitPipeliningEnabled() && !o.explicitRecomputation; },
     "enablePipelining with useHostCopyOps and enableExplicitMainLoops, explicit pipelining, requires "
     "explicitRecomputation. Turn it on, or call enableExplicitIR(True)"},
    {[](const Options &o, RunMode) { return o.executionPhaseSettings.phases < 0; },
     "executionPhaseSettings.phases must not be negative: got {}. Set it to the number of phases, 0 or 1 for none",
     [](const Options &o) { return toText(o.executionPhaseSettings.phases); }},
    {[](const Options &o, RunMode) {
       return o.executionPhaseSettings.phases > 1 && o.virtualGraphMode != VirtualGraphMode::ExecutionPhases;
     },
     "executionPhaseSettings.phases above 1 requires virtualGraphMode ExecutionPhases: got {} phases. Set it, or "
     "phases to "
     "0",
     [](const Options &o) { return toText(o.executionPhaseSettings.phases); }},
    {[](const Options &o, RunMode) {
       return o.executionPhaseSettings.phases > 1 &&
              (o.executionPhaseSettings.stages < 1 || o.executionPhaseSettings.stages > 2);
     },
     "executionPhaseSettings.stages must be 1 or 2: got {}. Phases run on one IPU, or by turns on two",
     [](const Options &o) { return toText(o.executionPhaseSettings.stages); }},
    {[](const Options &o, RunMode) {
       return o.mergeVarUpdate != MergeVarUpdateType::None &&
              (o.mergeVarUpdateMemThreshold < 1 || o.looseThresholdAtPeak < 0);
     },
     "mergeVarUpdateMemThreshold must be 1 or more and looseThresholdAtPeak not negative: got {}. Give both in bytes",
     [](const Options &o) { return toText(o.mergeVarUpdateMemThreshold) + " and " + toText(o.looseThresholdAtPeak); }},
    {[](const Options &o, RunMode) { return o.batchSerializationSettings.factor < 0; },
     "batchSerializationSettings.factor must not be negative: got {}. Set it to the number of parts, 0 or 1 for none",
     [](const Options &o) { return toText(o.batchSerializationSettings.factor); }},
    {[](const Options &o, RunMode mode) {
       return o.batchSerializationSettings.method == BatchSerializationMethod::Loop &&
              o.batchSerializationSettings.factor > 1 &&
              o.batchSerializationSettings.transformContext == BatchSerializationTransformContext::Fwd &&
              mode == RunMode::Training;
     },
     "batchSerializationSettings: method Loop in the forward context cannot be differentiated. Use transformContext "
     "Bwd or another method"},
    {[](const Options &o, RunMode) { return std::ranges::any_of(o.virtualGraphSplitRatios, badSplitRatio); },
     "virtualGraphSplitRatios must be between 0 and 1: got {}",
     [](const Options &o) { return toText(*std::ranges::find_if(o.virtualGraphSplitRatios, badSplitRatio)); }},
    {[](const Options &o, RunMode) { return o.defaultBufferingDepth < 1; },
     "defaultBufferingDepth must be 1 or more: got {}",
     [](const Options &o) { return toText(o.defaultBufferingDepth); }},
    {[](const Options &o, RunMode) { return std::ranges::any_of(o.bufferingDepthMap, isTooShallow); },
     "bufferingDepthMap: buffering depths must be 1 or more: got {}",
     [](const Options &o) {
       const auto &[id, depth] = *std::ranges::find_if(o.bufferingDepthMap, isTooShallow);
       return toText(depth) + " for '" + id + "'";
     }},
    {[](const Options &o, RunMode) {
       return o.createImplicitPipeliningFwdOnlyProgram && o.explicitPipeliningEnabled();
     },
     "createImplicitPipeliningFwdOnlyProgram requires implicit pipelining: got explicit pipelining (useHostCopyOps and "
     "enableExplicitMainLoops). Turn one of the two off"},
    {[](const Options &o, RunMode) { return o.createImplicitPipeliningFwdOnlyProgram && !o.enablePipelining; },
     "createImplicitPipeliningFwdOnlyProgram requires implicit pipelining: got enablePipelining off. Turn it on"},
    {[](const Options &o, RunMode) {
       return o.createImplicitPipeliningFwdOnlyProgram && !o.enableGradientAccumulation;
     },
     "createImplicitPipeliningFwdOnlyProgram requires gradient accumulation: got enableGradientAccumulation off. Turn "
     "it on"},
    {[](const Options &o, RunMode) {
       const std::string type = lowerCase(o.partialsTypeMatMuls);
       return !type.empty() && type != "float" && type != "half";
     },
     "partialsTypeMatMuls must be 'float', 'half' or empty: got '{}'",
     [](const Options &o) { return o.partialsTypeMatMuls; }},
    {[](const Options &o, RunMode mode) {
       return scalesLoss(o, mode) && !isShare(o.automaticLossScalingSettings.binEdgeLocation);
     },
     "automaticLossScalingSettings.binEdgeLocation must be between 0 and 1: got {}",
     [](const Options &o) { return toText(o.automaticLossScalingSettings.binEdgeLocation); }},
    {[](const Options &o, RunMode mode) {
       return scalesLoss(o, mode) && !isShare(o.automaticLossScalingSettings.thresholdUpperCountProportion);
     },
     "automaticLossScalingSettings.thresholdUpperCountProportion must be between 0 and 1: got {}",
     [](const Options &o) { return toText(o.automaticLossScalingSettings.thresholdUpperCountProportion); }},
    {[](const Options &o, RunMode mode) {
       return scalesLoss(o, mode) && o.automaticLossScalingSettings.toTrackTensors.has_value() != tracksNamed(o);
     },
     "automaticLossScalingSettings: toTrackTensors and gradientTensorTrackingMethod "
     "GradientsOfUserSpecifiedTensors come together only. Set both or none"},
    {[](const Options &o, RunMode mode) {
       return scalesLoss(o, mode) && o.automaticLossScalingSettings.updatePeriod < 1;
     },
     "automaticLossScalingSettings.updatePeriod must be 1 or more: got {}",
     [](const Options &o) { return toText(o.automaticLossScalingSettings.updatePeriod); }},
    {[](const Options &o, RunMode mode) {
       return o.automaticLossScalingSettings.enabled && mode == RunMode::Inference;
     },
     "automaticLossScalingSettings.enabled: inference has no loss to scale: got an inference session, expected a "
     "training session. Turn it off"},
    {[](const Options &o, RunMode mode) {
       return scalesLoss(o, mode) && o.enablePipelining && !o.enableGradientAccumulation;
     },
     "automaticLossScalingSettings with enablePipelining requires gradient accumulation. Turn "
     "enableGradientAccumulation on"},
};

}  // namespace

void checkConflicts(const SessionOptions &options, RunMode mode) {
  for (const Conflict &conflict : kConflicts) {
    if (!conflict.applies(options, mode)) continue;
    throw error("SessionOptions: {}",
                conflict.found ? formatText(conflict.message, {conflict.found(options)}) : conflict.message);
  }
}

}  // namespace popart::pipeline
