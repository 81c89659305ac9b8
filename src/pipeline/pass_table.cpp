// The table of all passes, in the order in which they run.
#include <algorithm>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "base/nearest.hpp"
#include "lower/attention_slices.hpp"
#include "lower/channels_last.hpp"
#include "lower/collective_updates.hpp"
#include "lower/collectives.hpp"
#include "lower/cut_loops.hpp"
#include "lower/decompose.hpp"
#include "lower/flatten.hpp"
#include "lower/float8_products.hpp"
#include "lower/floating_point_checks.hpp"
#include "lower/fold_batch_norm.hpp"
#include "lower/fold_numbers.hpp"
#include "lower/fuse_attention.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/fuse_epilogue.hpp"
#include "lower/fuse_means.hpp"
#include "lower/join_extremes.hpp"
#include "lower/join_in_place.hpp"
#include "lower/join_parts.hpp"
#include "lower/layout.hpp"
#include "lower/loop_rows.hpp"
#include "lower/loop_sums.hpp"
#include "lower/multiply_packed.hpp"
#include "lower/order_updates.hpp"
#include "lower/pack_constants.hpp"
#include "lower/pick_channels.hpp"
#include "lower/read_views.hpp"
#include "lower/ring_rows.hpp"
#include "lower/scale_integers.hpp"
#include "lower/slice_operands.hpp"
#include "lower/stochastic_rounding.hpp"
#include "lower/widen.hpp"
#include "ops/loss/reduction.hpp"
#include "ops/nn/window.hpp"
#include "patterns/pattern.hpp"
#include "pipeline/options.hpp"
#include "pipeline/passes.hpp"
#include "transforms/constant_folding.hpp"
#include "transforms/decompose_sums.hpp"
#include "transforms/host_io.hpp"
#include "transforms/in_place.hpp"
#include "transforms/merge_exchanges.hpp"
#include "transforms/off_chip.hpp"
#include "transforms/outline.hpp"
#include "transforms/prune.hpp"
#include "transforms/random_setup.hpp"
#include "transforms/reduce_precision.hpp"
#include "transforms/serialise_products.hpp"
#include "transforms/shard_state.hpp"
#include "transforms/step_loops.hpp"

