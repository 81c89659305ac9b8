// Refusals and warnings by the rows of options_table.hpp, and the options of single passes.
#include "pipeline/options.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <sstream>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"
#include "base/nearest.hpp"
#include "pipeline/option_conflicts.hpp"

namespace popart::pipeline {
namespace {

using Options = SessionOptions;

// Whether this process calls it with this text for the first time. Thread-safe.
bool firstTime(const std::string &what) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  return said.insert(what).second;
}

// ---- keys of the maps of option texts

bool matches(std::string_view pattern, std::string_view key) {
  if (!pattern.ends_with('*')) return pattern == key;
  pattern.remove_suffix(1);
  return key.starts_with(pattern);
}

const OptionKey *findKey(std::string_view map, std::string_view key) {
  for (const OptionKey &row : optionKeys())
    if (row.map == map && matches(row.name, key)) return &row;
  return nullptr;
}

// Whether the value switches nothing on.
bool isOff(const std::string &value) { return value.empty() || value == "false" || value == "0" || value == "none"; }

void warnAboutKeys(const std::string &map, const Options::StringMap &options) {
  for (const auto &[key, value] : options) {
    const OptionKey *row = findKey(map, key);
    if (row && (row->kind != OptionKind::Warned || isOff(value))) continue;
    if (!firstTime(map + '.' + key)) continue;
    if (row) {
      logging::session::warn("SessionOptions::{}['{}'] has no effect here: {}", map, key, row->remark);
      continue;
    }
    std::vector<std::string> names;
    for (const OptionKey &known : optionKeys())
      if (known.map == map) names.push_back(known.name);
    logging::session::warn("SessionOptions::{}['{}'] has no effect: the key is not known{}", map, key,
                           nearestText(key, names, "known key", 1));
  }
}

void warnAboutKeys(const Options &options) {
  warnAboutKeys("engineOptions", options.engineOptions);
  warnAboutKeys("convolutionOptions", options.convolutionOptions);
  warnAboutKeys("lstmOptions", options.lstmOptions);
  warnAboutKeys("matmulOptions", options.matmulOptions);
  warnAboutKeys("reportOptions", options.reportOptions);
  warnAboutKeys("gclOptions", options.gclOptions);
}

void addDotChecks(PipelineOptions &result, std::string_view names) {
  std::stringstream stream{std::string(names)};
  for (std::string name; std::getline(stream, name, ':');)
    if (!name.empty() && std::ranges::find(result.dotChecks, name) == result.dotChecks.end())
      result.dotChecks.push_back(name);
}

// Checkpoints that have no phase here belong to PopART's own pipelines.
constexpr const char *kDotChecks =
    "FWD0:FWD1:BWD0:PREALIAS:MAINLOOPS:FINAL:EXPLICITPIPELINEBEFOREOUTLINE:EXPLICITPIPELINEAFTEROUTLINE:"
    "EXPLICITPIPELINEAFTERDECOMPOSE:ALL";

void warnAboutDotChecks(const std::vector<std::string> &names) {
  PipelineOptions known;
  addDotChecks(known, kDotChecks);
  for (const std::string &name : names) {
    std::string wanted = name;
    std::ranges::transform(wanted, wanted.begin(), [](unsigned char ch) { return std::toupper(ch); });
    if (std::ranges::count(known.dotChecks, wanted) != 0 || !firstTime("dotChecks." + name)) continue;
    logging::session::warn("SessionOptions::dotChecks: there is no checkpoint '{}'{}", name,
                           nearestText(wanted, known.dotChecks));
  }
}

}  // namespace

void checkOptions(const SessionOptions &options, RunMode mode) {
  checkConflicts(options, mode);
  for (const OptionRow &row : optionRows()) {
    if (!row.applies || !row.applies(options, mode)) continue;
    if (row.kind == OptionKind::Refused)
      throw error("SessionOptions::{} is not supported yet: {}", row.name, row.remark);
    if (firstTime(row.name)) logging::session::warn("SessionOptions::{} has no effect here: {}", row.name, row.remark);
  }
  warnAboutKeys(options);
}

