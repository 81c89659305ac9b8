// SessionOptions: all options of a session, with the documented names and defaults. Plain values only:
// src/pipeline/options.hpp checks them and converts them to options of passes. Effects: docs/options.md. Invariant:
// every member is listed once in src/api/option_fields.hpp, from which bindings, comparison and hash are derived.
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

// ---- values of the options below, in the order and with the names of PopART; `N` counts them

// Order of the ops that run once per weight update.
enum class AccumulateOuterFragmentSchedule { Scheduler = 0, Serial, OverlapCycleOptimized, OverlapMemoryOptimized };
// How a gradient subgraph gets forward values: recomputed, or stored as outputs of the forward graph.
enum class AutodiffStitchStrategy { RecomputeMinimal = 0, RecomputeAllNonInputs, AddFwdOutputs, SafeAddFwdOutputs, N };
// Order of the parts of a batch.
enum class BatchSerializationBatchSchedule { Scheduler = 0, Isomorphic, OverlapOnIo, OverlapOnCompute, N };
// How the parts of a batch become ops.
enum class BatchSerializationMethod { UnrollDynamic = 0, UnrollStatic, Loop, N };
// The pass that is serialised.
enum class BatchSerializationTransformContext { Fwd = 0, Bwd, Forward = Fwd, Backward = Bwd, N = 2 };
// When an execution phase loads its tensors.
enum class ExecutionPhaseIOSchedule { Preload = 0, OnDemand, N };
// Order of loads, compute and stores of a phase.
enum class ExecutionPhaseSchedule { Interleaving = 0, Batch, BatchClusteredIO, N };
// The gradients that automatic loss scaling observes.
enum class GradientTensorTrackingMethod {
  AllNonViewChangingGradientTensors = 0,
  ConvAndMatmulGradients,
  GradientsOfUserSpecifiedTensors,
  N
};
// Parts of the program that cycle counters measure.
enum class Instrumentation { Outer = 0, Inner, N };
// Format of Session::serializeIr.
enum class IrSerializationFormat { JSON };
// A mean of gradients is divided at each step, or once at the end.
enum class MeanReductionStrategy { Running = 0, Post, N };
// Which weight updates become one op.
enum class MergeVarUpdateType { None = 0, All, AutoLoose, AutoTight, N };
// Activations that are recomputed in the backward pass.
enum class RecomputationType { None = 0, Standard, NormOnly, Pipeline, RecomputeAll, N };
// When a subgraph's operands are copied.
enum class SubgraphCopyingStrategy { OnEnterAndExit = 0, JustInTime, N };
// Inputs that are generated on the device instead of coming from the host.
enum class SyntheticDataMode { Off = 0, Zeros, RandomNormal, RandomUniform, N };
// How ops are assigned to IPUs.
enum class VirtualGraphMode { Off = 0, Manual, Auto, ExecutionPhases, N };

// Schedule of the ops that run once per weight update; the listed virtual graphs are excluded.
struct AccumulateOuterFragmentSettings {
  AccumulateOuterFragmentSettings() = default;
  AccumulateOuterFragmentSettings(AccumulateOuterFragmentSchedule schedule_,
                                  std::vector<int> excludedVirtualGraphs_ = {})
      : schedule(schedule_), excludedVirtualGraphs(std::move(excludedVirtualGraphs_)) {}
  // As the constructor's arguments.
  AccumulateOuterFragmentSchedule schedule = AccumulateOuterFragmentSchedule::Serial;
  std::vector<int> excludedVirtualGraphs;
  bool operator==(const AccumulateOuterFragmentSettings &) const = default;
};

// How gradient subgraphs get forward values.
struct AutodiffSettings {
  AutodiffSettings() = default;
  AutodiffSettings(AutodiffStitchStrategy strategy) : stitchStrategy(strategy) {}
  // As the constructor's argument.
  AutodiffStitchStrategy stitchStrategy = AutodiffStitchStrategy::RecomputeAllNonInputs;
  bool operator==(const AutodiffSettings &) const = default;
};

// Loss scaling from the largest gradients: the share of elements above binEdgeLocation, checked every updatePeriod
// updates.
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
  // As the constructor's arguments; toTrackTensors: ids, with GradientsOfUserSpecifiedTensors only.
  bool enabled = false;
  float binEdgeLocation = 0.125f;
  float thresholdUpperCountProportion = 1e-7f;
  nonstd::optional<std::vector<TensorId>> toTrackTensors;
  int updatePeriod = 1;
  GradientTensorTrackingMethod gradientTensorTrackingMethod =
      GradientTensorTrackingMethod::AllNonViewChangingGradientTensors;
  bool operator==(const AutomaticLossScalingSettings &) const = default;
};