namespace popart::pipeline {
namespace {

// ---- conditions -------------------------------------------------------------------------------

bool always(const PassContext &) { return true; }
bool training(const PassContext &c) { return c.trains(); }
bool copyingFromHost(const PassContext &c) { return c.request.options.hostCopies; }
bool looping(const PassContext &c) { return c.request.options.stepLoops; }
bool loopingInTraining(const PassContext &c) { return looping(c) && training(c); }
bool trainingOrHavingLossObjects(const PassContext &c) { return c.trains() || !c.request.losses.empty(); }
bool keepingFloatLossScale(const PassContext &c) { return c.trains() && c.request.options.floatLossScale; }
bool mergingUpdates(const PassContext &c) { return c.trains() && c.request.options.mergeUpdates.has_value(); }
bool stridingGroups(const PassContext &c) { return c.request.options.stridesGroups; }
bool scalingLoss(const PassContext &c) { return c.trains() && c.request.options.automaticLossScale; }
bool reducingPrecision(const PassContext &c) { return c.request.options.precision.has_value(); }
bool serialisingForward(const PassContext &c) { return c.request.options.serialiseForward.has_value(); }
bool serialisingBatch(const PassContext &c) { return c.request.options.serialiseWhole.has_value(); }
// Gradients of a batch that runs in parts are added part by part.
bool decomposingGradientSums(const PassContext &c) {
  return c.request.options.decomposeGradSum || (c.trains() && serialisingForward(c));
}
bool movingOffChip(const PassContext &c) {
  const auto isMoved = [](const Op *op) {
    return op->settings.tensorLocation && op->settings.tensorLocation->storage == TensorStorage::OffChip;
  };
  return c.request.options.offChip.any() || std::ranges::any_of(c.main().ops(), isMoved);
}
bool placing(const PassContext &c) {
  return c.request.options.virtualGraphs.rule != transforms::VirtualGraphRule::Keep;
}
bool pipelining(const PassContext &c) { return c.request.options.pipelines.has_value(); }
// Values between stages of a pipeline are carried or stashed; copies between IPUs would be stashed in addition.
bool copyingBetweenIpus(const PassContext &c) {
  return placing(c) && c.request.options.virtualGraphs.rule != transforms::VirtualGraphRule::Drop && !pipelining(c);
}
bool pipeliningTraining(const PassContext &c) { return pipelining(c) && c.trains(); }
bool sharding(const PassContext &c) { return c.request.options.sharding.any(); }
bool runningInPhases(const PassContext &c) { return c.request.options.executionPhases > 1; }
bool listingSpareMemory(const PassContext &c) { return c.request.options.listsSpareMemory; }
bool checkingFloats(const PassContext &c) { return c.lowering.checkFloats; }
bool ignoringLabels(const PassContext &c) { return c.lowering.ignoreLabelsOutOfRange; }
bool roundingStochastically(const PassContext &c) {
  return c.lowering.roundStochastically || lower::hasRoundingHints(c.ir());
}
bool serialisingProducts(const PassContext &c) { return c.request.options.serialiseProducts; }
bool outlining(const PassContext &c) { return c.request.options.outlineThreshold.has_value(); }
bool mergingExchanges(const PassContext &c) { return c.request.options.mergesExchanges; }
bool computingInPlace(const PassContext &c) { return c.request.patterns.isInPlaceEnabled(); }
// Chunks need memory, so a program with a memory limit has none unless they are requested.
bool cuttingLoops(const PassContext &c) {
  const bool mayTakeMemory = c.lowering.maxMemoryBytes == 0 || c.lowering.lanes == lower::LaneRule::Always;
  return c.lowering.threads > 1 && c.lowering.lanes != lower::LaneRule::Never && mayTakeMemory;
}
bool fusing(const PassContext &c) { return c.lowering.fuse; }

// ---- preparation ------------------------------------------------------------------------------

void dropModelOutputs(PassContext &c) { c.main().setOutputs({}); }

void setUpRandomSeeds(PassContext &c) {
  c.result.randomSeed = transforms::setUpRandomSeeds(c.ir(), c.request.options.factors.replicationFactor);
}

// One group, and groups of one channel, are the same with and without strides.
void strideGroups(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs())
    for (Op *op : graph->ops())
      if (op->def().findAttribute("strided_groups")) {
        const int64_t groups = op->attrInt("num_groups");
        if (groups > 1 && groups < op->inShape(0)[1]) op->mutableAttributes().set("strided_groups", int64_t{1});
      }
}

void reducePrecision(PassContext &c) {
  const DataType type = *c.request.options.precision;
  const int reduced = transforms::reducePrecision(c.main(), type, readByBackwardPass(c));
  logging::transform::info("precision: {} of {} operators compute in {}", reduced, c.main().opCount(), type);
}

void serialiseProducts(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::serialiseProducts(*graph);
}

void placeParts(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::placeParts(*graph);
}

void shardState(PassContext &c) {
  c.result.shardings = transforms::shardState(c.main(), c.request.options.sharding, c.weightUpdates, c.anchors);
}

void checkAnchors(PassContext &c) {
  for (const TensorId &id : c.anchors) {
    if (c.main().contains(id)) continue;
    std::vector<std::string> ids;
    for (Tensor *t : c.main().tensors()) ids.push_back(t->id);
    throw error("DataFlow: the anchor '{}' names no tensor of the model{}", id, nearestText(id, ids, "existing names"));
  }
}

void pruneGraphs(PassContext &c) { transforms::prune(c.main(), c.anchors); }

void applyPatterns(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) {
    const int count =
        patterns::applyPatterns(*graph, c.request.patterns, graph->isMain() ? c.anchors : std::set<TensorId>{});
    logging::pattern::debug("{}: {} rewrites", graph->getGraphString(), count);
  }
}

void decomposeGradientSums(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::decomposeGradientSums(*graph);
}

void loadStreams(PassContext &c) { transforms::loadStreams(c.main()); }

// Final returns values at the end of a step, which is after the update of a variable.
ExecutionContext storeContextOf(const PassContext &c, const Anchor &anchor) {
  const bool isAtEnd = anchor.returns.kind == transforms::ReturnType::Kind::Final;
  const bool accumulates = c.request.options.factors.accumulationFactor > 1;
  const bool isVariable = c.main().getTensor(anchor.id)->tensorType() == TensorType::Variable;
  return isAtEnd && accumulates && isVariable ? ExecutionContext::AccumulateOuterFragment : ExecutionContext::Normal;
}

