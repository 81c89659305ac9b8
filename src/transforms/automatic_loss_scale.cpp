// See automatic_loss_scale.hpp. Counts are placed next to the gradients, so that gradients are not kept longer. With a
// period above 1, gradients are counted only in the first update of each period, by a counter of micro-batches.
#include "transforms/automatic_loss_scale.hpp"

#include <set>

#include <popart/error.hpp>
#include <popart/half.hpp>
#include <popart/ir.hpp>

#include "ops/nn/products.hpp"
#include "transforms/update_emitter.hpp"

namespace popart::transforms {
namespace {

constexpr const char *kFactorId = "lossScaleUpdateFactor";
constexpr const char *kCountsId = "Accum___autoLossScaleStats";
constexpr const char *kCounterId = "lossScaleUpdateFactor___Histogram_counter";
constexpr float kLargestHalf = 65504.0f;

class LossScaler {
 public:
  LossScaler(Graph &main, const AutomaticLossScale &settings, const TrainingProgram &program)
      : main_(main), settings_(settings), program_(program), emitter_(main, program.rules) {}

  void run() {
    const TensorIndex lossScaling = lossScalingVariable();
    const std::vector<TensorIndex> gradients = tracked(lossScaling);
    check(!gradients.empty(),
          "automaticLossScalingSettings: there is no FLOAT16 gradient to track. Train a FLOAT16 model, or turn it off");
    factor_ = state(kFactorId, TensorData::scalar(1.0f));
    if (settings_.period > 1) counter_ = state(kCounterId, TensorData::scalar(int32_t{-1}));
    scaleLoss(lossScaling);
    for (const ScalarVariable &scalar : program_.scalars)
      if (scalar.unscales) unscale(main_.find(scalar.id));
    update(count(gradients));
  }

 private:
  TensorIndex lossScalingVariable() const {
    check(!program_.rules.lossScaling.isConst(),
          "automaticLossScalingSettings: the optimizer's loss scaling is constant: got {}, expected one that may "
          "change. Give lossScaling as (value, False)",
          program_.rules.lossScaling.val());
    const auto *adam = std::get_if<AdamRule>(&program_.rules.common.form);  // the same for all weights
    check(!adam || !adam->scaledState,
          "automaticLossScalingSettings: the optimizer is an Adam with scaled optimizer state, whose unit would change "
          "while training. Make the optimizer without scaled_optimizer_state, or turn automatic loss scaling off");
    for (const ScalarVariable &scalar : program_.scalars)
      if (scalar.name == "lossScaling") return main_.find(scalar.id);
    throw internal_error("automatic loss scale: the backward pass has no loss scale.");
  }

  // ---- which gradients
  std::vector<TensorIndex> tracked(TensorIndex lossScaling) const {
    if (settings_.tracked == AutomaticLossScale::Tracked::Named) return namedGradients();
    std::vector<TensorIndex> result;
    const std::set<TensorIndex> needed = neededByWeights();
    std::set<TensorIndex> scaled{lossScaling};  // tensors that depend on the loss scale
    for (const Op *op : main_.getOpSchedule()) {
      bool isScaled = false, isStart = false;
      for (TensorIndex t : op->inputs()) isScaled |= scaled.count(t) > 0, isStart |= t == lossScaling;
      if (!isScaled) continue;
      for (TensorIndex t : op->outputs()) {
        if (!t.valid()) continue;
        scaled.insert(t);
        if (!isStart && needed.count(t) && isTracked(*op) && main_.info(t).dataType() == DataType::FLOAT16)
          result.push_back(t);
      }
    }
    return result;
  }

  bool isTracked(const Op &op) const {
    if (settings_.tracked == AutomaticLossScale::Tracked::ProductGradients) return ops::isProduct(op);
    return !op.has(Trait::View) && !op.isIdentity();
  }