// Splits a batch into `factor` parts (0 and 1: no split), and sets where the parts are joined.
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
  // As the constructor's arguments.
  int factor = 0;
  bool concatOnVirtualGraphChange = true;
  bool concatOnExecutionPhaseChange = true;
  bool concatOnPipelineStageChange = true;
  BatchSerializationTransformContext transformContext = BatchSerializationTransformContext::Fwd;
  BatchSerializationMethod method = BatchSerializationMethod::UnrollDynamic;
  BatchSerializationBatchSchedule batchSchedule = BatchSerializationBatchSchedule::Isomorphic;
  bool operator==(const BatchSerializationSettings &) const = default;
};

// Settings for developers of PopART.
struct DeveloperSettings {
  int minTensorsForPrefetch = 0;  // number of streams from which prefetching pays off
  bool operator==(const DeveloperSettings &) const = default;
};

// Splits the program into phases that load and store their tensors; 0 and 1 phases: no split. `stages` is 1 or 2.
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
  // As the constructor's arguments; more than 1 phase needs virtualGraphMode ExecutionPhases.
  int phases = 0;
  int stages = 2;
  ExecutionPhaseIOSchedule weightIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseIOSchedule activationIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseIOSchedule optimizerStateIOSchedule = ExecutionPhaseIOSchedule::OnDemand;
  ExecutionPhaseIOSchedule accumulatorIOSchedule = ExecutionPhaseIOSchedule::Preload;
  ExecutionPhaseSchedule schedule = ExecutionPhaseSchedule::Interleaving;
  bool operator==(const ExecutionPhaseSettings &) const = default;
};

// Settings that may change.
struct ExperimentalSettings {
  // Checkpoint (Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final) -> transforms to run there.
  std::map<std::string, std::vector<std::string>> customTransformApplierSettings;
  bool createHostTransferableTensorWithOffset = false;  // of Poplar, no effect
  bool operator==(const ExperimentalSettings &) const = default;
};

// Number of tiles for host transfers; converts to int.
struct NumIOTiles {
  NumIOTiles() = default;
  NumIOTiles(int tiles) : numIOTiles(tiles) {}
  operator int() const { return numIOTiles; }
  int numIOTiles = 0;  // 0: none are reserved
  bool operator==(const NumIOTiles &) const = default;
};

// Which collectives over replicas are merged.
struct ReplicatedCollectivesSettings {
  ReplicatedCollectivesSettings(bool prepareSchedule = false, bool mergeAllReduce = false,
                                bool mergeReduceScatter = false, bool mergeAllGather = false)
      : prepareScheduleForMergingCollectives(prepareSchedule),
        mergeAllReduceCollectives(mergeAllReduce),
        mergeReduceScatterCollectives(mergeReduceScatter),
        mergeAllGatherCollectives(mergeAllGather) {}
  // As the constructor's arguments.
  bool prepareScheduleForMergingCollectives;
  bool mergeAllReduceCollectives;
  bool mergeReduceScatterCollectives;
  bool mergeAllGatherCollectives;
  bool operator==(const ReplicatedCollectivesSettings &) const = default;
};

// Where a kind of tensor is stored. Tensors with fewer elements than the two limits stay on chip, or unsharded.
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
  // As the constructor's arguments; limits in elements.
  TensorLocation location;
  int minElementsForOffChip = 2;
  int minElementsForReplicatedTensorSharding = 8192;
  bool operator==(const TensorLocationSettings &) const = default;
};

// The options. docs/options.md has the effect of each, and the values that sessions refuse or warn about; "hint": no
// result depends on it. Sessions check the values (popart::error); setting a member checks nothing.
class SessionOptions {
 public:
  using StringMap = std::map<std::string, std::string>;  // option names of a backend library -> values

  // The environment variable POPART_CACHE_DIR turns engine caching on (or POPXL_CACHE_DIR, which takes precedence).
  SessionOptions();