void storeAnchors(PassContext &c) {
  c.noteInfos();
  for (const Anchor &anchor : c.request.anchors) {
    const auto sharded = c.result.shardings.find(anchor.id);
    const ExecutionContext context = storeContextOf(c, anchor);
    if (sharded == c.result.shardings.end()) {
      transforms::storeAnchor(c.main(), anchor.id, anchor.streamId(), context);
    } else {
      transforms::storeWhole(c.main(), anchor.id, sharded->second, anchor.streamId(), context);
    }
  }
}

void gatherByPhase(PassContext &c) { transforms::gatherByPhase(c.main(), c.result.shardings, c.request.loss); }

void listSpareMemory(PassContext &c) {
  const PipelineOptions &options = c.request.options;
  c.result.spareMemory = transforms::listSpareMemory(
      c.ir(), options.offChip,
      {c.firstGradient, c.request.loss, c.anchors, options.factors.accumulationFactor > 1, options.movableConstants});
}

void moveOffChip(PassContext &c) {
  const PipelineOptions &options = c.request.options;
  transforms::moveOffChip(c.ir(), options.offChip, c.request.loss, options.factors.accumulationFactor > 1);
}

void addAccumulationLoop(PassContext &c) {
  transforms::addAccumulationLoop(c.ir(), c.request.options.factors.accumulationFactor);
}

void addMainLoop(PassContext &c) { transforms::addMainLoop(c.ir(), c.request.batchesPerStep); }

void applyReturnTypes(PassContext &c) {
  std::map<std::string, transforms::ReturnType> types;
  for (const Anchor &anchor : c.request.anchors) types[anchor.streamId()] = anchor.returns;
  const int64_t perBatch = c.trains() ? c.request.options.factors.accumulationFactor : 1;
  transforms::applyReturnTypes(c.ir(), types, c.request.batchesPerStep * perBatch);
}

void outline(PassContext &c) {
  std::map<TensorId, TensorInfo> gone;
  for (const Graph *graph : c.ir().getAllGraphs())
    for (const Tensor *t : graph->tensors()) gone.emplace(t->id, t->info);
  transforms::outline(c.ir(), *c.request.options.outlineThreshold);
  for (const Graph *graph : c.ir().getAllGraphs())
    for (const Tensor *t : graph->tensors()) gone.erase(t->id);
  c.result.outlined = std::move(gone);
}

void mergeExchanges(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::mergeExchanges(*graph);
}

void computeInPlace(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::computeInPlace(*graph, c.anchors);
}

void removeUnusedGraphs(PassContext &c) {
  std::set<const Graph *> used{&c.main()};
  std::vector<const Graph *> stack{&c.main()};
  while (!stack.empty()) {
    const Graph *graph = stack.back();
    stack.pop_back();
    for (const Graph *called : graph->getCalledGraphs())
      if (used.insert(called).second) stack.push_back(called);
  }
  for (Graph *graph : c.ir().getAllGraphs())
    if (!used.count(graph)) c.ir().removeGraph(graph->id);
}

// ---- lowering -----------------------------------------------------------------------------------

// Kernels of fused rows rely on checks of fusion, so only fusion may make ops of these rows.
void requireNotLowered(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      if (op->has(Trait::Internal) && op->def().domain() == "popart" && !op->is(Role::VariableAssign))
        throw error("{}: a program that was lowered cannot be lowered again. Give the program before lowering",
                    op->debugName());
}