void warnAboutLocations(const Ir &ir, const transforms::OffChip &rules) {
  std::vector<std::string> names;
  for (const auto &[id, moves] : rules.byTensor) {
    const auto has = [&wanted = id](const Graph *graph) { return graph->find(wanted).valid(); };
    if (std::ranges::any_of(ir.getAllGraphs(), has) || !firstTime("tensorLocationSettingsOverride." + id)) continue;
    if (names.empty())
      for (const Tensor *t : ir.getMainGraph().tensors()) names.push_back(t->id);
    logging::session::warn(
        "SessionOptions::tensorLocationSettingsOverride['{}'] has no effect: the program has no tensor of this name{}",
        id, nearestText(id, names));
  }
}

void warnAboutMarks(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      for (const MarkRow &row : markRows())
        if (row.applies(*op) && firstTime(row.method))
          logging::session::warn("Builder::{} on '{}' has no effect here: {}", row.method, op->outId(0), row.remark);
}

SessionOptions withEnvironment(SessionOptions options) {
  options.engineOptions.merge(environment::engineOptions());  // options of the program take precedence
  if (const auto folder = environment::profileFolder()) options.engineOptions.emplace("profile", *folder);
  const bool isRandom = options.syntheticDataMode == SyntheticDataMode::RandomNormal ||
                        options.syntheticDataMode == SyntheticDataMode::RandomUniform;
  if (isRandom) options.engineOptions.emplace("ignore_out_of_range_labels", "true");  // random labels are no classes
  return options;
}

OptimizerFactors optimizerFactors(const SessionOptions &options) {
  const ReductionType reduction = options.accumulationAndReplicationReductionType;
  check(reduction == ReductionType::Sum || reduction == ReductionType::Mean,
        "SessionOptions::accumulationAndReplicationReductionType: got {}, expected Sum or Mean", reduction);
  OptimizerFactors factors;
  factors.accumulates = options.enableGradientAccumulation;
  factors.accumulationFactor = options.getAccumulationFactor();
  factors.replicationFactor = options.getGlobalReplicationFactor();
  if (reduction == ReductionType::Mean)
    factors.reduction = options.meanAccumulationAndReplicationReductionStrategy == MeanReductionStrategy::Post
                            ? OptimizerFactors::Reduction::MeanPost
                            : OptimizerFactors::Reduction::MeanRunning;
  return factors;
}

transforms::OffChip offChipRules(const SessionOptions &options) {
  const auto kind = [](const TensorLocationSettings &s) {
    return transforms::OffChip::Kind{s.location.storage == TensorStorage::OffChip, s.minElementsForOffChip};
  };
  transforms::OffChip rules;
  rules.weights = kind(options.weightTensorLocationSettings);
  rules.optimizerState = kind(options.optimizerStateTensorLocationSettings);
  rules.accumulators = kind(options.accumulatorTensorLocationSettings);
  rules.activations = kind(options.activationTensorLocationSettings);
  for (const auto &[id, location] : options.tensorLocationSettingsOverride)
    rules.byTensor[id] = location.storage == TensorStorage::OffChip;
  const ExecutionPhaseSettings &phases = options.executionPhaseSettings;
  const auto preloads = [](ExecutionPhaseIOSchedule schedule) { return schedule == ExecutionPhaseIOSchedule::Preload; };
  if (phases.phases > 1)
    rules.phases = {phases.phases,
                    preloads(phases.weightIOSchedule),
                    preloads(phases.activationIOSchedule),
                    preloads(phases.optimizerStateIOSchedule),
                    preloads(phases.accumulatorIOSchedule),
                    phases.schedule != ExecutionPhaseSchedule::Interleaving};
  return rules;
}

