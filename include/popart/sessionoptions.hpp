// SessionOptions: everything a user may set about a session, with the documented names and defaults (PopART Python API,
// "SessionOptions"). Plain values only: options.hpp in src/pipeline checks them and turns them into per-pass options.
// Invariant: every member is listed once in src/api/option_fields.hpp, from which bindings, comparison and hash derive.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <popart/commgroup.hpp>
#include <popart/names.hpp>
#include <popart/op/loss.hpp>
#include <popart/tensorlocation.hpp>

namespace popart {

enum class AccumulateOuterFragmentSchedule { Scheduler = 0, Serial, OverlapCycleOptimized, OverlapMemoryOptimized };
enum class AutodiffStitchStrategy { RecomputeMinimal = 0, RecomputeAllNonInputs, AddFwdOutputs, SafeAddFwdOutputs, N };
enum class BatchSerializationBatchSchedule { Scheduler = 0, Isomorphic, OverlapOnIo, OverlapOnCompute, N };
enum class BatchSerializationMethod { UnrollDynamic = 0, UnrollStatic, Loop, N };
enum class BatchSerializationTransformContext { Fwd = 0, Bwd, Forward = Fwd, Backward = Bwd, N = 2 };
enum class ExecutionPhaseIOSchedule { Preload = 0, OnDemand, N };
enum class ExecutionPhaseSchedule { Interleaving = 0, Batch, BatchClusteredIO, N };
enum class GradientTensorTrackingMethod {
  AllNonViewChangingGradientTensors = 0,
  ConvAndMatmulGradients,
  GradientsOfUserSpecifiedTensors,
  N
};
enum class Instrumentation { Outer = 0, Inner, N };
enum class IrSerializationFormat { JSON };
enum class MeanReductionStrategy { Running = 0, Post, N };
enum class MergeVarUpdateType { None = 0, All, AutoLoose, AutoTight, N };
enum class RecomputationType { None = 0, Standard, NormOnly, Pipeline, RecomputeAll, N };
enum class SubgraphCopyingStrategy { OnEnterAndExit = 0, JustInTime, N };
enum class SyntheticDataMode { Off = 0, Zeros, RandomNormal, RandomUniform, N };
enum class VirtualGraphMode { Off = 0, Manual, Auto, ExecutionPhases, N };

struct AccumulateOuterFragmentSettings {
  AccumulateOuterFragmentSettings() = default;
  AccumulateOuterFragmentSettings(AccumulateOuterFragmentSchedule schedule_,
                                  std::vector<int> excludedVirtualGraphs_ = {})
      : schedule(schedule_), excludedVirtualGraphs(std::move(excludedVirtualGraphs_)) {}
  AccumulateOuterFragmentSchedule schedule = AccumulateOuterFragmentSchedule::Serial;
  std::vector<int> excludedVirtualGraphs;
  bool operator==(const AccumulateOuterFragmentSettings &) const = default;
};

struct AutodiffSettings {
  AutodiffSettings() = default;
  AutodiffSettings(AutodiffStitchStrategy strategy) : stitchStrategy(strategy) {}
  AutodiffStitchStrategy stitchStrategy = AutodiffStitchStrategy::RecomputeAllNonInputs;
  bool operator==(const AutodiffSettings &) const = default;
};

struct AutomaticLossScalingSettings {
  AutomaticLossScalingSettings() = default;
  AutomaticLossScalingSettings(
      bool enabled_, const nonstd::optional<std::vector<TensorId>> &toTrackTensors_, float binEdgeLocation_ = 0.125f,
      float thresholdUpperCountProportion_ = 1e-7f, int updatePeriod_ = 1,
      GradientTensorTrackingMethod method = GradientTensorTrackingMethod::AllNonViewChangingGradientTensors)
      : enabled(enabled_),
        binEdgeLocation(binEdgeLocation_),
        thresholdUpperCountProportion(thresholdUpperCountProportion_),
        toTrackTensors(toTrackTensors_),
        updatePeriod(updatePeriod_),
        gradientTensorTrackingMethod(method) {}
  bool enabled = false;
  float binEdgeLocation = 0.125f;
  float thresholdUpperCountProportion = 1e-7f;
  nonstd::optional<std::vector<TensorId>> toTrackTensors;
  int updatePeriod = 1;
  GradientTensorTrackingMethod gradientTensorTrackingMethod =
      GradientTensorTrackingMethod::AllNonViewChangingGradientTensors;
  bool operator==(const AutomaticLossScalingSettings &) const = default;
};

struct BatchSerializationSettings {
  BatchSerializationSettings() = default;
  BatchSerializationSettings(
      int factor_, bool concatOnVirtualGraphChange_, bool concatOnExecutionPhaseChange_,
      bool concatOnPipelineStageChange_,
      BatchSerializationTransformContext context = BatchSerializationTransformContext::Fwd,
      BatchSerializationMethod method_ = BatchSerializationMethod::UnrollDynamic,
      BatchSerializationBatchSchedule batchSchedule_ = BatchSerializationBatchSchedule::Isomorphic)
      : factor(factor_),
        concatOnVirtualGraphChange(concatOnVirtualGraphChange_),
        concatOnExecutionPhaseChange(concatOnExecutionPhaseChange_),
        concatOnPipelineStageChange(concatOnPipelineStageChange_),
        transformContext(context),
        method(method_),
        batchSchedule(batchSchedule_) {}
  int factor = 0;
  bool concatOnVirtualGraphChange = true;
  bool concatOnExecutionPhaseChange = true;
  bool concatOnPipelineStageChange = true;
  BatchSerializationTransformContext transformContext = BatchSerializationTransformContext::Fwd;
  BatchSerializationMethod method = BatchSerializationMethod::UnrollDynamic;
  BatchSerializationBatchSchedule batchSchedule = BatchSerializationBatchSchedule::Isomorphic;
  bool operator==(const BatchSerializationSettings &) const = default;
};

struct DeveloperSettings {
  int minTensorsForPrefetch = 0;
  bool operator==(const DeveloperSettings &) const = default;
};

struct ExecutionPhaseSettings {
  ExecutionPhaseSettings() = default;
  ExecutionPhaseSettings(int phases_, int stages_, ExecutionPhaseIOSchedule weightIO,
                         ExecutionPhaseIOSchedule activationIO, ExecutionPhaseIOSchedule optimizerStateIO,
                         ExecutionPhaseIOSchedule accumulatorIO, ExecutionPhaseSchedule schedule_)
      : phases(phases_),
        stages(stages_),
        weightIOSchedule(weightIO),
        activationIOSchedule(activationIO),
        optimizerStateIOSchedule(optimizerStateIO),
        accumulatorIOSchedule(accumulatorIO),
        schedule(schedule_) {}
  int phases = 0;
  int stages = 2;
  ExecutionPhaseIOSchedule weightIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseIOSchedule activationIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseIOSchedule optimizerStateIOSchedule = ExecutionPhaseIOSchedule::OnDemand;
  ExecutionPhaseIOSchedule accumulatorIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseSchedule schedule = ExecutionPhaseSchedule::Interleaving;
  bool operator==(const ExecutionPhaseSettings &) const = default;
};

struct ExperimentalSettings {
  // Checkpoint (Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final) -> transforms to run there.
  std::map<std::string, std::vector<std::string>> customTransformApplierSettings;
  bool createHostTransferableTensorWithOffset = false;
  bool operator==(const ExperimentalSettings &) const = default;
};

struct NumIOTiles {
  NumIOTiles() = default;
  NumIOTiles(int tiles) : numIOTiles(tiles) {}
  operator int() const { return numIOTiles; }
  int numIOTiles = 0;
  bool operator==(const NumIOTiles &) const = default;
};

struct ReplicatedCollectivesSettings {
  ReplicatedCollectivesSettings(bool prepareSchedule = false, bool mergeAllReduce = false,
                                bool mergeReduceScatter = false, bool mergeAllGather = false)
      : prepareScheduleForMergingCollectives(prepareSchedule),
        mergeAllReduceCollectives(mergeAllReduce),
        mergeReduceScatterCollectives(mergeReduceScatter),
        mergeAllGatherCollectives(mergeAllGather) {}
  bool prepareScheduleForMergingCollectives;
  bool mergeAllReduceCollectives;
  bool mergeReduceScatterCollectives;
  bool mergeAllGatherCollectives;
  bool operator==(const ReplicatedCollectivesSettings &) const = default;
};

struct TensorLocationSettings {
  TensorLocationSettings() = default;
  TensorLocationSettings(TensorLocation location_, int minElementsForOffChip_ = 2,
                         int minElementsForReplicatedTensorSharding_ = 8192)
      : location(location_),
        minElementsForOffChip(minElementsForOffChip_),
        minElementsForReplicatedTensorSharding(minElementsForReplicatedTensorSharding_) {}
  TensorLocationSettings(TensorStorage storage, int minElementsForOffChip_ = 2,
                         int minElementsForReplicatedTensorSharding_ = 8192)
      : TensorLocationSettings(TensorLocation(storage), minElementsForOffChip_,
                               minElementsForReplicatedTensorSharding_) {}
  TensorLocation location;
  int minElementsForOffChip = 2;
  int minElementsForReplicatedTensorSharding = 8192;
  bool operator==(const TensorLocationSettings &) const = default;
};

class SessionOptions {
 public:
  using StringMap = std::map<std::string, std::string>;