void flatten(PassContext &c) {
  requireNotLowered(c.source());
  c.replaceIr(lower::flatten(c.source(), c.keepOutputs ? lower::MainOutputs::Keep : lower::MainOutputs::Drop));
}
void warnAboutLocations(PassContext &c) { pipeline::warnAboutLocations(c.ir(), c.request.options.offChip); }
void readRingsFirst(PassContext &c) { lower::readRingsFirst(c.ir()); }
void simplify(PassContext &c) { lower::simplify(c.ir()); }
void widenFloat8(PassContext &c) { lower::widenFloat8(c.ir(), c.lowering.checkLog2Scales); }
// After decompositions, so that every loss with a kernel exists.
void ignoreLabelsOutOfRange(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs())
    for (Op *op : graph->ops())
      if (op->def().findAttribute(ops::kIgnoreOutOfRange))
        op->mutableAttributes().set(ops::kIgnoreOutOfRange, int64_t{1});
}
// After decompositions, which make convolutions of other ops.
void allowWinograd(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs())
    for (Op *op : graph->ops())
      if (op->def().findAttribute(ops::kAnySumOrder) && op->inInfo(0).dataType() == DataType::FLOAT)
        op->mutableAttributes().set(ops::kAnySumOrder, int64_t{1});
}
void addFloatingPointChecks(PassContext &c) { lower::addFloatingPointChecks(c.ir()); }
void foldLargeTransposes(PassContext &c) { lower::foldLargeTransposes(c.ir(), c.lowering.evaluate); }
void roundStochastically(PassContext &c) { lower::roundStochastically(c.ir(), c.lowering.roundStochastically); }
void widenHalves(PassContext &c) { lower::widenHalves(c.ir(), c.device()); }
void foldNumbers(PassContext &c) { lower::foldNumbers(c.ir(), c.lowering.evaluate); }
void decompose(PassContext &c) { lower::decompose(c.ir(), c.device()); }
void joinPartsEarly(PassContext &c) { lower::joinPartsEarly(c.ir()); }
void addRowsInLoops(PassContext &c) { lower::addRowsInLoops(c.ir()); }
void multiplyAfterLoops(PassContext &c) { lower::multiplyAfterLoops(c.ir()); }
void readRowsInPlace(PassContext &c) { lower::readRowsInPlace(c.ir()); }
void cutLoops(PassContext &c) { lower::cutLoops(c.ir(), c.lowering.threads, c.lowering.lanes); }
void foldBatchNorms(PassContext &c) { lower::foldBatchNorms(c.ir()); }
void fuseAttention(PassContext &c) { lower::fuseAttention(c.ir(), c.device()); }
void readSlicesInPlace(PassContext &c) { lower::readSlicesInPlace(c.ir(), c.device()); }
void writeSlicesInPlace(PassContext &c) { lower::writeSlicesInPlace(c.ir(), c.device()); }
void joinExtremes(PassContext &c) { lower::joinExtremes(c.ir(), c.device()); }
void pickChannels(PassContext &c) { lower::pickChannels(c.ir(), c.device()); }
void scaleIntegerProducts(PassContext &c) { lower::scaleIntegerProducts(c.ir(), c.device()); }
void multiplyHalves(PassContext &c) { lower::multiplyHalves(c.ir(), c.device()); }
void sliceOperands(PassContext &c) { lower::sliceOperands(c.ir()); }
void fuseElementwise(PassContext &c) { lower::fuseElementwise(c.ir(), c.device()); }
void fuseEpilogues(PassContext &c) { lower::fuseEpilogues(c.ir(), c.device()); }
void fusePrologues(PassContext &c) { lower::fusePrologues(c.ir(), c.device()); }
void fuseMeans(PassContext &c) { lower::fuseMeans(c.ir(), c.device()); }
void multiplyPacked(PassContext &c) { lower::multiplyPacked(c.ir(), c.device()); }
void assignLayouts(PassContext &c) { lower::assignLayouts(c.ir(), *c.backends); }
void assignChannelsLast(PassContext &c) { lower::assignChannelsLast(c.ir(), *c.backends); }
void mergeCollectives(PassContext &c) { lower::mergeCollectives(c.ir(), c.lowering.collectives); }
void updateWhereReplicasMeet(PassContext &c) { lower::updateWhereReplicasMeet(c.ir(), c.device()); }
void overlapCollectives(PassContext &c) { lower::overlapCollectives(c.ir(), c.lowering.collectives); }
void readViews(PassContext &c) { lower::readViews(c.ir(), c.device()); }
void fuseGates(PassContext &c) { lower::fuseGates(c.ir(), c.device()); }
void joinInPlace(PassContext &c) { lower::joinInPlace(c.ir(), c.device(), c.lowering.threadsInArena()); }
void orderUpdates(PassContext &c) { lower::orderUpdates(c.ir()); }
void runUpdatesEarly(PassContext &c) { lower::runUpdatesEarly(c.ir()); }
void packConstants(PassContext &c) { lower::packConstants(c.ir(), c.lowering.threads); }

// ---- on request -------------------------------------------------------------------------------

