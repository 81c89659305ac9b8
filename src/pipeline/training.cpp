// Passes of training sessions: the loss, the backward pass and the weight updates.
#include <algorithm>

#include <popart/logging.hpp>

#include "autodiff/autodiff.hpp"
#include "base/nearest.hpp"
#include "pipeline/passes.hpp"
#include "transforms/automatic_loss_scale.hpp"
#include "transforms/execution_phases.hpp"
#include "transforms/float_loss_scale.hpp"
#include "transforms/recompute_attention.hpp"
#include "transforms/serialise_batch.hpp"
#include "transforms/update_emitter.hpp"

namespace popart::pipeline {
namespace {

constexpr const char *kGradientPrefix = "Gradient___";

// Variables that training may change: floating point of 16 bits or more, which no op of the model writes or uses for
// statistics.
bool isTrainable(const Graph &main, const Tensor &variable) {
  if ((typeBit(variable.info.dataType()) & kFloats) == 0 || variable.isOptimizerState) return false;
  for (const Use &use : variable.uses()) {
    const Op &op = main.op(use.op);
    if (op.modifiesInput(use.input)) return false;
    if (op.is(Role::BatchNormalization) && use.input >= 3) return false;
  }
  return true;
}

// Integer initializers: training refuses them if the loss would need their gradient.
std::vector<TensorId> integerWeights(const PassContext &c) {
  std::vector<TensorId> ids;
  for (const TensorId &id : c.request.initializers)
    if (const TensorIndex t = c.main().find(id); t.valid() && isInteger(c.main().info(t).dataType())) ids.push_back(id);
  return ids;
}

// The tensor the backward pass starts from: the loss scale in the loss's shape and type.
TensorIndex lossGradient(PassContext &c, const Tensor &loss) {
  Graph &main = c.main();
  const OptimizerValue scale = c.request.updates->lossScaling;
  const TensorId id = kGradientPrefix + loss.id;
  const double value = scale.val();
  if (scale.isConst()) return main.addConstant(main.freeId(id), TensorData::fromDoubles(loss.info, {&value, 1}));
  const TensorId variableId = std::string("lossScaling_") + getDataTypeInfo(loss.info.dataType()).name;
  const TensorInfo single(DataType::FLOAT, loss.info.shape());
  const TensorIndex variable = main.addVariable(variableId, TensorData::fromDoubles(single, {&value, 1}));
  c.result.optimizerScalars.push_back({variableId, "lossScaling", {}});
  return main
      .addConnectedOp(opDef("Cast"), {variable}, {main.freeId(id)},
                      {{"to", int64_t{toOnnxDataType(loss.info.dataType())}}}, Op::Settings(main))
      ->outputs()[0];
}

// Tensors of the model whose gradients control the loss scale, if the user names them.
std::vector<TensorId> trackedTensors(const PassContext &c) {
  const auto &scaling = c.request.options.automaticLossScale;
  if (!scaling) return {};
  for (const TensorId &id : scaling->named)
    if (!c.main().contains(id)) {
      std::vector<std::string> ids;
      for (const Tensor *t : c.main().tensors()) ids.push_back(t->id);
      throw error("automaticLossScalingSettings.toTrackTensors: '{}' names no tensor of the model{}", id,
                  nearestText(id, ids, "existing names"));
    }
  return scaling->named;
}

// Settings for an op that reads `input`: on its producer's IPU and in its stage, if there is one.
Op::Settings settingsAfter(Graph &main, TensorIndex input, const std::string &name) {
  Op::Settings settings(main, name);
  if (const Op *producer = main.tensor(input).getProducerUnsafe()) {
    settings.vgraphId = producer->settings.vgraphId;
    settings.pipelineStage = producer->settings.pipelineStage;
  }
  return settings;
}

}  // namespace

void addLossOps(PassContext &c) {
  std::vector<TensorIndex> losses;
  for (const LossSpec &spec : c.request.losses) {
    std::vector<TensorIndex> inputs;
    for (const TensorId &id : spec.inputs) inputs.push_back(c.main().getTensor(id)->index());
    Op::Settings settings = settingsAfter(c.main(), inputs.at(0), spec.output);
    if (spec.virtualGraph) settings.vgraphId = spec.virtualGraph;
    if (spec.stage) settings.pipelineStage = spec.stage;
    losses.push_back(
        c.main().addConnectedOp(opDef(spec.type), inputs, {spec.output}, spec.attributes, settings)->outputs()[0]);
  }
  if (losses.empty()) return;
  if (losses.size() == 1) {
    c.request.loss = c.main().tensor(losses[0]).id;
    return;
  }
  for (TensorIndex &loss : losses)
    if (c.main().info(loss).nelms() != 1) {
      const TensorId id = c.main().freeId(c.main().tensor(loss).id + "_sum");
      loss = c.main()
                 .addConnectedOp(opDef("ReduceSum"), {loss}, {id}, {{"keepdims", int64_t{0}}},
                                 settingsAfter(c.main(), loss, id))
                 ->outputs()[0];
    }
  const TensorIndex last = *std::ranges::max_element(losses, {}, [&](TensorIndex loss) {
    return c.main().tensor(loss).getProducer()->settings.pipelineStage.value_or(0);
  });
  c.request.loss = c.main().freeId("finalLoss");
  c.main().addConnectedOp(opDef("Sum"), losses, {c.request.loss}, {}, settingsAfter(c.main(), last, c.request.loss));
}

void checkLoss(PassContext &c) {
  check(!c.request.loss.empty(), "TrainingSession: no loss was given. Name the loss tensor");
  const Tensor &loss = *c.main().getTensor(c.request.loss);
  check(loss.info.nelms() == 1,
        "TrainingSession: the loss '{}' must have one element: got {}. Reduce it, for example with identityloss",
        loss.id, loss.info);
  check(isFloatingPoint(loss.info.dataType()) || isInteger(loss.info.dataType()),
        "TrainingSession: the loss '{}' must be a number: got {}", loss.id, loss.info);
}

void growBackwardPass(PassContext &c) {
  Graph &main = c.main();
  std::vector<TensorId> weights, targets;
  for (Tensor *t : main.tensorsOfType(TensorType::Variable))
    if ((!c.request.trainable || c.request.trainable->contains(t->id)) && isTrainable(main, *t))
      weights.push_back(t->id);
  targets = weights;
  for (const TensorId &anchor : c.anchors) {
    if (main.contains(anchor) || anchor.rfind(kGradientPrefix, 0) != 0) continue;
    const TensorId forward = anchor.substr(std::string(kGradientPrefix).size());
    if (main.contains(forward) && std::find(targets.begin(), targets.end(), forward) == targets.end())
      targets.push_back(forward);
  }
  const std::vector<TensorId> tracked = trackedTensors(c);
  for (const TensorId &id : tracked)
    if (std::find(targets.begin(), targets.end(), id) == targets.end()) targets.push_back(id);
  const std::vector<TensorId> integers = integerWeights(c);
  targets.insert(targets.end(), integers.begin(), integers.end());
  transforms::GradientParts parts;  // parts of forward tensors
  for (const TensorId &weight : weights) {
    parts[weight] = transforms::weightParts(main, main.getTensor(weight)->index());
    for (const transforms::TensorPart &part : parts[weight]) targets.push_back(main.tensor(part.value).id);
  }
  c.firstGradient = static_cast<int64_t>(main.opSlots());
  c.lossGradient = lossGradient(c, *main.getTensor(c.request.loss));
  const std::map<TensorId, TensorId> gradients = autodiff::growBackward(main, c.request.loss, c.lossGradient, targets);
  for (const TensorId &id : integers)
    check(!gradients.contains(id),
          "TrainingSession: the variable '{}' has a gradient, but its type is {}: only floating-point variables can be "
          "trained. Make it floating point, or detach it from the loss",
          id, main.getTensor(id)->info.dataType());
  for (const TensorId &id : tracked)
    if (auto it = gradients.find(id); it != gradients.end()) c.namedToGradient.insert(*it);
  for (const TensorId &weight : weights) {
    if (auto it = gradients.find(weight); it != gradients.end()) c.weightToGradient[weight] = it->second;
    const bool allHaveOne = std::ranges::all_of(
        parts[weight], [&](const auto &part) { return gradients.count(main.tensor(part.value).id) != 0; });
    if (parts[weight].empty() || !allHaveOne) continue;
    for (transforms::TensorPart part : parts[weight]) {
      part.value = main.getTensor(gradients.at(main.tensor(part.value).id))->index();
      c.gradientParts[weight].push_back(part);
    }
  }
  if (c.weightToGradient.empty())
    logging::ir::warn("No variable has a gradient path to the loss '{}': nothing will be trained", c.request.loss);
}

void ensureFp32LossScale(PassContext &c) {
  check(c.lossGradient.valid(), "pass 'ensureFp32LossScale': there is no backward pass. Run growBackwardPass first");
  Graph &main = c.main();
  const Op *cast = main.tensor(c.lossGradient).getProducerUnsafe();
  const TensorIndex wide =
      cast ? cast->inputs()[0]
           : main.addConstant(main.freeId("lossScaling"), TensorData::scalar(c.request.updates->lossScaling.val()));
  transforms::ensureFp32LossScale(main, c.lossGradient, wide);
}

void transformAutomaticLossScale(PassContext &c) {
  transforms::transformAutomaticLossScale(c.main(), *c.request.options.automaticLossScale,
                                          {*c.request.updates, c.weightToGradient, c.namedToGradient,
                                           c.result.optimizerScalars, c.weightUpdates.areFinite});
}

void addWeightUpdates(PassContext &c) {
  std::erase_if(c.gradientParts, [&c](const auto &weight) {
    return c.request.options.sharding.mayShardUpdateOf(*c.main().getTensor(weight.first));
  });
  const auto overflow = c.request.options.automaticLossScale ? transforms::Overflow::Skip : transforms::Overflow::Apply;
  c.weightUpdates =
      transforms::addOptimizer(c.main(), *c.request.updates, c.weightToGradient, c.gradientParts, overflow);
  for (const auto &scalar : c.weightUpdates.scalars) c.result.optimizerScalars.push_back(scalar);
}

void mergeUpdates(PassContext &c) {
  check(c.weightUpdates.firstOp != INT64_MAX, "mergeUpdates: there are no weight updates. Run addWeightUpdates first");
  const PipelineOptions &options = c.request.options;
  std::set<TensorId> alone;
  for (const Tensor *t : c.main().tensorsOfType(TensorType::Variable))
    if (options.offChip.holds(*t) || options.sharding.mayShardUpdateOf(*t)) alone.insert(t->id);
  const int merged =
      transforms::mergeUpdates(c.main(), *options.mergeUpdates, c.weightUpdates.firstOp, alone, c.anchors);
  logging::transform::info("mergeVarUpdate: {} weights are updated together with others", merged);
}

std::set<TensorId> readByBackwardPass(const PassContext &c) {
  std::set<TensorId> kept = c.anchors;
  if (!c.request.loss.empty()) kept.insert(c.request.loss);
  const std::string prefix = kGradientPrefix;
  for (const TensorId &anchor : c.anchors)
    if (anchor.starts_with(prefix)) kept.insert(anchor.substr(prefix.size()));
  for (const TensorId &id : trackedTensors(c)) kept.insert(id);
  return kept;
}

// Anchored tensors, and tensors whose gradients are requested, stay whole.
void serialiseForwardBatch(PassContext &c) {
  c.noteInfos();
  transforms::serialiseBatch(c.main(), *c.request.options.serialiseForward, readByBackwardPass(c));
}

void serialiseBatch(PassContext &c) {
  c.noteInfos();
  transforms::serialiseBatch(c.main(), *c.request.options.serialiseWhole, c.anchors, &c.firstGradient);
}

void assignExecutionPhases(PassContext &c) {
  transforms::assignExecutionPhases(c.main(), c.request.options.executionPhases);
}

void placeExecutionPhases(PassContext &c) {
  const PipelineOptions &options = c.request.options;
  transforms::placeExecutionPhases(c.main(), options.executionPhases, options.phaseStages, c.firstGradient);
}

void recomputeActivations(PassContext &c) {
  using transforms::RecomputeRule;
  check(c.firstGradient.has_value(), "recomputeActivations: there is no backward pass. Run growBackwardPass first");
  const PipelineOptions &options = c.request.options;
  const bool isRule = options.recompute != RecomputeRule::Marked && options.recompute != RecomputeRule::Chosen;
  if (isRule && !options.recomputesMarkedToo)
    for (const Op *op : c.main().ops())
      check(op->settings.recomputeType != RecomputeType::Recompute,
            "SessionOptions::autoRecomputation does not go with '{}', whose result Builder::recomputeOutput marks: got "
            "both. Set autoRecomputation to NoRecompute, or remove the mark",
            op->debugName());
  if (!options.recomputes) return;
  const auto isActivation = [&](const auto &moved) {
    const TensorIndex t = c.main().find(moved.first);
    return moved.second && t.valid() && c.main().tensor(t).tensorType() == TensorType::ActGrad;
  };
  const bool isKeptElsewhere = options.pipelines || options.offChip.activations.offChip ||
                               std::ranges::any_of(options.offChip.byTensor, isActivation);
  using transforms::WhichAttention;
  transforms::recomputeAttention(c.main(), *c.firstGradient,
                                 isKeptElsewhere ? WhichAttention::All : WhichAttention::Marked);
  const transforms::Recomputation made =
      transforms::recompute(c.main(), {options.recompute, *c.firstGradient, c.anchors, options.recomputeChosen});
  if (made.copies > 0)
    logging::transform::info("recomputation: {} operations run again, {} GFLOP more in each micro-batch", made.copies,
                             made.cost.flops * 1e-9);
}

}  // namespace popart::pipeline