  // Environment POPART_CACHE_DIR (or POPXL_CACHE_DIR, which wins) turns engine caching on.
  SessionOptions();

  std::string logDir;
  std::set<std::string> dotChecks;
  int firstDotOp = 0;
  int finalDotOp = 10000;
  bool dotOpNames = false;
  bool separateCallOpPdfs = true;
  bool exportPoplarComputationGraph = false;
  bool exportPoplarVertexGraph = false;
  SyntheticDataMode syntheticDataMode = SyntheticDataMode::Off;
  bool instrumentWithHardwareCycleCounter = false;
  std::set<Instrumentation> hardwareInstrumentations = {Instrumentation::Outer};
  bool disableGradAccumulationTensorStreams = false;
  bool disableOptimizerStateTensorStreams = false;
  bool enableOutlining = true;
  bool enableOutliningCopyCostPruning = true;
  float outlineThreshold = 1.0f;
  float outlineSequenceBreakCost = 10000.0f;
  SubgraphCopyingStrategy subgraphCopyingStrategy = SubgraphCopyingStrategy::OnEnterAndExit;
  int64_t accumulationFactor = 1;
  bool enableGradientAccumulation = false;
  ReductionType accumulationAndReplicationReductionType = ReductionType::Sum;
  MeanReductionStrategy meanAccumulationAndReplicationReductionStrategy = MeanReductionStrategy::Post;
  bool enableNonStableSoftmax = false;
  bool enablePipelining = false;
  RecomputationType autoRecomputation = RecomputationType::None;
  bool explicitRecomputation = false;
  MergeVarUpdateType mergeVarUpdate = MergeVarUpdateType::None;
  int64_t mergeVarUpdateMemThreshold = 1000000;
  int64_t looseThresholdAtPeak = 8000;
  bool rearrangeAnchorsOnHost = true;
  bool rearrangeStreamsOnHost = false;
  bool enablePrefetchDatastreams = true;
  unsigned defaultBufferingDepth = 1;
  std::map<TensorId, unsigned> bufferingDepthMap;
  ExecutionPhaseSettings executionPhaseSettings;
  NumIOTiles numIOTiles;
  BatchSerializationSettings batchSerializationSettings;
  AutodiffSettings autodiffSettings;
  bool aliasZeroCopy = false;
  VirtualGraphMode virtualGraphMode = VirtualGraphMode::Off;
  std::vector<float> virtualGraphSplitRatios;
  bool enableReplicatedGraphs = false;
  int64_t replicatedGraphCount = 1;
  bool enableDistributedReplicatedGraphs = false;
  int64_t globalReplicationFactor = 1;
  int64_t globalReplicaOffset = 0;
  bool compileEngine = true;
  bool constantWeights = true;
  std::string cachePath = "session_cache";
  bool enableEngineCaching = false;
  bool enableVariablesCaching = true;
  StringMap engineOptions;
  StringMap convolutionOptions;
  StringMap lstmOptions;
  StringMap matmulOptions;
  StringMap reportOptions;
  StringMap gclOptions;
  bool enableFloatingPointChecks = false;
  bool enableStochasticRounding = false;
  bool _enableRngStateManagement = false;
  bool enableLoadAndOffloadRNGState = false;
  bool enableFullyConnectedPass = true;
  bool enableSerializedMatmuls = true;
  std::string partialsTypeMatMuls;
  bool enableStableNorm = false;
  bool groupNormStridedChannelGrouping = false;
  std::vector<std::string> customCodelets;
  std::string customCodeletCompileFlags;
  std::vector<TensorId> updatableNamedBuffers;
  std::string kahnTieBreaker = "greedy";
  double timeLimitScheduler = 1e9;
  int64_t swapLimitScheduler = 1000000000;
  int64_t transitiveClosureOptimizationThreshold = 100000;
  std::string serializedPoprithmsShiftGraphsDir;
  bool decomposeGradSum = false;
  bool groupHostSync = false;
  bool strictOpVersions = true;
  bool opxAliasChecking = false;
  bool opxModifyChecking = false;
  TensorLocationSettings activationTensorLocationSettings;
  TensorLocationSettings weightTensorLocationSettings;
  TensorLocationSettings optimizerStateTensorLocationSettings;
  TensorLocationSettings accumulatorTensorLocationSettings;
  std::map<TensorId, TensorLocation> tensorLocationSettingsOverride;
  AccumulateOuterFragmentSettings accumulateOuterFragmentSettings;
  AutomaticLossScalingSettings automaticLossScalingSettings;
  ReplicatedCollectivesSettings replicatedCollectivesSettings;
  DeveloperSettings developerSettings;
  bool useHostCopyOps = false;
  bool enableExplicitMainLoops = false;
  bool enableEfficientOverlapIOTopoCons = false;
  bool enableSupportedDataTypeCasting = true;
  bool enableMergeExchange = true;
  bool ensureFp32LossScaleTensor = false;
  bool delayVarUpdates = true;
  bool scheduleNonWeightUpdateGradientConsumersEarly = false;
  bool enableInplaceAmbiguityChecking = false;
  bool createImplicitPipeliningFwdOnlyProgram = false;
  bool throwIfLog2ScaleTensorNotInRange = true;
  bool enableConstantFoldingOfMultipleConsumers = true;
  bool useLoopCandidateCreator = false;
  bool stashAllTensorsInferencePipeline = false;
  ExperimentalSettings experimentalSettings;

