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

// Whether the value differs from the default.
template <auto Member>
bool changed(const Options &options, RunMode) {
  return options.*Member != defaults().*Member;
}

// Whether a switch is on, or a list is not empty.
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
    "With `location` off chip, a tensor is in remote memory (`POPART_REMOTE_MEMORY`). The program loads it before use "
    "and stores it after a change. Tensors with fewer elements than `minElementsForOffChip` stay on the device.";
constexpr const char *kParts =
    "`location` off chip: as for activations. Sharded over replicas: each replica of `shardingDomain` keeps and "
    "updates a part, and the host sees whole tensors. Tensors with fewer elements than "
    "`minElementsForReplicatedTensorSharding` stay whole. If accumulators are sharded, replicas exchange gradients in "
    "each micro-batch.";
constexpr const char *kSchedule = "Orders operations on tiles. Here operations run in the order of the program.";
constexpr const char *kHostTransfers = "Values are read and written directly in host memory.";

constexpr OptionRow kRows[] = {
    // ---- files for people
    {"logDir", Built, nullptr, "", "Folder for dot files. If it is empty, the current folder."},
    {"dotChecks", Built, nullptr, "",
     "Checkpoints after which dot files are written: `Fwd0`, `Fwd1`, `Bwd0`, `PreAlias`, `MainLoops`, `Final` or "
     "`ALL`. Checkpoints in the environment variable `POPART_DOT_CHECKS` are added."},
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
     "Not `Off`: the inputs are generated once, when the program is loaded. `run` neither reads its step IO nor calls "
     "it back, and anchors keep their values."},
    {"instrumentWithHardwareCycleCounter", Built, nullptr, "",
     "`getCycleCount` returns the nanoseconds that the last run took, and `statistics` the seconds of all runs. Both "
     "use the host clock."},
    {"hardwareInstrumentations", Built, nullptr, "", "Without `Outer`, `getCycleCount` does not count."},
    {"hardwareInstrumentations", Warned,
     [](const Options &o, RunMode) { return o.hardwareInstrumentations.contains(Instrumentation::Inner); }, "`Inner`",
     "whole runs alone are counted. Leave it at Outer"},
    {"disableGradAccumulationTensorStreams", Built, nullptr, "",
     "Accumulators stay on the device: `weightsFromHost`, `weightsToHost` and `modelToHost` leave them out."},
    {"disableOptimizerStateTensorStreams", Built, nullptr, "",
     "Optimizer state stays on the device: `weightsFromHost`, `weightsToHost` and `modelToHost` leave it out."},
    // ---- outlining
    {"enableOutlining", Built, nullptr, "",
     "Repeated sequences of operations become one graph, which is called. The calls are inlined when the program is "
     "compiled, so neither the time nor the memory of a run changes."},
    {"enableOutliningCopyCostPruning", NoEffect, nullptr, "", kCallsCopyNothing},
    {"outlineThreshold", Built, nullptr, "",
     "Smallest value of a sequence that is outlined. An operation that computes more than it moves, such as a product, "
     "convolution or normalisation, counts 1000, and any other operation 0.1. Negative: every repeated sequence."},
    {"outlineSequenceBreakCost", NoEffect, nullptr, "",
     "Host transfers are never outlined, so they never break a sequence."},
    {"subgraphCopyingStrategy", NoEffect, nullptr, "", kCallsCopyNothing},
    // ---- accumulation
    {"accumulationFactor", Built, nullptr, "", "Number of micro-batches per weight update."},
    {"enableGradientAccumulation", Built, nullptr, "",
     "Training: weights are updated once per `accumulationFactor` micro-batches."},
    {"accumulationAndReplicationReductionType", Built, nullptr, "",
     "Sum or mean over the micro-batches of one weight update."},
    {"accumulationAndReplicationReductionType", Refused,
     [](const Options &o, RunMode) { return o.accumulationAndReplicationReductionType == ReductionType::NoReduction; },
     "`NoReduction`", "an update needs one gradient per weight. Set it to Sum or Mean"},
    {"meanAccumulationAndReplicationReductionStrategy", Built, nullptr, "",
     "Where the program divides the gradients to get the mean over micro-batches and replicas: after each micro-batch "
     "or once at the end."},
    {"enableNonStableSoftmax", NoEffect, nullptr, "",
     "Softmax always subtracts the largest value. This costs nothing here."},
    // ---- memory and time of training
    {"enablePipelining", Built, nullptr, "",
     "Inference, and training with gradient accumulation: the stages of the model work on successive micro-batches, "
     "with the same results. Values that later stages read are kept, which takes memory. The stages of one cycle run "
     "at the same time if that is predicted to be faster (`engineOptions[\"pipeline.concurrent\"]`). Training without "
     "accumulation: the stages of each batch run one after the other, so every stage uses the newest weights."},
    {"autoRecomputation", Built, nullptr, "",
     "Training: which activations the backward pass recomputes, with the same results. `Standard`: all parts of the "
     "model except the last one; the model is split where the fewest bytes are alive. `NormOnly`: normalisations. "
     "`Pipeline`: all pipeline stages except the last one, from their inputs. `RecomputeAll`: everything except "
     "outputs of `checkpointOutput`. Cannot be combined with `recomputeOutput`."},
    {"explicitRecomputation", Built, nullptr, "",
     "Recomputation is always part of the program (see `autoRecomputation`). With this option `_serializeIr` shows the "
     "recomputed operations. Explicit pipelines and `aliasZeroCopy` require it."},
    {"mergeVarUpdate", Built, nullptr, "",
     "Training: weights with the same update rule and the same numbers are updated together, as one flat array, with "
     "the same results. Weights of products and convolutions are not merged, because their update is part of the "
     "gradient's product; neither are tensors off chip."},
    {"mergeVarUpdateMemThreshold", Built, nullptr, "",
     "Bytes of weights in one merged update: exactly this many with `AutoTight`, at most this many with `AutoLoose`."},
    {"looseThresholdAtPeak", Built, nullptr, "",
     "`AutoLoose`: number of bytes by which gradients that wait for their update may raise the peak of memory."},
    // ---- host transfers
    {"rearrangeAnchorsOnHost", Built, nullptr, "",
     "Nothing is rearranged. `True`: the buffering depth of anchors is 1, and any other depth is an error."},
    {"rearrangeStreamsOnHost", Built, nullptr, "",
     "Nothing is rearranged. `True`: the buffering depth of inputs is 1, and any other depth is an error."},
    {"enablePrefetchDatastreams", Built, nullptr, "",
     "For programs that move several values of a stream in one run and use callbacks as step IO. Input callbacks are "
     "called with `is_prefetch` while the program computes, and results are delivered meanwhile. The order of the "
     "input callbacks is the order of the program and does not depend on the speed of threads. Arrays need no "
     "prefetching."},
    {"defaultBufferingDepth", Built, nullptr, "",
     "Number of values of a stream that are fetched in advance, or wait for the host, within one run. Per replica."},
    {"bufferingDepthMap", Built, nullptr, "",
     "Buffering depth for single tensors. An input cannot be prefetched further than the inputs that the program loads "
     "before it."},
    // ---- cutting the program in time
    {"executionPhaseSettings.phases", Built, nullptr, "",
     "Above 1, with `virtualGraphMode` `ExecutionPhases`: the program runs phase by phase. The phase of an operation "
     "is its `executionPhase`; without annotations each phase gets an equal share of the work. The backward pass runs "
     "in the opposite order. Tensors off chip are on the device only in the phases that use them."},
    {"executionPhaseSettings.phases", Warned,
     [](const Options &o, RunMode) {
       return o.virtualGraphMode == VirtualGraphMode::ExecutionPhases && o.executionPhaseSettings.phases < 2;
     },
     "0 or 1 with `virtualGraphMode` `ExecutionPhases`",
     "the program is not cut into phases. Set phases to 2 or more, or virtualGraphMode to Off"},
    {"executionPhaseSettings", Built, nullptr, "",
     "`Preload`: tensors off chip are loaded when the previous phase begins. `schedule`: `Interleaving` loads and "
     "stores a tensor where it is used, the other values when a phase begins and ends. `stages`: number of IPUs that "
     "take turns."},
    {"numIOTiles", NoEffect, nullptr, "",
     "There are no tiles. If the value is 0, tensors cannot be placed on IO tiles (error)."},
    {"batchSerializationSettings", Built, nullptr, "",
     "With a `factor` above 1, the samples of a batch (axis 0 of every input) run in that many parts, one after the "
     "other. `transformContext` `Fwd` splits the forward pass, so weight gradients are sums over the parts. `Bwd` "
     "splits the whole program; the results have the same bits, except for products of at most 16 rows in a part. "
     "Operations across the batch run on whole tensors. `batchSchedule`: the two overlapping orders slice the operands "
     "of a part before the previous part is computed, because nothing is copied during computation."},
    {"autodiffSettings", NoEffect, nullptr, "", "Gradient graphs read forward values that were kept."},
    {"aliasZeroCopy", NoEffect, nullptr, "", kCallsCopyNothing},
    // ---- placement
    {"virtualGraphMode", Built, nullptr, "",
     "Placement of operations on IPUs: from the model (`Manual`: every operation must have an IPU), by cost (`Auto`), "
     "or none (`Off`). It determines how many IPUs a device must have, and the stages of a pipeline if `pipelineStage` "
     "is not set. It does not change numbers."},
    {"virtualGraphSplitRatios", Built, nullptr, "",
     "With `virtualGraphMode` Auto: the share of each IPU in the cost of the operations. If it is empty, all IPUs of a "
     "replica get equal shares."},
    // ---- replicas
    {"enableReplicatedGraphs", Built, nullptr, "", "Replicas of one process are threads of it."},
    {"replicatedGraphCount", Built, nullptr, "",
     "Number of replicas in this process, with `enableReplicatedGraphs`; 1 without it."},
    {"enableDistributedReplicatedGraphs", Built, nullptr, "",
     "Replicas are in several processes, which `poprun` or `mpirun` starts: `globalReplicationFactor` in all. The "
     "session joins the job by Open MPI. `popdist.popart.configureSessionOptions` sets this option and the next two."},
    {"globalReplicationFactor", Built, nullptr, "",
     "Number of replicas in all processes, with `enableDistributedReplicatedGraphs`; a multiple of "
     "`replicatedGraphCount`."},
    {"globalReplicaOffset", Built, nullptr, "",
     "Number of the first replica of this process, with `enableDistributedReplicatedGraphs`."},
    // ---- compiling
    {"compileEngine", Built, nullptr, "", "`False`: `prepareDevice` compiles the program but does not load it."},
    {"constantWeights", Built, nullptr, "",
     "Inference: weights become constants, are folded, and cannot be changed afterwards."},
    {"cachePath", Built, nullptr, "",
     "Folder for compiled programs, with `enableEngineCaching`. It is created if it is missing."},
    {"enableEngineCaching", Built, nullptr, "",
     "`True`: `prepareDevice` loads the compiled program from `cachePath` if it is there, and writes it there if not. "
     "This works on every device. The environment variables `POPART_CACHE_DIR` and `POPXL_CACHE_DIR` switch it on."},
    {"enableVariablesCaching", Built, nullptr, "",
     "`False`: cache files do not contain the values of variables. A session always starts with the values of its "
     "model."},
    {"engineOptions", Built, nullptr, "",
     "Keys are listed below. Keys in the environment variable `POPLAR_ENGINE_OPTIONS` are added."},
    {"convolutionOptions", NoEffect, nullptr, "", "By key, see below."},
    {"lstmOptions", NoEffect, nullptr, "", "By key, see below."},
    {"matmulOptions", NoEffect, nullptr, "", "By key, see below."},
    {"reportOptions", NoEffect, nullptr, "", "By key, see below."},
    {"gclOptions", NoEffect, nullptr, "", "By key, see below."},
    // ---- numbers
    {"enableFloatingPointChecks", Built, nullptr, "",
     "A run ends with an error at the first operator that makes a NaN or an infinity from operands without one. With "
     "this option, every value is read one more time; without it, the checks cost nothing."},
    {"enableStochasticRounding", Built, nullptr, "",
     "Results in FLOAT16 and BFLOAT16 are rounded at random, without bias. The random numbers depend only on the seed, "
     "the run, the operator and the element. The node attribute `__stochastic_rounding_method` decides for one "
     "operator: 0 rounds to nearest; 1 and 2 round at random, even if the option is off."},
    {"_enableRngStateManagement", NoEffect, nullptr, "",
     "The state of the random rounding is a variable of the program."},
    {"enableLoadAndOffloadRNGState", Built, nullptr, "", "`getRNGState` and `setRNGState` require it."},
    {"enableFullyConnectedPass", NoEffect, nullptr, "", "A hint for products on tiles."},
    {"enableSerializedMatmuls", Built, nullptr, "",
     "`False`: products marked by `setSerializeMatMul` are not split. C++ only."},
    {"precision", Built, nullptr, "",
     "`bfloat16` or `float16`: products, convolutions and the activations after them have 16 bits, in memory too. "
     "Weights, their gradients, optimizer state, losses, softmax and long sums are FLOAT. Each operator computes in "
     "FLOAT and rounds its result. Training in `float16` scales the loss automatically unless the optimizer sets a "
     "loss scale. Not in PopART."},
    {"partialsTypeMatMuls", NoEffect, nullptr, "",
     "Products accumulate in FLOAT, which is at least as exact as `half` and not slower."},
    {"enableStableNorm", NoEffect, nullptr, "", "Normalisations are always computed in the stable form."},
    {"followTrainingMode", Built, nullptr, "",
     "Inference. `True`: Dropout and BatchNormalization run as the file says, also in training form. `False`: they run "
     "in inference form, whatever `training_mode` or number of outputs the file has. A training session always follows "
     "the file."},
    {"groupNormStridedChannelGrouping", Built, nullptr, "",
     "Group normalisation: group g has the channels g, g + num_groups, g + 2 num_groups and so on, instead of "
     "neighbouring channels."},
    {"customCodelets", Refused, given<&Options::customCodelets>, "any",
     "codelets are code for IPU tiles. Register a kernel with popart::registerKernel"},
    {"customCodeletCompileFlags", NoEffect, nullptr, "", "Part of `customCodelets`."},
    {"updatableNamedBuffers", Built, nullptr, "",
     "Weights and buffers of the model that `buffersFromHost` and the program `copyNamedBuffers` send to the device "
     "separately. Inference: they stay variables if `constantWeights` makes the other weights constants."},
    // ---- order of operations
    {"kahnTieBreaker", NoEffect, nullptr, "", kSchedule},
    {"timeLimitScheduler", NoEffect, nullptr, "", kSchedule},
    {"swapLimitScheduler", NoEffect, nullptr, "", kSchedule},
    {"transitiveClosureOptimizationThreshold", NoEffect, nullptr, "", kSchedule},
    {"serializedPoprithmsShiftGraphsDir", Warned, given<&Options::serializedPoprithmsShiftGraphsDir>, "any",
     "no file is written there. Leave it empty; POPART_IR_DUMP writes the program"},
    {"decomposeGradSum", Built, nullptr, "",
     "Training: a sum of three or more gradients becomes additions into one accumulator, so the terms need not be in "
     "memory at the same time. FLOAT16 sums are rounded after each addition."},
    {"groupHostSync", NoEffect, nullptr, "", kSchedule},
    {"strictOpVersions", Built, nullptr, "",
     "`False`: a model with a newer operator set than the library knows is read with the newest known set."},
    {"trainableTensors", Built, nullptr, "",
     "Training: names or patterns (`*`, `?`, `[1-3]`) of the tensors that train; all others are frozen. If it is "
     "empty, the tensors of `session.trainableTensors()` train. A pattern selects the parameters among its matches."},
    {"frozenTensors", Built, nullptr, "",
     "Training: names or patterns of tensors that do not train. They have no gradient and no optimizer state and are "
     "constants of the program."},
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
     "each replica has its own activations, so there is nothing to shard. Leave them unsharded"},
    {"weightTensorLocationSettings", Built, nullptr, "", kParts},
    {"optimizerStateTensorLocationSettings", Built, nullptr, "", kParts},
    {"accumulatorTensorLocationSettings", Built, nullptr, "", kParts},
    {"tensorLocationSettingsOverride", Built, nullptr, "",
     "Location of single tensors, whatever their size: off chip or on chip; for weights, optimizer state and "
     "accumulators also sharded over replicas or not."},
    // ---- the rest of training
    {"accumulateOuterFragmentSettings", Built, nullptr, "",
     "`schedule` `Serial`: gradient clipping in a pipeline is refused. The other settings order operations on tiles; "
     "here operations run in the order of the program."},
    {"automaticLossScalingSettings", Built, nullptr, "",
     "Training in FLOAT16, with `enabled`: the loss scale is halved if too many gradients of the main graph are large, "
     "and doubled otherwise. An update whose gradients overflow is left out. The first loss scale is `lossScaling` of "
     "the optimizer, which must not be constant."},
    {"replicatedCollectivesSettings", Built, nullptr, "",
     "Collectives of the same kind, operator, group and element type are merged, with the same results. Up to 64 KiB "
     "are always merged. `mergeAllReduceCollectives`, `mergeReduceScatterCollectives` and `mergeAllGatherCollectives` "
     "merge all of that kind that are ready at one time. In addition, `prepareScheduleForMergingCollectives` delays "
     "the first collectives, up to 16 MiB, until the last one is ready."},
    {"developerSettings", NoEffect, nullptr, "", kHostTransfers},
    {"useHostCopyOps", Built, nullptr, "",
     "Host transfers are always operations of the program. Overlapped exchange strategies require this option."},
    {"enableExplicitMainLoops", Built, nullptr, "",
     "Batches of a step and micro-batches of an update are always loops of the program. Overlapped exchange strategies "
     "require this option: they fetch an input, or delay a result, by one more value, even if "
     "`enablePrefetchDatastreams` is off (`OverlapInnerLoop`: not at the start of a loop). With this option, anchors "
     "cannot return EveryN."},
    {"enableEfficientOverlapIOTopoCons", NoEffect, nullptr, "", kHostTransfers},
    {"enableSupportedDataTypeCasting", NoEffect, nullptr, "", "INT64 and UINT64 are not converted."},
    {"enableMergeExchange", Built, nullptr, "",
     "Adjacent host transfers become one exchange, a `MultiExchange` in `_serializeIr`. So do the remote memory "
     "transfers of one operation. Results, time and memory do not depend on it."},
    {"ensureFp32LossScaleTensor", Built, nullptr, "",
     "Training with a FLOAT16 loss: the loss scale is FLOAT up to the first gradients of activations, so it may be "
     "above 65504."},
    {"delayVarUpdates", NoEffect, nullptr, "", kSchedule},
    {"scheduleNonWeightUpdateGradientConsumersEarly", NoEffect, nullptr, "", kSchedule},
    {"enableInplaceAmbiguityChecking", Built, nullptr, "",
     "`prepareDevice` refuses a program whose result depends on an order of operations that nothing fixes."},
    {"createImplicitPipeliningFwdOnlyProgram", Built, nullptr, "",
     "Training: `run(\"implicitPipeliningFwdOnly\", stepio)` runs only the forward pass over the micro-batches of a "
     "step, with the current weights, and returns the anchors of the forward pass. The weights are in memory twice."},
    {"throwIfLog2ScaleTensorNotInRange", Built, nullptr, "",
     "A run ends with an error if a log2 scale of FLOAT8 values is outside [-32, 32)."},
    {"enableConstantFoldingOfMultipleConsumers", Built, nullptr, "",
     "`False`: an operator is not folded if other operators read the same constant. `Constant`, `ConstantOfShape`, "
     "`Shape` and operators that compute a shape are still folded."},
    {"useLoopCandidateCreator", NoEffect, nullptr, "", "Layout of loops on tiles; there are no tiles."},
    {"stashAllTensorsInferencePipeline", NoEffect, nullptr, "",
     "A value is stashed if a stage other than the next one reads it, whatever this option says."},
    {"experimentalSettings.customTransformApplierSettings", Built, nullptr, "",
     "Transforms that a C++ library registers (docs/custom-operators.md), and `Prune` and `DecomposeGradSum`. They run "
     "on the main graph at the end of `Fwd0`, `Fwd1`, `Bwd0`, `PreAlias`, `MainLoops` or `Final`."},
    {"experimentalSettings", NoEffect, nullptr, "",
     "`createHostTransferableTensorWithOffset` sets a layout on tiles; there are no tiles."},
    {"compilationProgressLogger", Built, nullptr, "",
     "`prepareDevice` calls it with the number of steps done and the number of all steps."},
    {"compilationProgressTotal", Built, nullptr, "", "Number of all steps, for `compilationProgressLogger`."},
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
