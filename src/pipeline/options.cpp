// Tables of option conflicts and of options not supported yet, and the mapping to per-pass options.
#include "pipeline/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <popart/error.hpp>

namespace popart::pipeline {
namespace {

using Options = SessionOptions;
using Applies = bool (*)(const Options &, RunMode);

struct Conflict {
  Applies applies;
  const char *message;
};

bool badSplitRatio(float ratio) { return !(ratio > 0.0f && ratio < 1.0f); }

constexpr Conflict kConflicts[] = {
    {[](const Options &o, RunMode) { return o.accumulationFactor < 1; },
     "accumulationFactor must be 1 or more. Set it to the micro-batches per weight update"},
    {[](const Options &o, RunMode) { return o.accumulationFactor > 1 && !o.enableGradientAccumulation; },
     "accumulationFactor is above 1, but enableGradientAccumulation is off. Turn it on, or set accumulationFactor to "
     "1"},
    {[](const Options &o, RunMode mode) { return o.enableGradientAccumulation && mode == RunMode::Inference; },
     "enableGradientAccumulation is only for training. Turn it off for an inference session"},
    {[](const Options &o, RunMode) { return o.enableReplicatedGraphs && o.replicatedGraphCount < 1; },
     "replicatedGraphCount must be 1 or more"},
    {[](const Options &o, RunMode) { return o.globalReplicationFactor < 1; },
     "globalReplicationFactor must be 1 or more"},
    {[](const Options &o, RunMode) { return o.globalReplicaOffset < 0; }, "globalReplicaOffset must be 0 or more"},
    {[](const Options &o, RunMode) { return o.globalReplicaOffset > o.globalReplicationFactor; },
     "globalReplicaOffset must not exceed globalReplicationFactor"},
    {[](const Options &o, RunMode) {
       return o.enableDistributedReplicatedGraphs && o.getLocalReplicationFactor() > o.globalReplicationFactor;
     },
     "replicatedGraphCount must not exceed globalReplicationFactor"},
    {[](const Options &o, RunMode) { return o.enableExplicitMainLoops && !o.useHostCopyOps; },
     "enableExplicitMainLoops requires useHostCopyOps. Turn both on, or call enableExplicitIR(True)"},
    {[](const Options &o, RunMode) { return o.aliasZeroCopy && !o.explicitRecomputation; },
     "aliasZeroCopy requires explicitRecomputation. Turn it on"},
    {[](const Options &o, RunMode) { return o.aliasZeroCopy && o.implicitPipeliningEnabled(); },
     "aliasZeroCopy does not go with implicit pipelining. Turn one of the two off"},
    {[](const Options &o, RunMode) { return o.enablePipelining && o.virtualGraphMode == VirtualGraphMode::Off; },
     "enablePipelining requires more than one virtual graph: got virtualGraphMode Off. Set virtualGraphMode to Manual "
     "and give ops a virtualGraph"},
    {[](const Options &o, RunMode) {
       return o.executionPhaseSettings.phases > 1 && o.virtualGraphMode != VirtualGraphMode::ExecutionPhases;
     },
     "executionPhaseSettings.phases above 1 requires virtualGraphMode ExecutionPhases"},
    {[](const Options &o, RunMode mode) {
       return o.batchSerializationSettings.method == BatchSerializationMethod::Loop &&
              o.batchSerializationSettings.factor > 1 &&
              o.batchSerializationSettings.transformContext == BatchSerializationTransformContext::Fwd &&
              mode == RunMode::Training;
     },
     "batchSerializationSettings: method Loop in the forward context cannot be differentiated. Use transformContext "
     "Bwd or another method"},
    {[](const Options &o, RunMode) { return std::ranges::any_of(o.virtualGraphSplitRatios, badSplitRatio); },
     "virtualGraphSplitRatios must lie between 0 and 1"},
    {[](const Options &o, RunMode) { return o.defaultBufferingDepth < 1; }, "defaultBufferingDepth must be 1 or more"},
    {[](const Options &o, RunMode) {
       return std::ranges::any_of(o.bufferingDepthMap, [](const auto &e) { return e.second < 1; });
     },
     "bufferingDepthMap: buffering depths must be 1 or more"},
    {[](const Options &o, RunMode) {
       return o.createImplicitPipeliningFwdOnlyProgram &&
              !(o.implicitPipeliningEnabled() && o.enableGradientAccumulation);
     },
     "createImplicitPipeliningFwdOnlyProgram requires implicit pipelining and gradient accumulation"},
    {[](const Options &o, RunMode) {
       return !o.partialsTypeMatMuls.empty() && o.partialsTypeMatMuls != "float" && o.partialsTypeMatMuls != "half" &&
              o.partialsTypeMatMuls != "FLOAT" && o.partialsTypeMatMuls != "HALF" && o.partialsTypeMatMuls != "Float" &&
              o.partialsTypeMatMuls != "Half";
     },
     "partialsTypeMatMuls must be 'float', 'half' or empty"},
};

struct Unsupported {
  const char *name;
  Applies applies;
  const char *reason;
};

constexpr Unsupported kUnsupported[] = {
    {"syntheticDataMode", [](const Options &o, RunMode) { return o.syntheticDataMode != SyntheticDataMode::Off; },
     "inputs always come from the host. Leave it Off"},
    {"enableReplicatedGraphs",
     [](const Options &o, RunMode) { return o.enableReplicatedGraphs && o.replicatedGraphCount > 1; },
     "a session runs one replica. Set replicatedGraphCount to 1"},
    {"enableDistributedReplicatedGraphs",
     [](const Options &o, RunMode) { return o.enableDistributedReplicatedGraphs && o.globalReplicationFactor > 1; },
     "a session runs in one process. Set globalReplicationFactor to 1"},
    {"enableFloatingPointChecks", [](const Options &o, RunMode) { return o.enableFloatingPointChecks; },
     "invalid operations give NaN or infinity. Leave it off and check the results"},
    {"enableStochasticRounding", [](const Options &o, RunMode) { return o.enableStochasticRounding; },
     "results are rounded to nearest even. Leave it off"},
    {"enableLoadAndOffloadRNGState", [](const Options &o, RunMode) { return o.enableLoadAndOffloadRNGState; },
     "random numbers depend on the seed alone. Use setRandomSeed and getRandomSeed"},
    {"automaticLossScalingSettings", [](const Options &o, RunMode) { return o.automaticLossScalingSettings.enabled; },
     "the loss scale is the optimizer's. Give lossScaling to the optimizer"},
    {"groupNormStridedChannelGrouping", [](const Options &o, RunMode) { return o.groupNormStridedChannelGrouping; },
     "group normalisation groups neighbouring channels. Leave it off"},
    {"createImplicitPipeliningFwdOnlyProgram",
     [](const Options &o, RunMode) { return o.createImplicitPipeliningFwdOnlyProgram; },
     "a session has one program. Make an inference session for the forward pass"},
    {"updatableNamedBuffers", [](const Options &o, RunMode) { return !o.updatableNamedBuffers.empty(); },
     "buffers cannot be updated alone. Use weightsFromHost"},
    {"customCodelets", [](const Options &o, RunMode) { return !o.customCodelets.empty(); },
     "codelets are code for IPU tiles. Register a kernel with popart::registerKernel"},
    {"experimentalSettings",
     [](const Options &o, RunMode) { return !o.experimentalSettings.customTransformApplierSettings.empty(); },
     "custom transforms are not run. Leave customTransformApplierSettings empty"},
};

void addDotChecks(PipelineOptions &result, std::string_view names) {
  std::stringstream stream{std::string(names)};
  for (std::string name; std::getline(stream, name, ':');)
    if (!name.empty() && std::ranges::find(result.dotChecks, name) == result.dotChecks.end())
      result.dotChecks.push_back(name);
}

}  // namespace

void checkOptions(const SessionOptions &options, RunMode mode) {
  for (const Conflict &conflict : kConflicts)
    if (conflict.applies(options, mode)) throw error("SessionOptions: {}", conflict.message);
  for (const Unsupported &option : kUnsupported)
    if (option.applies(options, mode))
      throw error("SessionOptions::{} is not supported yet: {}", option.name, option.reason);
}

std::vector<std::string> unsupportedOptionNames() {
  std::vector<std::string> names;
  for (const Unsupported &option : kUnsupported) names.push_back(option.name);
  return names;
}

OptimizerFactors optimizerFactors(const SessionOptions &options) {
  OptimizerFactors factors;
  factors.accumulates = options.enableGradientAccumulation;
  factors.accumulationFactor = options.getAccumulationFactor();
  factors.replicationFactor = options.getGlobalReplicationFactor();
  if (options.accumulationAndReplicationReductionType == ReductionType::Mean)
    factors.reduction = options.meanAccumulationAndReplicationReductionStrategy == MeanReductionStrategy::Post
                            ? OptimizerFactors::Reduction::MeanPost
                            : OptimizerFactors::Reduction::MeanRunning;
  return factors;
}

PipelineOptions pipelineOptions(const SessionOptions &options) {
  PipelineOptions result;
  result.factors = optimizerFactors(options);
  result.logDir = options.logDir.empty() ? "." : options.logDir;
  result.dotChecks.assign(options.dotChecks.begin(), options.dotChecks.end());
  if (const char *names = std::getenv("POPART_DOT_CHECKS")) addDotChecks(result, names);
  return result;
}

}  // namespace popart::pipeline