namespace {

transforms::AutomaticLossScale automaticLossScale(const AutomaticLossScalingSettings &settings) {
  using Tracked = transforms::AutomaticLossScale::Tracked;
  transforms::AutomaticLossScale result;
  switch (settings.gradientTensorTrackingMethod) {
    case GradientTensorTrackingMethod::ConvAndMatmulGradients:
      result.tracked = Tracked::ProductGradients;
      break;
    case GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors:
      result.tracked = Tracked::Named;
      break;
    default:
      break;
  }
  if (settings.toTrackTensors) result.named = *settings.toTrackTensors;
  result.binEdge = settings.binEdgeLocation;
  result.threshold = settings.thresholdUpperCountProportion;
  result.period = settings.updatePeriod;
  return result;
}

transforms::BatchSerialisation batchSerialisation(const BatchSerializationSettings &settings) {
  using transforms::BatchSerialisation;
  BatchSerialisation result;
  result.parts = settings.factor;
  result.method = settings.method == BatchSerializationMethod::UnrollStatic ? BatchSerialisation::Method::Static
                  : settings.method == BatchSerializationMethod::Loop       ? BatchSerialisation::Method::Loop
                                                                            : BatchSerialisation::Method::Dynamic;
  result.order =
      settings.batchSchedule == BatchSerializationBatchSchedule::Scheduler    ? BatchSerialisation::Order::Scheduler
      : settings.batchSchedule == BatchSerializationBatchSchedule::Isomorphic ? BatchSerialisation::Order::Isomorphic
                                                                              : BatchSerialisation::Order::CutAhead;
  result.joinsVirtualGraphs = settings.concatOnVirtualGraphChange;
  result.joinsExecutionPhases = settings.concatOnExecutionPhaseChange;
  result.joinsPipelineStages = settings.concatOnPipelineStageChange;
  return result;
}

transforms::RecomputeRule recomputeRule(RecomputationType type) {
  using transforms::RecomputeRule;
  switch (type) {
    case RecomputationType::Standard:
      return RecomputeRule::Standard;
    case RecomputationType::NormOnly:
      return RecomputeRule::Norms;
    case RecomputationType::Pipeline:
      return RecomputeRule::Stages;
    case RecomputationType::RecomputeAll:
      return RecomputeRule::All;
    case RecomputationType::None:
    case RecomputationType::N:
      break;
  }
  return RecomputeRule::Marked;
}

transforms::VirtualGraphs virtualGraphs(const SessionOptions &options) {
  using enum transforms::VirtualGraphRule;
  transforms::VirtualGraphs result;
  result.ratios = options.virtualGraphSplitRatios;
  switch (options.virtualGraphMode) {
    case VirtualGraphMode::Off:
      result.rule = Drop;
      break;
    case VirtualGraphMode::Manual:
      result.rule = Manual;
      break;
    case VirtualGraphMode::Auto:
      result.rule = Auto;
      break;
    case VirtualGraphMode::ExecutionPhases:
    case VirtualGraphMode::N:
      break;
  }
  return result;
}

}  // namespace

transforms::ShardRules shardRules(const SessionOptions &options) {
  const auto kind = [](const TensorLocation &location, int64_t leastElements) {
    return transforms::ShardRules::Kind{location.replicatedTensorSharding == ReplicatedTensorSharding::On,
                                        leastElements, location.shardingDomain};
  };
  const auto ofSettings = [&kind](const TensorLocationSettings &s) {
    return kind(s.location, s.minElementsForReplicatedTensorSharding);
  };
  transforms::ShardRules rules;
  rules.weights = ofSettings(options.weightTensorLocationSettings);
  rules.optimizerState = ofSettings(options.optimizerStateTensorLocationSettings);
  rules.accumulators = ofSettings(options.accumulatorTensorLocationSettings);
  for (const auto &[id, location] : options.tensorLocationSettingsOverride) rules.byTensor[id] = kind(location, 0);
  rules.replicas = options.getGlobalReplicationFactor();
  return rules;
}