  // The gradients of the weights, and all tensors they are computed from.
  std::set<TensorIndex> neededByWeights() const {
    std::set<TensorIndex> needed;
    std::vector<TensorIndex> stack;
    for (const auto &entry : program_.weightToGradient) stack.push_back(main_.find(entry.second));
    while (!stack.empty()) {
      const TensorIndex t = stack.back();
      stack.pop_back();
      if (!t.valid() || !needed.insert(t).second) continue;
      if (const Op *producer = main_.tensor(t).getProducerUnsafe())
        stack.insert(stack.end(), producer->inputs().begin(), producer->inputs().end());
    }
    return needed;
  }

  std::vector<TensorIndex> namedGradients() const {
    std::vector<TensorIndex> result;
    for (const TensorId &id : settings_.named) {
      if (main_.getTensor(id)->info.dataType() != DataType::FLOAT16) continue;
      const auto gradient = program_.namedToGradient.find(id);
      check(
          gradient != program_.namedToGradient.end(),
          "automaticLossScalingSettings.toTrackTensors: '{}' has no gradient: no path leads from it to the loss. Leave "
          "it out",
          id);
      result.push_back(main_.find(gradient->second));
    }
    return result;
  }

  // ---- where the scale is multiplied in and divided out
  TensorIndex state(const TensorId &id, const TensorData &initial) {
    TensorIndex t = main_.find(id);
    if (!t.valid()) t = main_.addVariable(id, initial);
    Tensor &tensor = main_.tensor(t);
    check(
        tensor.info == initial.info() && tensor.hasTensorData() && tensor.uses().empty(),
        "automaticLossScalingSettings: the model's value of '{}' cannot be used: got {}, expected an initializer of {} "
        "that nothing reads",
        id, tensor.info, initial.info());
    tensor.setTensorType(TensorType::Variable);  // integers of a saved model are constants
    tensor.isOptimizerState = true;
    return t;
  }

  TensorIndex emitAt(const Op &op, const char *type, const std::vector<TensorIndex> &inputs, const TensorId &id,
                     Attributes attributes = {}) {
    return main_
        .addConnectedOp(opDef(type), inputs, {main_.freeId(id)}, std::move(attributes),
                        inheritSettings(op, main_, type))
        ->outputs()[0];
  }

  void scaleLoss(TensorIndex lossScaling) {
    const std::vector<Use> uses = main_.tensor(lossScaling).uses();
    const TensorIndex scale = emitAt(main_.op(uses.front().op), "Mul", {lossScaling, factor_}, "finalLossScale");
    for (const Use &use : uses) main_.replaceUse(use, scale);
  }

  // One quotient for the ops of each micro-batch and one for those of the update.
  void unscale(TensorIndex scalar) {
    std::map<ExecutionContext, TensorIndex> quotients;
    const std::vector<Use> uses = main_.tensor(scalar).uses();
    for (const Use &use : uses) {
      const Op &reader = main_.op(use.op);
      TensorIndex &quotient = quotients[reader.settings.executionContext];
      if (!quotient.valid())
        quotient = emitAt(reader, "Div", {scalar, factor_}, main_.tensor(scalar).id + "___unscaled");
      main_.replaceUse(use, quotient);
    }
  }

  // ---- counting
  TensorIndex count(const std::vector<TensorIndex> &gradients) {
    std::vector<TensorIndex> counts;
    for (TensorIndex gradient : gradients) counts.push_back(countsOf(gradient));
    emitter_.setContext(ExecutionContext::Normal);
    const TensorIndex all = emitter_.emitOne("Sum", counts, "lossScaleUpdateFactor___allCounts");
    return emitter_.cast(all, DataType::FLOAT, "lossScaleUpdateFactor___countsOfMicroBatch");
  }

  // The edge is a number of the gradients' type; if it rounds to 0, every gradient counts as large.
  Attributes histogramAttributes() const {
    const auto edge = static_cast<float>(Half(settings_.binEdge * kLargestHalf));
    return {{"levels", std::vector<float>{edge}}, {"absoluteOfInput", int64_t{1}}};
  }