  std::string logDir;  // folder for dot files; empty: the current one
  // Checkpoints that write dot files: Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final, ALL.
  std::set<std::string> dotChecks;
  int firstDotOp = 0;                                            // hint, as are all options for the look of dot files
  int finalDotOp = 10000;                                        // hint
  bool dotOpNames = false;                                       // hint
  bool separateCallOpPdfs = true;                                // hint
  bool exportPoplarComputationGraph = false;                     // of Poplar, a hint
  bool exportPoplarVertexGraph = false;                          // hint
  SyntheticDataMode syntheticDataMode = SyntheticDataMode::Off;  // generates inputs once, without host IO
  bool instrumentWithHardwareCycleCounter = false;               // for getCycleCount
  std::set<Instrumentation> hardwareInstrumentations = {Instrumentation::Outer};  // hint
  bool disableGradAccumulationTensorStreams = false;  // accumulators are not sent, read back or saved
  bool disableOptimizerStateTensorStreams = false;    // the same for other optimizer state
  // Repeated parts become subgraphs: all hints.
  bool enableOutlining = true;
  bool enableOutliningCopyCostPruning = true;
  float outlineThreshold = 1.0f;
  float outlineSequenceBreakCost = 10000.0f;
  SubgraphCopyingStrategy subgraphCopyingStrategy = SubgraphCopyingStrategy::OnEnterAndExit;
  int64_t accumulationFactor = 1;           // micro-batches per weight update, 1 or more
  bool enableGradientAccumulation = false;  // training only
  ReductionType accumulationAndReplicationReductionType = ReductionType::Sum;  // Sum or Mean of gradients
  MeanReductionStrategy meanAccumulationAndReplicationReductionStrategy = MeanReductionStrategy::Post;  // with Mean
  bool enableNonStableSoftmax = false;                                                                  // hint
  bool enablePipelining = false;  // stages work on successive micro-batches; needs a virtualGraphMode
  // Memory of activations and updates (thresholds in bytes): hints.
  RecomputationType autoRecomputation = RecomputationType::None;
  bool explicitRecomputation = false;
  MergeVarUpdateType mergeVarUpdate = MergeVarUpdateType::None;
  int64_t mergeVarUpdateMemThreshold = 1000000;
  int64_t looseThresholdAtPeak = 8000;
  // Prefetch of host data (docs/decisions/0034-host-data-ahead.md). Buffering depths are 1 or more.
  bool rearrangeAnchorsOnHost = true;
  bool rearrangeStreamsOnHost = false;
  bool enablePrefetchDatastreams = true;
  unsigned defaultBufferingDepth = 1;
  std::map<TensorId, unsigned> bufferingDepthMap;
  // Execution phases, and tiles for host transfers: hints.
  ExecutionPhaseSettings executionPhaseSettings;
  NumIOTiles numIOTiles;
  BatchSerializationSettings batchSerializationSettings;
  AutodiffSettings autodiffSettings;  // hint
  bool aliasZeroCopy = false;         // hint; needs explicitRecomputation
  // number of IPUs that the device must have; no result depends on it
  VirtualGraphMode virtualGraphMode = VirtualGraphMode::Off;
  std::vector<float> virtualGraphSplitRatios;  // of Auto, each in (0, 1)
  // Replicas in this process and in others (docs/guides/replicas.md, docs/guides/processes.md). Factors are 1 or more,
  // 0 <= offset <= global factor.
  bool enableReplicatedGraphs = false;
  int64_t replicatedGraphCount = 1;
  bool enableDistributedReplicatedGraphs = false;
  int64_t globalReplicationFactor = 1;
  int64_t globalReplicaOffset = 0;
  bool compileEngine = true;    // false: prepareDevice does not load
  bool constantWeights = true;  // inference: weights are folded as constants
  // Compiled programs on disk: docs/guides/threads.md.
  std::string cachePath = "session_cache";
  bool enableEngineCaching = false;
  bool enableVariablesCaching = true;
  StringMap engineOptions;       // max_memory: limit in bytes, with K, M or G for powers of 1024
  StringMap convolutionOptions;  // these five: of Poplar libraries, hints
  StringMap lstmOptions;
  StringMap matmulOptions;
  StringMap reportOptions;
  StringMap gclOptions;
  bool enableFloatingPointChecks = false;
  bool enableStochasticRounding = false;      // stochastic rounding of 16-bit results
  bool _enableRngStateManagement = false;     // hint
  bool enableLoadAndOffloadRNGState = false;  // required by getRNGState and setRNGState
  bool enableFullyConnectedPass = true;       // hint
  bool enableSerializedMatmuls = true;
  // Type of products, convolutions and the ops after them: "bfloat16", "float16", or "float32" and "" for the types of
  // the model. Variables and optimizer state stay FLOAT (docs/decisions/0085-precision.md).
  std::string precision;
  std::string partialsTypeMatMuls;  // "float", "half" or empty; a hint
  bool enableStableNorm = false;    // hint: results are those of the stable form
  bool followTrainingMode = false;  // inference: dropout and batch norm in training form if the file says so
  bool groupNormStridedChannelGrouping = false;  // groups have channels that are num_groups apart
  std::vector<std::string> customCodelets;       // only an empty list is supported
  std::string customCodeletCompileFlags;         // hint
  std::vector<TensorId> updatableNamedBuffers;   // the variables that buffersFromHost sends
  // Search for an order of ops (time in seconds): hints.
  std::string kahnTieBreaker = "greedy";
  double timeLimitScheduler = 1e9;
  int64_t swapLimitScheduler = 1000000000;
  int64_t transitiveClosureOptimizationThreshold = 100000;
  std::string serializedPoprithmsShiftGraphsDir;
  bool decomposeGradSum = false;  // sums of three or more gradients become additions of two
  bool groupHostSync = false;     // hint
  bool strictOpVersions = true;   // false: operator sets newer than supported are read as the newest supported one
  // Names or patterns (fnmatch) of the tensors that train, and of those that do not; empty: as classified
  // (popart/trainabletensor.hpp).
  std::vector<std::string> trainableTensors, frozenTensors;
  bool opxAliasChecking = false;  // hint
  bool opxModifyChecking = false;
  // Where tensors are stored: hints.
  TensorLocationSettings activationTensorLocationSettings;
  TensorLocationSettings weightTensorLocationSettings;
  TensorLocationSettings optimizerStateTensorLocationSettings;
  TensorLocationSettings accumulatorTensorLocationSettings;
  std::map<TensorId, TensorLocation> tensorLocationSettingsOverride;
  AccumulateOuterFragmentSettings accumulateOuterFragmentSettings;  // hint
  AutomaticLossScalingSettings automaticLossScalingSettings;
  ReplicatedCollectivesSettings replicatedCollectivesSettings;  // hint
  DeveloperSettings developerSettings;                          // hint
  // Host transfers and loops are always ops here; overlapped exchanges require both. The second requires the first.
  bool useHostCopyOps = false;
  bool enableExplicitMainLoops = false;
  bool enableEfficientOverlapIOTopoCons = false;
  // Of IPUs and their schedules: hints.
  bool enableSupportedDataTypeCasting = true;
  bool enableMergeExchange = true;
  bool ensureFp32LossScaleTensor = false;
  bool delayVarUpdates = true;
  bool scheduleNonWeightUpdateGradientConsumersEarly = false;
  bool enableInplaceAmbiguityChecking = false;          // prepareDevice refuses ambiguous programs
  bool createImplicitPipeliningFwdOnlyProgram = false;  // a second program: run("implicitPipeliningFwdOnly", stepIO)
  // Hints.
  bool throwIfLog2ScaleTensorNotInRange = true;
  bool enableConstantFoldingOfMultipleConsumers = true;  // false: readers of shared constants are not folded
  bool useLoopCandidateCreator = false;
  bool stashAllTensorsInferencePipeline = false;
  ExperimentalSettings experimentalSettings;