void foldConstants(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::foldConstants(*graph, c.lowering.evaluate);
}
void decomposeSums(PassContext &c) {
  for (Graph *graph : c.ir().getAllGraphs()) transforms::decomposeSums(*graph);
}

constexpr Pass kPasses[] = {
    {"dropModelOutputs", "only anchors return values to the host", Phase::Fwd0, always, dropModelOutputs,
     "loops over batches produce no graph outputs"},
    {"addLossOps", "loss objects of old programs become operators", Phase::Fwd0, trainingOrHavingLossObjects,
     addLossOps, "there is no loss without it"},
    {"placeOnVirtualGraphs", "check, choose or drop the IPU of every operator", Phase::Fwd0, placing,
     placeOnVirtualGraphs, "IPUs that do not exist or contradict each other are refused here"},
    {"stageForwardPass", "check or choose the pipeline stage of every operator", Phase::Fwd0, pipelining,
     stageForwardPass, "stages of a pipeline that contradict each other are refused here, and later passes read them"},
    {"strideGroups", "group channels for normalisation in strides", Phase::Fwd0, stridingGroups, strideGroups,
     "it decides which channels are one group"},
    {"checkLoss", "refuse a loss that cannot be differentiated", Phase::Fwd0, training, checkLoss,
     "the gradient of a loss that it refuses is not defined"},
    {"assignExecutionPhases", "give every operator an execution phase", Phase::Fwd0, runningInPhases,
     assignExecutionPhases, "later passes read the phases"},
    {"setUpRandomSeeds", "give every random operator a seed of its own", Phase::Fwd1, always, setUpRandomSeeds,
     "random operators have no seed without it"},
    {"reducePrecision", "compute products and the operators after them in 16 bits", Phase::Fwd1, reducingPrecision,
     reducePrecision, "it does what the option asks for"},
    {"serialiseForwardBatch", "run the samples of a batch in parts, and so the gradients", Phase::Fwd1,
     serialisingForward, serialiseForwardBatch},
    {"serialiseProducts", "cut marked products into parts", Phase::Fwd1, serialisingProducts, serialiseProducts},
    {"growBackwardPass", "add the gradients of all weights", Phase::Bwd0, training, growBackwardPass,
     "there are no gradients without it"},
    {"ensureFp32LossScale", "keep the loss scale in FLOAT up to the first gradients of activations", Phase::Bwd0,
     keepingFloatLossScale, ensureFp32LossScale},
    {"addWeightUpdates", "add the optimizer's steps", Phase::Bwd0, training, addWeightUpdates,
     "nothing is trained without it"},
    {"mergeUpdates", "merge updates of weights that have the same form", Phase::Bwd0, mergingUpdates, mergeUpdates},
    {"transformAutomaticLossScale", "let the loss scale follow the gradients", Phase::Bwd0, scalingLoss,
     transformAutomaticLossScale, "it decides which loss scale the gradients have"},
    {"shardState", "let each replica keep and update a part of weights and optimizer state", Phase::Bwd0, sharding,
     shardState},
    {"checkAnchors", "refuse anchors that name no tensor", Phase::Bwd0, always, checkAnchors,
     "an anchor that it refuses cannot be sent to the host"},
    {"warnAboutLocations", "warn about locations of tensors that do not exist", Phase::Bwd0, always,
     warnAboutLocations},
    {"prune", "remove operators that lead to no output, kept tensor or effect", Phase::PreAlias, always, pruneGraphs},
    {"applyPatterns", "run the patterns of the session", Phase::PreAlias, always, applyPatterns},
    {"decomposeGradientSums", "make sums of gradients a chain of additions", Phase::PreAlias, decomposingGradientSums,
     decomposeGradientSums},
    {"prune", "remove operators that lead to no output, kept tensor or effect", Phase::PreAlias, always, pruneGraphs},
    {"serialiseBatch", "run the samples of a batch in parts, forward and backward", Phase::PreAlias, serialisingBatch,
     serialiseBatch},
    {"placeParts", "cut operands of serialised products where they are read", Phase::PreAlias, serialisingProducts,
     placeParts},
    {"recomputeActivations", "recompute activations in the backward pass instead of keeping them", Phase::PreAlias,
     training, recomputeActivations},
    {"listSpareMemory", "list tensors that could be recomputed or kept off chip", Phase::PreAlias, listingSpareMemory,
     listSpareMemory},
    {"stageBackwardPass", "give gradients the pipeline stages that follow the forward ones", Phase::PreAlias,
     pipeliningTraining, stageBackwardPass, "later passes read the stages of gradients"},
    {"addIpuCopies", "copy tensors that are read on another IPU than the one that makes them", Phase::PreAlias,
     copyingBetweenIpus, addIpuCopies},
    {"storeAnchors", "send anchors to the host", Phase::MainLoops, copyingFromHost, storeAnchors,
     "the host gets no values without it"},
    {"loadStreams", "load streams from the host", Phase::MainLoops, copyingFromHost, loadStreams,
     "the program gets no values without it"},
    {"gatherByPhase", "gather sharded weights for the forward pass and again for the backward pass", Phase::MainLoops,
     sharding, gatherByPhase},
    {"placeExecutionPhases", "run the program phase by phase", Phase::MainLoops, runningInPhases, placeExecutionPhases},
    {"moveOffChip", "keep tensors in remote memory, with loads and stores where they are used", Phase::MainLoops,
     movingOffChip, moveOffChip},
    {"addAccumulationLoop", "loop over the micro-batches of one update", Phase::MainLoops, loopingInTraining,
     addAccumulationLoop, "only one micro-batch would run"},
    {"addMainLoop", "loop over the batches of one run", Phase::MainLoops, looping, addMainLoop,
     "only one batch would run"},
    {"applyReturnTypes", "send the values of each anchor that its return type selects", Phase::Final, looping,
     applyReturnTypes, "it decides which values the host gets"},
    {"pipelineLoops", "let the stages of a loop's body work on successive micro-batches", Phase::Final, pipelining,
     pipelineLoops},
    {"removeUnusedGraphs", "remove graphs that nothing calls", Phase::Final, always, removeUnusedGraphs},
    {"outline", "replace repeated sequences by calls of one graph", Phase::Final, outlining, outline},
    {"mergeExchanges", "merge neighbouring transfers into one exchange", Phase::Final, mergingExchanges,
     mergeExchanges},
    {"computeInPlace", "write results into operands that nothing needs afterwards", Phase::Final, computingInPlace,
     computeInPlace},

    {"flatten", "inline calls, replace in-place operators by functional ones", Phase::Flatten, always, flatten,
     "kernels exist only for flat functional programs"},
    {"readRingsFirst", "read ring buffers of a pipeline before its cycle writes them", Phase::Flatten, always,
     readRingsFirst},
    {"simplify", "remove operators that compute nothing", Phase::Flatten, always, simplify},
    {"widenFloat8", "multiply FLOAT8 values in float32, check their scales", Phase::Flatten, always, widenFloat8,
     "it checks the scales of FLOAT8 values, and there are no kernels for their products"},
    {"addFloatingPointChecks", "watch for operators that make a NaN or an infinity", Phase::Flatten, checkingFloats,
     addFloatingPointChecks, "it does what the option asks for"},
    {"foldLargeTransposes", "compute transposes of large constants", Phase::Flatten, always, foldLargeTransposes},
    {"roundStochastically", "round 16-bit results at random", Phase::Flatten, roundingStochastically,
     roundStochastically, "it does what the option asks for"},
    {"widenHalves", "compute operators without a 16-bit kernel in float32", Phase::Flatten, always, widenHalves,
     "operators that are expanded would round, and overflow, in 16 bits at each step"},
    {"decompose", "expand operators without a kernel on the device", Phase::Flatten, always, decompose,
     "some operators have no kernel of their own on any backend"},
    {"ignoreLabelsOutOfRange", "let losses leave out labels that are not classes", Phase::Flatten, ignoringLabels,
     ignoreLabelsOutOfRange, "it does what the option asks for"},
    {"allowWinograd", "let convolutions add in another order: Winograd's algorithm, dot products", Phase::Flatten,
     always, allowWinograd},
    {"foldNumbers", "compute single numbers once", Phase::Flatten, always, foldNumbers},
    {"simplify", "remove operators that compute nothing", Phase::Flatten, always, simplify},
    {"joinPartsEarly", "write parts of serialised products where they are joined", Phase::Flatten, always,
     joinPartsEarly},
    {"addRowsInLoops", "add gradients of rows only to their rows", Phase::Flatten, always, addRowsInLoops},
    {"multiplyAfterLoops", "replace sums of small products by one product after the loop", Phase::Flatten, always,
     multiplyAfterLoops},
    {"readRowsInPlace", "let loops read rows of stacks in place", Phase::Flatten, always, readRowsInPlace},
    {"cutLoops", "cut consecutive loops into chunks that can run at the same time", Phase::Flatten, cuttingLoops,
     cutLoops},
    {"foldBatchNorms", "fold normalisations with known parameters into convolutions", Phase::Fuse, fusing,
     foldBatchNorms},
    {"fuseAttention", "let a softmax between products run without the matrix of scores", Phase::Fuse, fusing,
     fuseAttention},
    {"readSlicesInPlace", "let attention read slices of a joint projection in place", Phase::Fuse, fusing,
     readSlicesInPlace},
    {"writeSlicesInPlace", "let the gradient of attention write its results where they are joined", Phase::Fuse, fusing,
     writeSlicesInPlace},
    {"joinExtremes", "find least and greatest numbers of a tensor in one pass over it", Phase::Fuse, fusing,
     joinExtremes},
    {"pickChannels", "copy each channel at most once where channels are joined, cut and shuffled", Phase::Fuse, fusing,
     pickChannels},
    {"scaleIntegerProducts", "let integer products apply the scale of their reader", Phase::Fuse, fusing,
     scaleIntegerProducts},
    {"multiplyHalves", "let products read 16-bit operands that the device multiplies", Phase::Fuse, fusing,
     multiplyHalves},
    {"sliceOperands", "slice operands of element-wise operators instead of their results", Phase::Fuse, fusing,
     sliceOperands},
    {"fuseElementwise", "cluster element-wise operators", Phase::Fuse, fusing, fuseElementwise},
    {"fuseEpilogues", "let products absorb transposes and element-wise operators", Phase::Fuse, fusing, fuseEpilogues},
    {"fusePrologues", "let convolutions absorb element-wise operators in front of them", Phase::Fuse, fusing,
     fusePrologues},
    {"multiplyPacked", "let products read packed weights that stay packed", Phase::Fuse, fusing, multiplyPacked},
    {"assignLayouts", "keep weights of products in the order their kernels read", Phase::Layout, fusing, assignLayouts},
    {"assignChannelsLast", "keep channels innermost around convolutions", Phase::Layout, fusing, assignChannelsLast,
     "fused convolutions have kernels only with channels innermost"},
    {"fuseMeans", "let convolutions compute the means of their results", Phase::Order, fusing, fuseMeans},
    {"mergeCollectives", "merge collectives of several small tensors", Phase::Order, fusing, mergeCollectives},
    {"updateWhereReplicasMeet", "let replicas share the work of an update in the collective over its gradient",
     Phase::Order, fusing, updateWhereReplicasMeet},
    {"overlapCollectives", "let replicas continue while others reach a collective", Phase::Order, fusing,
     overlapCollectives},
    {"readViews", "let element-wise operators read slices and transposes in place", Phase::Order, fusing, readViews},
    {"fuseGates", "let products absorb element-wise operators that read pieces of them", Phase::Order, fusing,
     fuseGates},
    {"joinInPlace", "write parts of concatenations into the result", Phase::Order, fusing, joinInPlace},
    {"orderUpdates", "read old values of variables before their updates", Phase::Order, always, orderUpdates},
    {"runUpdatesEarly", "update variables right after their gradients", Phase::Order, always, runUpdatesEarly},
    {"packConstants", "bring constants into their layouts", Phase::Device, fusing, packConstants,
     "kernels read constants in the layouts that earlier passes gave them"},

    {"foldConstants", "compute values that depend only on constants and shapes", Phase::OnRequest, always,
     foldConstants},
    {"decomposeSums", "make sums of gradients additions into one accumulator", Phase::OnRequest, always, decomposeSums},
};

}  // namespace

std::vector<Pass> passesOf(const executable::Backend *device) {
  std::vector<Pass> passes(std::begin(kPasses), std::end(kPasses));
  if (!device) return passes;
  auto at = std::ranges::find(passes, Phase::Device, &Pass::phase);
  for (const executable::BackendPass &pass : device->passes())
    at = std::next(passes.insert(at, {pass.name, pass.meaning, Phase::Device, fusing, nullptr, "", &pass}));
  return passes;
}

}  // namespace popart::pipeline