  // Increments the counter of micro-batches in a period. Returns its new value.
  TensorIndex stepped(const Op &where) {
    const auto number = [&](const char *id, int64_t value) {
      return main_.addConstant(main_.freeId(id), TensorData::scalar(static_cast<int32_t>(value)));
    };
    const std::string name = std::string(kFactorId) + "___";
    const TensorIndex next = emitAt(where, "Add", {counter_, number("one", 1)}, name + "nextMicroBatch");
    const TensorIndex inPeriod =
        emitAt(where, "Remainder", {next, number("microBatchesOfPeriod", settings_.period * microBatches())},
               name + "microBatchOfPeriod");
    return emitAt(where, "CopyVarUpdate", {counter_, inPeriod}, name + "counted");
  }

  // Values of the counter below this one belong to the first update of a period.
  TensorIndex endOfFirstUpdate() {
    return main_.addConstant(main_.freeId("microBatchesOfUpdate"),
                             TensorData::scalar(static_cast<int32_t>(microBatches())));
  }

  int64_t microBatches() const { return program_.rules.factors.accumulationFactor; }

  TensorIndex countsOf(TensorIndex gradient) {
    const Op &producer = *main_.tensor(gradient).getProducer();
    const TensorId id = main_.tensor(gradient).id + "___Histogram";
    if (!counter_.valid()) return emitAt(producer, "Histogram", {gradient}, id, histogramAttributes());
    if (!isDue_.valid()) {
      counted_ = stepped(producer);
      isDue_ = emitAt(producer, "Less", {counted_, endOfFirstUpdate()}, "lossScaleUpdateFactor___isDue");
    }
    Ir &ir = main_.getIr();
    Graph &counting = ir.createGraph(ir.createUniqueSubgraphId("countGradients"));
    const TensorIndex input = counting.addInput(main_.tensor(gradient).id, main_.info(gradient));
    counting.markOutput(counting
                            .addConnectedOp(opDef("Histogram"), {input}, {counting.freeId(id)}, histogramAttributes(),
                                            Op::Settings(counting))
                            ->outputs()[0]);
    if (!idle_) {
      idle_ = &ir.createGraph(ir.createUniqueSubgraphId("countNoGradients"));
      idle_->markOutput(idle_->addConstant("zeros", TensorData(TensorInfo(DataType::UINT32, {2}))));
    }
    return emitAt(producer, "If", {isDue_, gradient}, id,
                  {{"then_branch", GraphRef{counting.id}}, {"else_branch", GraphRef{idle_->id}}});
  }

  // ---- the update of the factor
  void update(TensorIndex counts) {
    TensorIndex held;
    if (emitter_.accumulates())
      counts = held = emitter_.emitOne("Accumulate", {state(kCountsId, TensorData(main_.info(counts))), counts},
                                       "lossScaleUpdateFactor___accumulated");
    emitter_.setContext(ExecutionContext::AccumulateOuterFragment);
    const int64_t replicas = program_.rules.factors.replicationFactor;
    if (replicas > 1)
      counts = emitter_.emitOne("ReplicatedAllReduce", {counts}, "lossScaleUpdateFactor___countsOfReplicas",
                                {{"op", std::string("Add")}, {"group_size", replicas}, {"stride", int64_t{1}}});
    std::vector<TensorIndex> inputs{factor_, counts, {}, program_.areFinite};
    if (counter_.valid())
      inputs[2] = emitter_.emitOne("Less", {counted_, endOfFirstUpdate()}, "lossScaleUpdateFactor___isUpdateDue");
    emitter_.emit("LossScaleUpdate", inputs, {"lossScaleUpdateFactor___updated"}, {{"threshold", settings_.threshold}});
    if (held.valid()) emitter_.emit("AccumulatorZero", {held}, {"lossScaleUpdateFactor___countsZeroed"});
  }

  Graph &main_;
  const AutomaticLossScale &settings_;
  const TrainingProgram &program_;
  UpdateEmitter emitter_;
  TensorIndex factor_, counter_, counted_, isDue_;
  Graph *idle_ = nullptr;  // the branch that does not count
};

}  // namespace

void transformAutomaticLossScale(Graph &main, const AutomaticLossScale &settings, const TrainingProgram &program) {
  LossScaler(main, settings, program).run();
}

}  // namespace popart::transforms