  // Called by prepareDevice: (0, total) at its start, (total - 1, total) before it loads, (total, total) at its end.
  std::function<void(int, int)> compilationProgressLogger;
  int compilationProgressTotal = 100;  // steps in all

  void enableExplicitIR(bool enable);  // sets useHostCopyOps, enableExplicitMainLoops, explicitRecomputation
  bool explicitPipeliningEnabled() const { return enablePipelining && useHostCopyOps && enableExplicitMainLoops; }
  bool implicitPipeliningEnabled() const { return enablePipelining && !explicitPipeliningEnabled(); }
  bool autoRecomputationEnabled() const { return autoRecomputation != RecomputationType::None; }
  bool shouldDelayVarUpdates() const;  // delayVarUpdates, without phases, batch parts and explicit forms
  // Micro-batches per weight update: accumulationFactor, or 1 if gradient accumulation is off. Throws popart::error for
  // a factor above 1 without enableGradientAccumulation.
  int64_t getAccumulationFactor() const;
  // The global factor if distributed, else the local one.
  int64_t getGlobalReplicationFactor() const;
  // replicatedGraphCount, or 1 if replication is off.
  int64_t getLocalReplicationFactor() const { return enableReplicatedGraphs ? replicatedGraphCount : 1; }
  // Buffers of a stream. Throws popart::error: below 1, or above 1 for a stream that is rearranged on the host.
  unsigned getBufferingDepth(const TensorId &id, bool rearrangedOnHost) const;

  bool operator==(const SessionOptions &other) const;
  std::size_t hash() const;  // of every option except the progress logger
};

}  // namespace popart

template <>
struct std::hash<popart::SessionOptions> {
  std::size_t operator()(const popart::SessionOptions &options) const { return options.hash(); }
};
