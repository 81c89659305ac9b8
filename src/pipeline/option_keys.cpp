// Keys of the maps of option texts, as the public documentation of the Poplar SDK lists them, marks of single nodes,
// and the notes on patterns.
#include <popart/graph.hpp>

#include "pipeline/options_table.hpp"

namespace popart::pipeline {
namespace {

using enum OptionKind;

constexpr const char *kNoProfile =
    "no report file is written. Set autoReport.all and use getReport or getSummaryReport, or the environment variable "
    "POPART_STEP_TIMES";
constexpr const char *kTiles = "Code and memory of tiles.";
constexpr const char *kExchange = "Transfers between tiles, IPUs and the host.";
constexpr const char *kTarget = "Set-up of IPU hardware.";
constexpr const char *kDebug = "Debugging of programs for tiles.";
constexpr const char *kPlanning = "Planning on tiles.";
constexpr const char *kPartials = "Products and convolutions add up in FLOAT.";
constexpr const char *kReport = "Contents of Poplar's text report, which is not made.";
constexpr const char *kCollectives = "Links between IPUs: replicas are threads of this process.";

constexpr OptionKey kKeys[] = {
    {"engineOptions", "max_memory", Built,
     "Limit in bytes (`K`, `M`, `G` for powers of 1024) for everything the program needs on the device. Above it "
     "`prepareDevice` computes activations again or moves tensors off chip, with the same results (README, \"When a "
     "model does not fit\"), and raises `OutOfMemoryException` when nothing is enough. The environment variable "
     "`POPART_MAX_MEMORY` is the default, and without it what the machine has."},
    {"engineOptions", "max_memory_counts_remote", Built,
     "`true`: what lies off chip is of the memory that `max_memory` limits, so that only activations are computed "
     "again. It is always so without a limit, and never where `POPART_REMOTE_MEMORY` names a folder."},
    {"engineOptions", "max_shape_programs", Built,
     "1 or more: inputs of a model may have open dimensions. A session makes a program for each set of input shapes "
     "when "
     "it is first used, takes the shapes from the arrays of each run or from `setInputShapes`, and keeps so many "
     "programs, those used last; they have the same weights, optimizer state and random numbers. Without it a model "
     "with open dimensions is refused unless `InputShapeInfo` gives them. Ours (decision 0062); as for all engine "
     "options, the environment variable `POPLAR_ENGINE_OPTIONS` can set it."},
    {"engineOptions", "ignore_out_of_range_labels", Built,
     "`true`: a label that is no class has no loss and no gradient, as in PopART, in nll, cross-entropy and CTC "
     "losses; "
     "means divide by its row all the same, unless weights of classes are summed. Without it such a label ends the "
     "run. "
     "Ours."},
    {"engineOptions", "max_stacked_iterations", Built,
     "Most iterations of a Loop that stacks values where the model gives no constant trip count; a run that needs more "
     "ends with an error. By default 16 to 1,024, by the size of what is stacked. Ours."},
    {"engineOptions", "num_threads", Built,
     "Threads that compute (README, \"Threads\"). The environment variable `POPART_NUM_THREADS` is the default."},
    {"engineOptions", "pipeline.concurrent", Built,
     "Whether the stages of a pipeline's cycle, or loops such as both directions of a recurrent layer, run at the same "
     "time, each on its share of the threads, with the same results: `auto` where that is predicted to be faster than "
     "one after the other on all threads, `always` wherever they do not wait for one another, `never`. The log of "
     "module `devicex` (level `INFO`) tells what was chosen. Ours; PopXL programs read it from the environment "
     "variable "
     "`POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "max_loop_iterations", Built,
     "Most iterations of one loop in a run, loops over batches among them; one that goes on raises "
     "`popart_runtime_error`, and the session can run again. Without it there is no limit, and Ctrl-C ends a run that "
     "loops. Ours; PopXL programs read it from the environment variable `POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "max_run_seconds", Built,
     "Most seconds, fractions among them, that a run that loops may take; loops look at the clock between iterations. "
     "As `max_loop_iterations`."},
    {"engineOptions", "disable_passes", Built,
     "Names of compiler passes that do not run, with `,` between them, to find the one that breaks a program "
     "(architecture.md, \"A wrong result\"). Results stay equal up to rounding. A pass that is needed, or that there "
     "is "
     "not, raises `popart_exception`. The environment variable `POPART_DISABLE_PASSES` is the default. Ours; PopXL "
     "programs obey it as well."},
    {"engineOptions", "autoReport.all", Built,
     "`true`: the steps of the first runs are timed, for getSummaryReport and getReport. So do "
     "`autoReport.outputExecutionProfile` and `debug.instrument`."},
    {"engineOptions", "autoReport.outputExecutionProfile", Built, "As `autoReport.all`."},
    {"engineOptions", "autoReport.executionProfileProgramRunCount", Built,
     "Number of runs, 2 by default, whose steps are kept."},
    {"engineOptions", "debug.instrument", Built, "As `autoReport.all`."},
    {"engineOptions", "autoReport.*", Warned, kNoProfile},
    {"engineOptions", "profiler.*", Warned, kNoProfile},
    {"engineOptions", "debug.instrument*", Warned, kNoProfile},
    {"engineOptions", "debug.computeInstrumentationLevel", Warned, kNoProfile},
    {"engineOptions", "debug.externalExchangeInstrumentationLevel", Warned, kNoProfile},
    {"engineOptions", "debug.floatPointOpException", Warned,
     "invalid operations give NaN or infinity. Check the results"},
    {"engineOptions", "debug.nanOverflowException", Warned, "overflow gives infinity. Check the results"},
    {"engineOptions", "prng.enable", Warned,
     "rounding at random is an option of sessions. Set enableStochasticRounding"},
    {"engineOptions", "prng.seed", NoEffect, "`setRandomSeed` sets the seed of stochastic rounding."},
    {"engineOptions", "target.saveArchive", Warned, "no file is written. Leave it out"},
    {"engineOptions", "target.deterministicWorkers", NoEffect,
     "The same inputs and seeds always give the same bits, with stochastic rounding too."},
    {"engineOptions", "target.*", NoEffect, kTarget},
    {"engineOptions", "exchange.*", NoEffect, kExchange},
    {"engineOptions", "streamCallbacks.*", NoEffect, kExchange},
    {"engineOptions", "opt.*", NoEffect, kTiles},
    {"engineOptions", "memory.*", NoEffect, kTiles},
    {"engineOptions", "debug.*", NoEffect, kDebug},
    {"convolutionOptions", "availableMemoryProportion", NoEffect, kPlanning},
    {"convolutionOptions", "partialsType*", NoEffect, kPartials},
    {"convolutionOptions", "pass", NoEffect, kPlanning},
    {"convolutionOptions", "use128BitConvUnitLoad", NoEffect, kPlanning},
    {"convolutionOptions", "startTileMultiplier", NoEffect, kPlanning},
    {"convolutionOptions", "numIOTiles", NoEffect, kPlanning},
    {"convolutionOptions", "enableMultiStageReduce", NoEffect, kPlanning},
    {"convolutionOptions", "enableFastReduce", NoEffect, kPlanning},
    {"convolutionOptions", "enableConvDithering", NoEffect, kPlanning},
    {"convolutionOptions", "remapOutputTensor", NoEffect, kPlanning},
    {"convolutionOptions", "gatherConvOutput", NoEffect, kPlanning},
    {"convolutionOptions", "disableTransformations", NoEffect, kPlanning},
    {"convolutionOptions", "insertTransformsCycleCountProgs", NoEffect, kPlanning},
    {"convolutionOptions", "planConstraints*", NoEffect, kPlanning},
    {"convolutionOptions", "tilesPerIPU", NoEffect, kPlanning},
    {"lstmOptions", "availableMemoryProportion", NoEffect, kPlanning},
    {"lstmOptions", "partialsType", NoEffect, kPartials},
    {"lstmOptions", "weightAccumulatorsType", NoEffect, kPartials},
    {"lstmOptions", "inferenceOnly", NoEffect, kPlanning},
    {"lstmOptions", "preCalcWeights", NoEffect, kPlanning},
    {"lstmOptions", "numShards", NoEffect, kPlanning},
    {"lstmOptions", "rnnCodeReuse", NoEffect, kPlanning},
    {"lstmOptions", "rnnStepsPerWU", NoEffect, kPlanning},
    {"lstmOptions", "recomputationMode", Warned,
     "nothing is computed again: values are kept for the backward pass. Leave it out"},
    {"matmulOptions", "availableMemoryProportion", NoEffect, kPlanning},
    {"matmulOptions", "fullyConnectedPass", NoEffect, kPlanning},
    {"matmulOptions", "inputRHSIsPreArranged", NoEffect, kPlanning},
    {"matmulOptions", "partialsType", NoEffect, kPartials},
    {"matmulOptions", "use128BitConvUnitLoad", NoEffect, kPlanning},
    {"matmulOptions", "enableMultiStageReduce", NoEffect, kPlanning},
    {"matmulOptions", "enableFastReduce", NoEffect, kPlanning},
    {"matmulOptions", "remapOutputTensor", NoEffect, kPlanning},
    {"matmulOptions", "gatherOutput", NoEffect, kPlanning},
    {"matmulOptions", "planConstraints*", NoEffect, kPlanning},
    {"reportOptions", "show*", NoEffect, kReport},
    {"gclOptions", "useSynclessCollectives", NoEffect, kCollectives},
    {"gclOptions", "maxBytesPerTile", NoEffect, kCollectives},
    {"gclOptions", "topology", NoEffect, kCollectives},
    {"gclOptions", "link", NoEffect, kCollectives},
    {"gclOptions", "syncful.*", NoEffect, kCollectives},
};

constexpr MarkRow kMarks[] = {
    {"recomputeOutput",
     [](const Op &op) { return op.settings.recomputeType == RecomputeType::Recompute && !op.getGraph().isMain(); },
     "inside of a graph that is called nothing is computed again. Mark the operation that calls the graph, whose "
     "results are then computed again"},
    {"setSerializeMatMul",
     [](const Op &op) {
       const auto mode = op.settings.hints.find("serialize_matmul_mode");
       return !op.is(Role::MatMul) && mode != op.settings.hints.end() && mode->second != "none";
     },
     "only MatMul is cut into parts. Use it on the output of a MatMul"},
    {"outputTensorLocation",
     [](const Op &op) {
       return op.settings.tensorLocation &&
              op.settings.tensorLocation->replicatedTensorSharding == ReplicatedTensorSharding::On;
     },
     "the tensors stay whole on every replica. Leave them unsharded"},
};

constexpr const char *kRewrite = "rewrite";
constexpr const char *kLowering = "subsumed by lowering";
constexpr const char *kNothing = "no effect";

constexpr PatternNote kPatterns[] = {
    {"PreUniRepl, PostNRepl", kRewrite, "Identity, Detach and Sum of one tensor go."},
    {"OpToIdentity", kRewrite, "Operators that change nothing become Identity."},
    {"SoftmaxGradDirect, NlllWithSoftmaxGradDirect", kRewrite, "Softmax with its loss."},
    {"SumToAdd, NegativeOneScale, ExpandCast", kRewrite, ""},
    {"TransposeToIdentityOrReshapePattern", kRewrite, ""},
    {"SplitOp, SplitGradOpToConcat", kRewrite, ""},
    {"PadSum", kRewrite, "Sums of Pads, or of gradients of Slice, that fill the result without overlap become Concat."},
    {"SplitGather", kRewrite, "Off unless asked for: gathers of more than 65535 positions run in pieces."},
    {"Slice2SliceSubsample", kRewrite, "Off unless asked for: slices take any step."},
    {"RandomNormalLikeOpPattern, RandomUniformLikeOpPattern", kRewrite, ""},
    {"SubtractArg1GradOp, MulArgGradOp, ReciprocalGradOp, DivArg0GradOp, DivArg1GradOp, PowArg0GradOp, PowArg1GradOp, "
     "Atan2Arg0GradOp, Atan2Arg1GradOp, FmodArg0GradOp, SinGradOp, CosGradOp, SqrtGradOp, ExpGradOp, Expm1GradOp, "
     "LogGradOp, Log1pGradOp, AbsGradOp",
     kLowering,
     "`decompose` expands gradients into elementary operators. Without a pattern that PopART has no kernel for "
     "(SubtractArg1, Reciprocal, both of Atan2, Cos, Sqrt, Exp, Expm1, Log1p) `prepareDevice` refuses what needs it."},
    {"CoshOp", kLowering,
     "Cosh has a kernel; expanding it would lose digits. Without the pattern `prepareDevice` refuses Cosh."},
    {"MatMulOp, MatMulLhsGradOp, MatMulRhsGradOp", kLowering,
     "`decompose` expands the gradients into Transpose and MatMul; products take any rank."},
    {"ConvDataGrad, ConvFlipWeightsGradOp, ConvFlipWeightsDoubleFlip, ConvTranspose", kLowering,
     "Data gradients and transposed convolutions have kernels that read the weights as they are; nothing is flipped. "
     "Without `ConvFlipWeightsGradOp` `prepareDevice` refuses gradients of the weights of a ConvTranspose."},
    {"DecomposeBinaryConstScalar", kLowering, "Element-wise kernels hold scalar constants as numbers."},
    {"LoopScanOut", "subsumed by the engine", "Loops write scan outputs in place."},
    {"RemoveUnnecessaryLossGradCast", "subsumed by the pipeline", "The loss gradient is made in the type of the loss."},
    {"AllReduceToIdentity", kLowering, "Collectives of one replica are copies."},
    {"InPlace, UpdateInplacePrioritiesForIpu", kLowering,
     "Memory is shared where no later reader needs the old value (`planMemory`), whatever they say. With `InPlace` the "
     "program says so too, by in-place variants (`computeInPlace`)."},
    {"InitAccumulate, TiedGather, TiedGatherAccumulate", kNothing, "Layouts of accumulators and embeddings on tiles."},
    {"LambSerialisedWeight", kNothing, "Lamb updates a weight whole, also that of a serialised product."},
    {"UpsampleToResize, LSTMOp", "subsumed by the importer",
     "Upsample is read as Resize, LSTM as a loop over its steps."},
    {"PackedDataBlock, ScanToLoop", "subsumed by the importer", "Both operators are read as loops."},
    {"ZerosLikeOpPattern", kNothing, "The operator it rewrites is refused as not supported yet."},
};

}  // namespace

std::span<const OptionKey> optionKeys() { return kKeys; }
std::span<const MarkRow> markRows() { return kMarks; }
std::span<const PatternNote> patternNotes() { return kPatterns; }

}  // namespace popart::pipeline