namespace {

std::optional<transforms::UpdateMerging> updateMerging(const SessionOptions &options) {
  using Sizes = transforms::UpdateMerging::Sizes;
  if (options.mergeVarUpdate == MergeVarUpdateType::None) return std::nullopt;
  const Sizes sizes = options.mergeVarUpdate == MergeVarUpdateType::All         ? Sizes::All
                      : options.mergeVarUpdate == MergeVarUpdateType::AutoTight ? Sizes::Exact
                                                                                : Sizes::Loose;
  return transforms::UpdateMerging{sizes, options.mergeVarUpdateMemThreshold, options.looseThresholdAtPeak};
}

}  // namespace

lower::CollectiveRules collectiveRules(const SessionOptions &options) {
  constexpr int64_t kMostWaiting = int64_t{16} << 20;
  const ReplicatedCollectivesSettings &given = options.replicatedCollectivesSettings;
  lower::CollectiveRules rules;
  const auto set = [&](bool merges, lower::CollectiveRules::Merging &kind) {
    if (!merges) return;
    kind.together = INT64_MAX;
    if (given.prepareScheduleForMergingCollectives) kind.waiting = kMostWaiting;
  };
  set(given.mergeAllReduceCollectives, rules.reduce);
  set(given.mergeReduceScatterCollectives, rules.scatter);
  set(given.mergeAllGatherCollectives, rules.gather);
  return rules;
}

PipelineOptions pipelineOptions(const SessionOptions &options) {
  PipelineOptions result;
  if (options.batchSerializationSettings.factor > 1) {
    const bool forward = options.batchSerializationSettings.transformContext == BatchSerializationTransformContext::Fwd;
    (forward ? result.serialiseForward : result.serialiseWhole) =
        batchSerialisation(options.batchSerializationSettings);
  }
  result.factors = optimizerFactors(options);
  result.logDir = options.logDir.empty() ? "." : options.logDir;
  result.dotChecks.assign(options.dotChecks.begin(), options.dotChecks.end());
  if (const auto names = environment::dotChecks()) addDotChecks(result, *names);
  result.customTransforms = options.experimentalSettings.customTransformApplierSettings;
  result.stridesGroups = options.groupNormStridedChannelGrouping;
  warnAboutDotChecks(result.dotChecks);
  result.mergeUpdates = updateMerging(options);
  result.decomposeGradSum = options.decomposeGradSum;
  result.offChip = offChipRules(options);
  result.sharding = shardRules(options);
  result.executionPhases = options.executionPhaseSettings.phases;
  result.phaseStages = options.executionPhaseSettings.stages;
  result.floatLossScale = options.ensureFp32LossScaleTensor;
  if (options.automaticLossScalingSettings.enabled)
    result.automaticLossScale = automaticLossScale(options.automaticLossScalingSettings);
  if (options.precision == "bfloat16") result.precision = DataType::BFLOAT16;
  if (options.precision == "float16") result.precision = DataType::FLOAT16;
  result.serialiseProducts = options.enableSerializedMatmuls;
  if (options.enableOutlining) result.outlineThreshold = options.outlineThreshold;
  result.mergesExchanges = options.enableMergeExchange;
  result.recompute = recomputeRule(options.autoRecomputation);
  result.recomputesMarkedToo = options.executionPhaseSettings.phases >= 2;
  result.virtualGraphs = virtualGraphs(options);
  using Form = transforms::PipelineRules::Form;
  if (options.enablePipelining)
    result.pipelines = options.explicitPipeliningEnabled() ? Form::Explicit : Form::Implicit;
  result.updatesInTurn = options.accumulateOuterFragmentSettings.schedule == AccumulateOuterFragmentSchedule::Serial;
  return result;
}

}  // namespace popart::pipeline
