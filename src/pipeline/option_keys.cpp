// Keys of the maps of option texts, as the public documentation of the Poplar SDK lists them, marks of single nodes,
// and the notes on patterns.
#include <popart/graph.hpp>

#include "pipeline/options_table.hpp"

namespace popart::pipeline {
namespace {

using enum OptionKind;

constexpr const char *kNoProfile =
    "no report file of this form is written. Set engineOptions[\"profile\"] to a folder, or autoReport.all and use "
    "getReport";
constexpr const char *kTiles = "Code and memory of tiles.";
constexpr const char *kExchange = "Transfers between tiles, IPUs and the host.";
constexpr const char *kTarget = "Configuration of IPU hardware.";
constexpr const char *kDebug = "Debugging of programs for tiles.";
constexpr const char *kPlanning = "Planning on tiles.";
constexpr const char *kPartials = "Products and convolutions accumulate in FLOAT.";
constexpr const char *kReport = "Contents of Poplar's text report, which does not exist here.";
constexpr const char *kCollectives = "Links between IPUs. Replicas are threads of this process.";

constexpr OptionKey kKeys[] = {
    {"engineOptions", "max_memory", Built,
     "Limit in bytes (`K`, `M`, `G` for powers of 1024) for everything that the program needs on the device. A program "
     "above the limit is changed: `prepareDevice` recomputes activations or moves tensors off chip, with the same "
     "results (guide \"Making it fit\"). If nothing is enough, it raises `OutOfMemoryException`. Default: the "
     "environment variable `POPART_MAX_MEMORY`, or the memory of the machine."},
    {"engineOptions", "max_memory_counts_remote", Built,
     "`true`: tensors off chip count in `max_memory`, so the compiler can only recompute activations. This is always "
     "so without a limit, and never if `POPART_REMOTE_MEMORY` names a folder."},
    {"engineOptions", "max_shape_programs", Built,
     "1 or more: inputs of a model may have open dimensions. A session compiles a program for each set of input shapes "
     "when it is first used. The shapes come from the arrays of a run or from `setInputShapes`. The value is the "
     "number of programs that are kept, most recently used first. All programs share the weights, the optimizer state "
     "and the random numbers. Without this key, a model with open dimensions is refused unless `InputShapeInfo` fixes "
     "them. Not in PopART (decision 0062)."},
    {"engineOptions", "ignore_out_of_range_labels", Built,
     "`true`: in nll, cross-entropy and CTC losses, a label that is not a class has no loss and no gradient, as in "
     "PopART. A mean still counts its row, unless class weights are summed. Without this key such a label ends the run "
     "with an error. Not in PopART."},
    {"engineOptions", "max_stacked_iterations", Built,
     "Largest number of iterations of a Loop that stacks values, if the model gives no constant trip count. A run that "
     "needs more ends with an error. Default: 16 to 1,024, depending on the size of the stacked values. Not in "
     "PopART."},
    {"engineOptions", "num_threads", Built,
     "Number of threads that compute (guide \"Threads and compiled programs\"). Default: the environment variable "
     "`POPART_NUM_THREADS`."},
    {"engineOptions", "pipeline.concurrent", Built,
     "Whether the stages of a pipeline cycle, or independent loops such as both directions of a recurrent layer, run "
     "at the same time, each on a share of the threads. Results are the same. `auto`: if this is predicted to be "
     "faster than one after the other on all threads. `always`: wherever they do not depend on each other. `never`. "
     "The log of module `devicex` at level `INFO` says what was chosen. Not in PopART; PopXL programs read it from the "
     "environment variable `POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "max_loop_iterations", Built,
     "Largest number of iterations of one loop in a run; loops over batches count too. A loop that continues raises "
     "`popart_runtime_error`, and the session can run again. Default: no limit; Ctrl-C ends a run that loops. Not in "
     "PopART; PopXL programs read it from the environment variable `POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "max_run_seconds", Built,
     "Largest number of seconds, such as 0.5, of a run that loops. Loops check the clock between iterations. Otherwise "
     "as `max_loop_iterations`."},
    {"engineOptions", "replicas.timeout", Built,
     "Largest number of seconds, such as 0.5, for which a process waits for the other processes of its program. Then "
     "all of them raise `popart_runtime_error`, which names what was waited for. Default: 1800. Not in PopART."},
    {"engineOptions", "replicas.sharedMemory", Built,
     "Whether replicas in several processes of one host exchange values in memory that these processes share: groups "
     "of "
     "at most 8 replicas that are all on the host. This sends no messages and copies less. `false`: by messages, as "
     "between hosts, with the same results; to find out whether a problem comes from it. Where the system does not let "
     "processes share memory, the log says why at level `INFO`, and messages are sent. Default: `true`. Not in PopART; "
     "PopXL programs read it from the environment variable `POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "replicas.compare", Built,
     "After each run, the processes of a job compare values that all replicas share. The first value that differs, and "
     "a "
     "process, are named in a `popart_runtime_error` on all processes. `numbers`: variables of one element (learning "
     "rates, loss scale, counters), and inputs with `ReplicatedStreamMode.Broadcast`. `all`: all variables as well, "
     "which "
     "are read for it; not for models whose replicas have statistics of their own, as batch normalisation has in "
     "training. For debugging. Without this key nothing is compared. Not in PopART; PopXL programs read it from the "
     "environment variable `POPLAR_ENGINE_OPTIONS`."},
    {"engineOptions", "disable_passes", Built,
     "Names of compiler passes that do not run, separated by `,`, to find the pass that breaks a program "
     "(architecture.md, \"A wrong result\"). Results stay equal up to rounding. A pass that is required, or that does "
     "not exist, raises `popart_exception`. Default: the environment variable `POPART_DISABLE_PASSES`. Not in PopART; "
     "PopXL programs use it as well."},
    {"engineOptions", "profile", Built,
     "Folder in which a session of Python writes a profile of its first runs: a page, a trace and JSON (guide "
     "\"Profiling\"). The first 2 runs warm up, the next 5 are recorded; "
     "`autoReport.executionProfileProgramRunCount` sets another number. `none`: no profile, whatever `POPART_PROFILE` "
     "says. A session of C++ records the same runs for `getReport`. Not in PopART."},
    {"engineOptions", "autoReport.all", Built,
     "`true`: the steps of the first runs are timed, for getSummaryReport and getReport. "
     "`autoReport.outputExecutionProfile` and `debug.instrument` do the same."},
    {"engineOptions", "autoReport.outputExecutionProfile", Built, "As `autoReport.all`."},
    {"engineOptions", "autoReport.executionProfileProgramRunCount", Built,
     "Number of runs whose steps are timed; default 2."},
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
     "The same inputs and seeds always give the same bits, also with stochastic rounding."},
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
     "nothing is recomputed: values are kept for the backward pass. Leave it out"},
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
     "operations inside a called graph are not recomputed. Mark the operation that calls the graph: its results are "
     "then recomputed"},
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
    {"PreUniRepl, PostNRepl", kRewrite, "Removes Identity, Detach, and Sum of one tensor."},
    {"OpToIdentity", kRewrite, "Operators that change nothing become Identity."},
    {"SoftmaxGradDirect, NlllWithSoftmaxGradDirect", kRewrite, "Joins Softmax with its loss."},
    {"SumToAdd, NegativeOneScale, ExpandCast", kRewrite, ""},
    {"TransposeToIdentityOrReshapePattern", kRewrite, ""},
    {"SplitOp, SplitGradOpToConcat", kRewrite, ""},
    {"PadSum", kRewrite,
     "A sum of Pads, or of gradients of Slice, that fill the result without overlap becomes Concat."},
    {"SplitGather", kRewrite, "Off by default: gathers of more than 65535 positions are split."},
    {"Slice2SliceSubsample", kRewrite, "Off by default: slices take any step."},
    {"RandomNormalLikeOpPattern, RandomUniformLikeOpPattern", kRewrite, ""},
    {"SubtractArg1GradOp, MulArgGradOp, ReciprocalGradOp, DivArg0GradOp, DivArg1GradOp, PowArg0GradOp, PowArg1GradOp, "
     "Atan2Arg0GradOp, Atan2Arg1GradOp, FmodArg0GradOp, SinGradOp, CosGradOp, SqrtGradOp, ExpGradOp, Expm1GradOp, "
     "LogGradOp, Log1pGradOp, AbsGradOp",
     kLowering,
     "`decompose` expands gradients into elementary operators. PopART has no kernel for the gradients of SubtractArg1, "
     "Reciprocal, both of Atan2, Cos, Sqrt, Exp, Expm1 and Log1p: if you switch such a pattern off, `prepareDevice` "
     "refuses a program that needs it."},
    {"CoshOp", kLowering,
     "Cosh has a kernel, which is more exact than the expansion. If you switch the pattern off, `prepareDevice` "
     "refuses Cosh."},
    {"MatMulOp, MatMulLhsGradOp, MatMulRhsGradOp", kLowering,
     "`decompose` expands the gradients into Transpose and MatMul. Products take any rank."},
    {"ConvDataGrad, ConvFlipWeightsGradOp, ConvFlipWeightsDoubleFlip, ConvTranspose", kLowering,
     "Data gradients and transposed convolutions have kernels that read the weights as they are; nothing is flipped. "
     "Without `ConvFlipWeightsGradOp`, `prepareDevice` refuses the weight gradient of a ConvTranspose."},
    {"DecomposeBinaryConstScalar", kLowering, "Element-wise kernels contain scalar constants as numbers."},
    {"LoopScanOut", "subsumed by the engine", "Loops write scan outputs in place."},
    {"RemoveUnnecessaryLossGradCast", "subsumed by the pipeline",
     "The loss gradient is created in the type of the loss."},
    {"AllReduceToIdentity", kLowering, "Collectives of one replica are copies."},
    {"InPlace, UpdateInplacePrioritiesForIpu", kLowering,
     "Memory is shared if no later reader needs the old value (`planMemory`), whatever the patterns say. With "
     "`InPlace` the program shows this by in-place variants (`computeInPlace`)."},
    {"InitAccumulate, TiedGather, TiedGatherAccumulate", kNothing, "Layouts of accumulators and embeddings on tiles."},
    {"LambSerialisedWeight", kNothing, "Lamb updates a whole weight, also if its product is serialised."},
    {"UpsampleToResize, LSTMOp", "subsumed by the importer",
     "Upsample is read as Resize, LSTM as a loop over its steps."},
    {"PackedDataBlock, ScanToLoop", "subsumed by the importer", "Both operators are read as loops."},
    {"ZerosLikeOpPattern", kNothing, "The operator that it rewrites is refused as not supported yet."},
};

}  // namespace

std::span<const OptionKey> optionKeys() { return kKeys; }
std::span<const MarkRow> markRows() { return kMarks; }
std::span<const PatternNote> patternNotes() { return kPatterns; }

}  // namespace popart::pipeline