  // Called with (steps done, steps in all) while prepareDevice runs.
  std::function<void(int, int)> compilationProgressLogger;
  int compilationProgressTotal = 100;

  void enableExplicitIR(bool enable);
  bool explicitPipeliningEnabled() const { return enablePipelining && useHostCopyOps && enableExplicitMainLoops; }
  bool implicitPipeliningEnabled() const { return enablePipelining && !explicitPipeliningEnabled(); }
  bool autoRecomputationEnabled() const { return autoRecomputation != RecomputationType::None; }
  bool shouldDelayVarUpdates() const;
  // Micro-batches per weight update: accumulationFactor, or 1 when gradient accumulation is off.
  // Throws popart::error for a factor above 1 without enableGradientAccumulation.
  int64_t getAccumulationFactor() const;
  // The global factor when distributed, else the local one.
  int64_t getGlobalReplicationFactor() const;
  // replicatedGraphCount, or 1 when replication is off.
  int64_t getLocalReplicationFactor() const { return enableReplicatedGraphs ? replicatedGraphCount : 1; }
  unsigned getBufferingDepth(const TensorId &id, bool rearrangedOnHost) const;

  bool operator==(const SessionOptions &other) const;
  std::size_t hash() const;
};

}  // namespace popart

template <>
struct std::hash<popart::SessionOptions> {
  std::size_t operator()(const popart::SessionOptions &options) const { return options.hash(); }
};
