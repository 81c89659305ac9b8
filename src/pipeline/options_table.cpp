// The rows of options_table.hpp, in the order of the declarations in sessionoptions.hpp.
#include "pipeline/options_table.hpp"

#include <algorithm>
#include <cctype>

namespace popart::pipeline {
namespace {

using Options = SessionOptions;
using enum OptionKind;

const Options &defaults() {
  static const Options options;
  return options;
}

// Another value than the default.
template <auto Member>
bool changed(const Options &options, RunMode) {
  return options.*Member != defaults().*Member;
}

// A switch that is on, or a list that is not empty.
template <auto Member>
bool given(const Options &options, RunMode) {
  if constexpr (requires { (options.*Member).empty(); })
    return !(options.*Member).empty();
  else
    return options.*Member;
}

constexpr const char *kCallsCopyNothing = "Calls copy nothing here.";
constexpr const char *kDotLook = "dot files show every operation, by type, one file per graph. Leave it at its default";
constexpr const char *kOffChip =
    "`location` off chip: kept in remote memory (`POPART_REMOTE_MEMORY`), loaded before use and stored after changes. "
    "Smaller tensors than `minElementsForOffChip` stay.";
constexpr const char *kParts =
    "`location` off chip: as activations. Sharded over replicas: each replica of `shardingDomain` keeps and updates a "
    "part; the host sees whole tensors. Smaller tensors than `minElementsForReplicatedTensorSharding` stay whole. With "
    "accumulators in parts, replicas meet in each micro-batch.";
constexpr const char *kSchedule = "Order of operations on tiles; operations run in the order of the program.";
constexpr const char *kHostTransfers = "Host transfers: values are read and written where the host has them.";

constexpr OptionRow kRows[] = {
    // ---- files for people
    {"logDir", Built, nullptr, "", "Folder of the dot files; the current one when empty."},
    {"dotChecks", Built, nullptr, "",
     "Checkpoints after which dot files are written: `Fwd0`, `Fwd1`, `Bwd0`, `PreAlias`, `MainLoops`, `Final` or "
     "`ALL`; those of "
     "the environment variable `POPART_DOT_CHECKS` are added."},
    {"firstDotOp", Warned, changed<&Options::firstDotOp>, "not 0", kDotLook},
    {"finalDotOp", Warned, changed<&Options::finalDotOp>, "not 10000", kDotLook},
    {"dotOpNames", Warned, given<&Options::dotOpNames>, "`True`", kDotLook},
    {"separateCallOpPdfs", Warned, changed<&Options::separateCallOpPdfs>, "`False`", kDotLook},
    {"exportPoplarComputationGraph", Warned, given<&Options::exportPoplarComputationGraph>, "`True`",
     "there is no Poplar graph, and no file is written. Use dotChecks, or the environment variable POPART_IR_DUMP"},
    {"exportPoplarVertexGraph", Warned, given<&Options::exportPoplarVertexGraph>, "`True`",
     "there is no Poplar graph, and no file is written. Use dotChecks, or the environment variable POPART_IR_DUMP"},
    // ---- what runs, and how it is measured
    {"syntheticDataMode", Built, nullptr, "",
     "Not `Off`: inputs are made once, when the program is loaded, and `run` neither looks at its step IO nor calls it "
     "back; anchors stay as they were."},
    {"instrumentWithHardwareCycleCounter", Built, nullptr, "",
     "`getCycleCount` gives the ticks of the host's clock, one per nanosecond, that the last run took, and "
     "`statistics` the seconds of all."},
    {"hardwareInstrumentations", Built, nullptr, "", "Without `Outer`, `getCycleCount` has no counter."},
    {"hardwareInstrumentations", Warned,
     [](const Options &o, RunMode) { return o.hardwareInstrumentations.contains(Instrumentation::Inner); }, "`Inner`",
     "whole runs alone are counted. Leave it at Outer"},
    {"disableGradAccumulationTensorStreams", Built, nullptr, "",
     "Accumulators stay on the device: `weightsFromHost`, `weightsToHost` and `modelToHost` leave them out."},
    {"disableOptimizerStateTensorStreams", Built, nullptr, "",
     "Optimizer state stays on the device: `weightsFromHost`, `weightsToHost` and `modelToHost` leave it out."},
    // ---- outlining
    {"enableOutlining", Built, nullptr, "",
     "Repeated sequences of operations become one graph that is called. Calls are inlined when the program is "
     "compiled, so that neither time nor memory of a run depends on it."},
    {"enableOutliningCopyCostPruning", NoEffect, nullptr, "", kCallsCopyNothing},
    {"outlineThreshold", Built, nullptr, "",
     "Sequences are outlined whose operations are worth more in all: 1000 for each product, convolution, "
     "normalisation and what else computes more than it moves, 0.1 for others. Negative: every repeated sequence."},
    {"outlineSequenceBreakCost", NoEffect, nullptr, "",
     "Host transfers are never outlined, so that no sequence of them is broken."},
    {"subgraphCopyingStrategy", NoEffect, nullptr, "", kCallsCopyNothing},
    // ---- accumulation
    {"accumulationFactor", Built, nullptr, "", "Micro-batches per weight update."},
    {"enableGradientAccumulation", Built, nullptr, "",
     "Training: weights are updated once per `accumulationFactor` micro-batches."},
    {"accumulationAndReplicationReductionType", Built, nullptr, "",
     "Sum or mean over the micro-batches of one weight update."},
    {"accumulationAndReplicationReductionType", Refused,
     [](const Options &o, RunMode) { return o.accumulationAndReplicationReductionType == ReductionType::NoReduction; },
     "`NoReduction`", "an update needs one gradient per weight. Set it to Sum or Mean"},
    {"meanAccumulationAndReplicationReductionStrategy", Built, nullptr, "", "Where the mean is taken."},
    {"enableNonStableSoftmax", NoEffect, nullptr, "",
     "Softmax always subtracts the largest value, which costs nothing here."},
    // ---- memory and time of training
    {"enablePipelining", Built, nullptr, "",
     "Inference, and training with gradient accumulation: the stages of the model work on successive micro-batches, "
     "with the same results; what later stages read is kept meanwhile, which takes memory. The stages of one cycle run "
     "at the same time where that is predicted to be faster (`engineOptions[\"pipeline.concurrent\"]`). Training "
     "without accumulation: the stages of "
     "each batch run one after the other, so that no weight is out of date."},
    {"autoRecomputation", Built, nullptr, "",
     "Training: activations that the backward pass computes again, with the same results. `Standard`: of all parts of "
     "the model but the last one, cut where the fewest bytes are alive; `NormOnly`: of normalisations; `Pipeline`: of "
     "all pipeline stages but the last one, from their inputs; `RecomputeAll`: all but those of `checkpointOutput`. "
     "Not together with `recomputeOutput`."},
    {"explicitRecomputation", Built, nullptr, "",
     "What is computed again are always operations of the program, see `autoRecomputation`; with it `_serializeIr` "
     "shows them. Explicit pipelines and `aliasZeroCopy` require it."},
    {"mergeVarUpdate", Built, nullptr, "",
     "Training: weights that are updated in the same way with the same numbers are updated together, flat and one "
     "after the other, with the same results. Operands of products and convolutions, whose updates are part of their "
     "gradients' products, stay single; so do tensors off chip."},
    {"mergeVarUpdateMemThreshold", Built, nullptr, "",
     "Bytes of weights in one merged update: exactly so many with `AutoTight`, at most with `AutoLoose`."},
    {"looseThresholdAtPeak", Built, nullptr, "",
     "`AutoLoose`: bytes by which gradients that wait for their update may exceed the memory at the peak."},
    // ---- host transfers
    {"rearrangeAnchorsOnHost", Built, nullptr, "",
     "Nothing is rearranged; `True`: the buffering depth of anchors is 1, and no other may be asked for."},
    {"rearrangeStreamsOnHost", Built, nullptr, "",
     "Nothing is rearranged; `True`: the buffering depth of inputs is 1, and no other may be asked for."},
    {"enablePrefetchDatastreams", Built, nullptr, "",
     "Programs that move several values of a stream in a run, with callbacks for step IO: input callbacks are called "
     "with `is_prefetch` while the program computes, and results are handed over meanwhile. Inputs are always asked "
     "for in the order of the program; when depends on no thread's speed. Arrays are there already."},
    {"defaultBufferingDepth", Built, nullptr, "",
     "Values of a stream that are fetched ahead, or that wait for the host, within a run; of each replica."},
    {"bufferingDepthMap", Built, nullptr, "",
     "The same by tensor. An input is no further ahead than those that the program loads in front of it."},
    // ---- cutting the program in time
    {"executionPhaseSettings.phases", Built, nullptr, "",
     "Above 1, with `virtualGraphMode` `ExecutionPhases`: the program runs phase by phase, those of the "
     "`executionPhase` of its operations or, without annotations, equal shares of the work; the backward pass in the "
     "opposite order. Tensors off chip are on the device in the phases that use them."},
    {"executionPhaseSettings.phases", Warned,
     [](const Options &o, RunMode) {
       return o.virtualGraphMode == VirtualGraphMode::ExecutionPhases && o.executionPhaseSettings.phases < 2;
     },
     "0 or 1 with `virtualGraphMode` `ExecutionPhases`",
     "the program is not cut into phases. Set phases to 2 or more, or virtualGraphMode to Off"},
    {"executionPhaseSettings", Built, nullptr, "",
     "`Preload`: tensors off chip are loaded when the phase before begins. `schedule`: `Interleaving` loads and stores "
     "where they are due, the others when a phase begins and ends. `stages`: IPUs on which phases run by turns."},
    {"numIOTiles", NoEffect, nullptr, "",
     "Tiles for transfers; there are no tiles. Locations of tensors on IO tiles are refused without any."},
    {"batchSerializationSettings", Built, nullptr, "",
     "With a `factor` above 1 the samples of a batch (axis 0 of every input) run in so many parts, one after the "
     "other. `transformContext` `Fwd` cuts the forward pass, so that weight gradients are sums over the parts; `Bwd` "
     "cuts the whole program, with the bits of the plain one (but for products of at most 16 rows in a part). What "
     "works across the batch runs "
     "on whole tensors. `batchSchedule`: nothing is copied beside computing here, so the two overlapping orders cut "
     "the operands of a part before the part in front of it is computed."},
    {"autodiffSettings", NoEffect, nullptr, "", "Gradient graphs read the forward values that were kept."},
    {"aliasZeroCopy", NoEffect, nullptr, "", kCallsCopyNothing},
    // ---- placement
    {"virtualGraphMode", Built, nullptr, "",
     "Where operations are: as the model says (`Manual`: all of them must have an IPU), by cost (`Auto`), nowhere "
     "(`Off`). Decides how many IPUs a device must have, and the stages of a pipeline without `pipelineStage`. Numbers "
     "do not depend on it."},
    {"virtualGraphSplitRatios", Built, nullptr, "",
     "`virtualGraphMode` Auto: share of the operations' cost on each IPU; equal shares on all IPUs of a replica when "
     "empty."},
    // ---- replicas
    {"enableReplicatedGraphs", Built, nullptr, "", "Replicas are threads of the process."},
    {"replicatedGraphCount", Built, nullptr, "", "Number of replicas, with `enableReplicatedGraphs`."},
    {"enableDistributedReplicatedGraphs", Refused,
     [](const Options &o, RunMode) { return o.enableDistributedReplicatedGraphs && o.globalReplicationFactor > 1; },
     "`True` with `globalReplicationFactor` above 1",
     "a session runs in one process. Set globalReplicationFactor to 1"},
    {"globalReplicationFactor", Refused,
     [](const Options &o, RunMode) { return o.enableDistributedReplicatedGraphs && o.globalReplicationFactor > 1; },
     "above 1 with `enableDistributedReplicatedGraphs`", "a session runs in one process. Set it to 1"},
    {"globalReplicaOffset", NoEffect, nullptr, "", "Replicas of other processes: a session runs in one."},
    // ---- compiling
    {"compileEngine", Built, nullptr, "", "`False`: `prepareDevice` compiles and does not load."},
    {"constantWeights", Built, nullptr, "",
     "Inference: weights are folded as constants and cannot be changed afterwards."},
    {"cachePath", Built, nullptr, "",
     "Folder of compiled programs, with `enableEngineCaching`. It is made when it is missing."},
    {"enableEngineCaching", Built, nullptr, "",
     "`True`: `prepareDevice` takes the compiled program from `cachePath` when it is there, and keeps it there "
     "otherwise, on every device. The environment variables `POPART_CACHE_DIR` and `POPXL_CACHE_DIR` turn it on."},
    {"enableVariablesCaching", Built, nullptr, "",
     "`False`: kept programs are without the values of their variables. A session always starts with its model's."},
    {"engineOptions", Built, nullptr, "",
     "By key, see below. Those of the environment variable `POPLAR_ENGINE_OPTIONS` are added."},
    {"convolutionOptions", NoEffect, nullptr, "", "By key, see below."},
    {"lstmOptions", NoEffect, nullptr, "", "By key, see below."},
    {"matmulOptions", NoEffect, nullptr, "", "By key, see below."},
    {"reportOptions", NoEffect, nullptr, "", "By key, see below."},
    {"gclOptions", NoEffect, nullptr, "", "By key, see below."},
    // ---- numbers
    {"enableFloatingPointChecks", Built, nullptr, "",
     "A run ends with an error at the first operator whose result holds a NaN or an infinity that none of its operands "
     "held. Every value is read once more; without it nothing is."},
    {"enableStochasticRounding", Built, nullptr, "",
     "Results in FLOAT16 and BFLOAT16 are rounded at random, unbiased. Draws depend on the seed, the run, the operator "
     "and the element only. The node attribute `__stochastic_rounding_method` decides for one operator: 0 rounds to "
     "nearest; 1 and 2 round at random, without the option too."},
    {"_enableRngStateManagement", NoEffect, nullptr, "", "The state of rounding is a variable of the program."},
    {"enableLoadAndOffloadRNGState", Built, nullptr, "", "`getRNGState` and `setRNGState` need it."},
    {"enableFullyConnectedPass", NoEffect, nullptr, "", "A hint for products on tiles."},
    {"enableSerializedMatmuls", Built, nullptr, "",
     "`False`: products that `setSerializeMatMul` marks are not cut into parts. C++ only."},
    {"precision", Built, nullptr, "",
     "`bfloat16` or `float16`: products, convolutions and the activations behind them have 16 bits, in memory too; "
     "weights, gradients that reach them, optimizer state, losses, softmax and long sums are FLOAT, and each operator "
     "computes in FLOAT and rounds its result. Training in `float16` scales the loss automatically unless the "
     "optimizer says how. Ours."},
    {"partialsTypeMatMuls", NoEffect, nullptr, "",
     "Products add up in FLOAT, which is at least as exact as `half` and not slower."},
    {"enableStableNorm", NoEffect, nullptr, "", "Norms are always computed in the stable form."},
    {"followTrainingMode", Built, nullptr, "",
     "Inference: `True` computes Dropout and BatchNormalization as the file says, also in training form. `False`: "
     "in inference form, whatever constant `training_mode` or number of outputs the file has. Training sessions always "
     "follow the file."},
    {"groupNormStridedChannelGrouping", Built, nullptr, "",
     "Group normalisation: group g has the channels g, g + num_groups, g + 2 num_groups and so on, not neighbours."},
    {"customCodelets", Refused, given<&Options::customCodelets>, "any",
     "codelets are code for IPU tiles. Register a kernel with popart::registerKernel"},
    {"customCodeletCompileFlags", NoEffect, nullptr, "", "Part of `customCodelets`."},
    {"updatableNamedBuffers", Built, nullptr, "",
     "Weights and buffers of the model that `buffersFromHost` and the program `copyNamedBuffers` send to the device "
     "alone. Inference: they stay variables where `constantWeights` makes the others constants."},
    // ---- order of operations
    {"kahnTieBreaker", NoEffect, nullptr, "", kSchedule},
    {"timeLimitScheduler", NoEffect, nullptr, "", kSchedule},
    {"swapLimitScheduler", NoEffect, nullptr, "", kSchedule},
    {"transitiveClosureOptimizationThreshold", NoEffect, nullptr, "", kSchedule},
    {"serializedPoprithmsShiftGraphsDir", Warned, given<&Options::serializedPoprithmsShiftGraphsDir>, "any",
     "no file is written there. Leave it empty; POPART_IR_DUMP writes the program"},
    {"decomposeGradSum", Built, nullptr, "",
     "Training: a sum of three or more gradients becomes additions into one accumulator, so that terms need not be in "
     "memory together. FLOAT16 sums are rounded after each addition."},
    {"groupHostSync", NoEffect, nullptr, "", kSchedule},
    {"strictOpVersions", Built, nullptr, "",
     "`False`: models of newer operator sets than the library knows are read as the newest known one."},
    {"trainableTensors", Built, nullptr, "",
     "Training: names or patterns (`*`, `?`, `[1-3]`) of the tensors that train; all others are frozen. Empty: as "
     "`session.trainableTensors()` says. A pattern means the parameters among its matches."},
    {"frozenTensors", Built, nullptr, "",
     "Training: names or patterns of tensors that do not train: no gradient, no optimizer state, constants of the "
     "program."},
    {"opxAliasChecking", Warned, given<&Options::opxAliasChecking>, "`True`",
     "kernels are not checked as they run. Leave it off"},
    {"opxModifyChecking", Warned, given<&Options::opxModifyChecking>, "`True`",
     "kernels are not checked as they run. Leave it off"},
    // ---- where tensors are kept
    {"activationTensorLocationSettings", Built, nullptr, "", kOffChip},
    {"activationTensorLocationSettings", Warned,
     [](const Options &o, RunMode) {
       return o.activationTensorLocationSettings.location.replicatedTensorSharding == ReplicatedTensorSharding::On;
     },
     "`location` sharded over replicas",
     "each replica has activations of its own, and nothing of them to share out. Leave them unsharded"},
    {"weightTensorLocationSettings", Built, nullptr, "", kParts},
    {"optimizerStateTensorLocationSettings", Built, nullptr, "", kParts},
    {"accumulatorTensorLocationSettings", Built, nullptr, "", kParts},
    {"tensorLocationSettingsOverride", Built, nullptr, "",
     "By tensor, of whatever size: off chip or on chip; weights, optimizer state and accumulators: sharded over "
     "replicas or not."},
    // ---- the rest of training
    {"accumulateOuterFragmentSettings", Built, nullptr, "",
     "`schedule` `Serial`: clipping of gradients in a pipeline is refused. All else is an order of operations on "
     "tiles; "
     "operations run in the order of the program."},
    {"automaticLossScalingSettings", Built, nullptr, "",
     "Training in FLOAT16, with `enabled`: the loss scale is halved when too many gradients of the main graph are "
     "large, doubled otherwise, and an update whose gradients overflow is left out. `lossScaling` of the optimizer, "
     "which must not be constant, is where it starts."},
    {"replicatedCollectivesSettings", Built, nullptr, "",
     "Collectives of one kind, operator, group and element type are one, with the same results: always up to 64 KiB; "
     "with `mergeAllReduceCollectives`, `mergeReduceScatterCollectives` or `mergeAllGatherCollectives` whatever there "
     "is of that kind at one time; with `prepareScheduleForMergingCollectives` besides, the first of up to 16 MiB wait "
     "for the last."},
    {"developerSettings", NoEffect, nullptr, "", kHostTransfers},
    {"useHostCopyOps", Built, nullptr, "",
     "Host transfers are always operations of the program; overlapped exchange strategies require it."},
    {"enableExplicitMainLoops", Built, nullptr, "",
     "Batches of a step and micro-batches of an update are always loops of the program. Overlapped exchange "
     "strategies require it: they fetch an input, or let a result wait, one value further ahead, also where "
     "`enablePrefetchDatastreams` is off (`OverlapInnerLoop`: not into a loop that begins). With it anchors cannot "
     "return EveryN."},
    {"enableEfficientOverlapIOTopoCons", NoEffect, nullptr, "", kHostTransfers},
    {"enableSupportedDataTypeCasting", NoEffect, nullptr, "", "INT64 and UINT64 stay what they are."},
    {"enableMergeExchange", Built, nullptr, "",
     "Host transfers that stand next to one another are one exchange, a `MultiExchange` of `_serializeIr`, and so are "
     "those of remote memory for one operation. Nothing comes between its parts; neither results nor time or memory "
     "depend on it."},
    {"ensureFp32LossScaleTensor", Built, nullptr, "",
     "Training with a FLOAT16 loss: the loss scale is FLOAT up to the first gradients of activations, so that it may "
     "be above 65504."},
    {"delayVarUpdates", NoEffect, nullptr, "", kSchedule},
    {"scheduleNonWeightUpdateGradientConsumersEarly", NoEffect, nullptr, "", kSchedule},
    {"enableInplaceAmbiguityChecking", Built, nullptr, "",
     "`prepareDevice` refuses programs whose result depends on an order that nothing fixes."},
    {"createImplicitPipeliningFwdOnlyProgram", Built, nullptr, "",
     "Training: `run(\"implicitPipeliningFwdOnly\", stepio)` runs the forward pass alone over the micro-batches of a "
     "step, with the weights as they are, and returns the anchors that belong to it. The weights are in memory twice."},
    {"throwIfLog2ScaleTensorNotInRange", Built, nullptr, "",
     "A run ends with an error where a log2 scale of FLOAT8 values does not lie in [-32, 32)."},
    {"enableConstantFoldingOfMultipleConsumers", Built, nullptr, "",
     "`False`: operators that read a constant which others read too are not folded, but for `Constant`, "
     "`ConstantOfShape`, `Shape` and what a shape is computed from."},
    {"useLoopCandidateCreator", NoEffect, nullptr, "", "Layout of loops on tiles."},
    {"stashAllTensorsInferencePipeline", NoEffect, nullptr, "",
     "Values are stashed where a stage reads them that is not the next one, whatever its value."},
    {"experimentalSettings.customTransformApplierSettings", Built, nullptr, "",
     "Transforms that a C++ library registers (docs/custom-operators.md), `Prune` and `DecomposeGradSum`: run on the "
     "main graph at the end of `Fwd0`, `Fwd1`, `Bwd0`, `PreAlias`, `MainLoops` or `Final`."},
    {"experimentalSettings", NoEffect, nullptr, "",
     "`createHostTransferableTensorWithOffset` is about layouts on tiles."},
    {"compilationProgressLogger", Built, nullptr, "", "Called by `prepareDevice` with steps done and steps in all."},
    {"compilationProgressTotal", Built, nullptr, "", "Steps in all, for `compilationProgressLogger`."},
    // ---- old names
    {"defaultPrefetchBufferingDepth", Built, nullptr, "", "Old name of `defaultBufferingDepth`."},
    {"prefetchBufferingDepthMap", Built, nullptr, "", "Old name of `bufferingDepthMap`."},
    {"serializedPoprithmsAnnealGraphsDir", NoEffect, nullptr, "", "Old name of `serializedPoprithmsShiftGraphsDir`."},
};

}  // namespace

const char *kindName(OptionKind kind) {
  constexpr const char *kNames[] = {"built", "refused", "warned", "no effect"};
  return kNames[static_cast<int>(kind)];
}

std::span<const OptionRow> optionRows() { return kRows; }

}  // namespace popart::pipeline
