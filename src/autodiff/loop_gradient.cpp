// See loop_gradient.hpp. The carried values that have a gradient are a fixed point over iterations: those that depend,
// in some iteration, on a requested input, and on which an output with a gradient depends. The backward loop carries
// their gradients, then the sums for the requested values from outside.
#include "autodiff/loop_gradient.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <popart/ir.hpp>

#include "autodiff/extra_outputs.hpp"
#include "ir/layer_names.hpp"
#include "ops/control/loops.hpp"

namespace popart::autodiff {
namespace {

using Tensors = std::set<TensorIndex>;

constexpr int64_t kMostStacked = int64_t{1} << 20;

bool carriesGradient(const Graph &graph, TensorIndex t) { return isFloatingPoint(graph.info(t).dataType()); }

// Adds to `active` the tensors that depend on it through floating-point tensors.
void spreadForward(const Graph &graph, const std::vector<Op *> &schedule, Tensors &active) {
  for (const Op *op : schedule) {
    if (op->def().cutsGradient()) continue;
    const auto &in = op->inputs();
    if (std::none_of(in.begin(), in.end(), [&](TensorIndex t) { return t.valid() && active.count(t); })) continue;
    for (TensorIndex t : op->outputs())
      if (t.valid() && carriesGradient(graph, t)) active.insert(t);
  }
}

// Adds to `needed` the tensors that it depends on through floating-point tensors.
void spreadBackward(const Graph &graph, const std::vector<Op *> &schedule, Tensors &needed) {
  for (size_t i = schedule.size(); i-- > 0;) {
    const Op &op = *schedule[i];
    if (op.def().cutsGradient()) continue;
    const auto &out = op.outputs();
    if (std::none_of(out.begin(), out.end(), [&](TensorIndex t) { return t.valid() && needed.count(t); })) continue;
    for (TensorIndex t : op.inputs())
      if (t.valid() && carriesGradient(graph, t)) needed.insert(t);
  }
}

class LoopGradient {
 public:
  explicit LoopGradient(const LoopRequest &r)
      : r_(r),
        forward_(*r.op.getCalledGraphs().front()),
        carried_(ops::carriedCount(r.op)),
        counter_(ops::iterationCount(r.op) >= 0 ? -1 : ops::loopCounter(r.op)),
        trips_(counter_ >= 0 ? r.op.attrInt("trip_count") : ops::iterationCount(r.op)) {}

  std::vector<TensorIndex> run() {
    if (trips_ < 0)
      throw error(
          "Autodiff '{}': the gradient of a Loop needs a bound of its iterations when the graph is built. Make the "
          "trip "
          "count a constant; the condition may end the loop before.",
          r_.op.debugName());
    if (counter_ >= 0 && trips_ > kMostStacked)
      throw error(
          "Autodiff '{}': the gradient of a Loop that may end early keeps the values of as many iterations as its trip "
          "count allows: got {}, expected at most {}. Lower the trip count",
          r_.op.debugName(), trips_, kMostStacked);
    chooseParts();
    CalledRequest request{std::vector<bool>(forward_.outputs().size(), false),
                          std::vector<bool>(forward_.inputs().size(), false)};
    for (int k : states_) request.given[1 + k] = request.wanted[2 + k] = true;
    for (int s : scans_) request.given[1 + s] = true;
    for (int v : sums_) request.wanted[2 + v] = true;
    const GradInfo info = r_.calledGradient(forward_, request);
    makeBody(info);
    return addLoop();
  }

 private:
  bool isWanted(int value) const {
    const auto input = static_cast<size_t>(value + 2);
    return input < r_.wanted.size() && r_.wanted[input];
  }
  bool hasGradient(int output) const {
    return output < static_cast<int>(r_.gradOuts.size()) && r_.gradOuts[output].valid();
  }
  TensorIndex bodyIn(int value) const { return forward_.inputs()[2 + value]; }
  TensorIndex bodyOut(int value) const { return forward_.outputs()[1 + value]; }

  void chooseParts() {
    const int values = static_cast<int>(forward_.inputs().size()) - 2;
    const int results = static_cast<int>(forward_.outputs().size()) - 1;
    const std::vector<Op *> schedule = forward_.getOpSchedule();
    Tensors active, needed;
    for (int i = 0; i < values; ++i)
      if (isWanted(i)) active.insert(bodyIn(i));
    for (size_t before = SIZE_MAX; before != active.size();) {
      before = active.size();
      spreadForward(forward_, schedule, active);
      for (int k = 0; k < carried_; ++k)
        if (active.count(bodyOut(k))) active.insert(bodyIn(k));
    }
    for (int o = 0; o < results; ++o)
      if (hasGradient(o) && carriesGradient(forward_, bodyOut(o))) needed.insert(bodyOut(o));
    for (size_t before = SIZE_MAX; before != needed.size();) {
      before = needed.size();
      spreadBackward(forward_, schedule, needed);
      for (int k = 0; k < carried_; ++k)
        if (needed.count(bodyIn(k))) needed.insert(bodyOut(k));
    }
    for (int k = 0; k < carried_; ++k)
      if (active.count(bodyIn(k)) && needed.count(bodyOut(k))) states_.push_back(k);
    for (int s = carried_; s < results; ++s)
      if (hasGradient(s) && active.count(bodyOut(s))) scans_.push_back(s);
    for (int v = carried_; v < values; ++v)
      if (isWanted(v) && needed.count(bodyIn(v))) sums_.push_back(v);
  }

  // ---- the body of the backward loop
  TensorIndex addBodyInput(const std::string &name, const TensorInfo &info) {
    return body_->addInput(body_->uniqueId(body_->addScope(name)), info);
  }
  TensorIndex emit(const std::string &type, const std::vector<TensorIndex> &inputs, const std::string &name,
                   Attributes attributes = {}) {
    return body_
        ->addConnectedOp(opDef(type), inputs, {body_->uniqueId(body_->addScope(name))}, std::move(attributes),
                         inheritSettings(r_.op, *body_, kGradientSuffix))
        ->outputs()[0];
  }

  void makeBody(const GradInfo &info) {
    Ir &ir = forward_.getIr();
    Graph &backward = ir.getGraph(info.gradient);
    body_ = &ir.createGraph(ir.createUniqueSubgraphId(info.gradient + "_loop"));
    const TensorIndex iteration = addBodyInput("iteration", TensorInfo(DataType::INT64, {}));
    const TensorIndex condition = addBodyInput("condition", TensorInfo(DataType::BOOL, {}));
    loopInputs_ = {counter_ >= 0 ? r_.activation(r_.op.outputs()[counter_]) : TensorIndex{}, TensorIndex{}};
    std::map<int, TensorIndex> state, sum;
    for (int k : states_) state[k] = addState(bodyIn(k), hasGradient(k) ? r_.gradOuts[k] : TensorIndex{});
    for (int v : sums_) sum[v] = addState(bodyIn(v), {});
    position_ = emit("Sub", {lastIteration(), iteration}, "position");
    std::vector<TensorIndex> inputs;
    for (const ExpectedConnection &c : info.expectedInputs)
      inputs.push_back(c.type == ConnectionType::FwdGrad ? outputGradient(c.fwdId, state) : forwardValue(c.fwdId));
    std::map<TensorIndex, TensorIndex> gradients;  // of the body's inputs
    if (!info.expectedOutputs.empty()) {
      std::vector<TensorId> ids;
      for (const TensorId &id : backward.getOutputIds())
        ids.push_back(body_->uniqueId(body_->addScope(backward.removeScope(id))));
      const Op *call = body_->addConnectedOp(opDef("Call"), inputs, ids, {{"callee", GraphRef{info.gradient}}},
                                             inheritSettings(r_.op, *body_, kGradientSuffix));
      for (size_t o = 0; o < ids.size(); ++o)
        gradients[forward_.find(info.expectedOutputs[o].fwdId)] = call->outputs()[o];
    }
    body_->markOutput(condition);
    for (int k : states_) {
      const auto found = gradients.find(bodyIn(k));
      body_->markOutput(found != gradients.end() ? found->second : addZeros(*body_, forward_.info(bodyIn(k))));
    }
    for (int v : sums_) {
      const auto found = gradients.find(bodyIn(v));
      body_->markOutput(found != gradients.end() ? emit("Add", {sum[v], found->second}, "gradient_sum") : sum[v]);
    }
  }

  // A value that the backward loop carries, from `initial` on (invalid: zeros).
  TensorIndex addState(TensorIndex forward, TensorIndex initial) {
    const TensorInfo &info = forward_.info(forward);
    loopInputs_.push_back(initial.valid() ? initial : addZeros(r_.gradient, info));
    return addBodyInput("Gradient___" + forward_.removeScope(forward_.tensor(forward).id), info);
  }

  // The number of the last iteration that was run.
  TensorIndex lastIteration() {
    if (counter_ < 0) return body_->addConstant(body_->addScope("last_iteration"), TensorData::scalar(trips_ - 1));
    const TensorIndex one = body_->addConstant(body_->uniqueId(body_->addScope("one")), TensorData::scalar(int64_t{1}));
    return emit("Sub", {captured(loopInputs_[0]), one}, "last");
  }

  // The body's input for a tensor of the graph around the loop.
  TensorIndex captured(TensorIndex outer) {
    if (const auto it = captured_.find(outer); it != captured_.end()) return it->second;
    captures_.push_back(outer);
    return captured_[outer] =
               addBodyInput(r_.gradient.removeScope(r_.gradient.tensor(outer).id), r_.gradient.info(outer));
  }

  // The slice of the current iteration from a tensor that is stacked over all iterations.
  TensorIndex slice(TensorIndex stack) {
    const TensorIndex whole = captured(stack);
    if (const auto it = slices_.find(whole); it != slices_.end()) return it->second;
    return slices_[whole] = emit("Gather", {whole, position_}, "of_iteration", {{"axis", int64_t{0}}});
  }

  // The gradient of a body output: that of later iterations plus that of its stacked values.
  TensorIndex outputGradient(const TensorId &id, const std::map<int, TensorIndex> &state) {
    const TensorIndex formal = forward_.find(id);
    std::vector<TensorIndex> parts;
    for (auto [k, value] : state)
      if (bodyOut(k) == formal) parts.push_back(value);
    for (int s : scans_)
      if (bodyOut(s) == formal) parts.push_back(slice(r_.gradOuts[s]));
    return parts.empty() ? addZeros(*body_, forward_.info(formal)) : addSum(*body_, parts, r_.op);
  }

  // A forward tensor of the body, one of its inputs or outputs, in the current iteration.
  TensorIndex forwardValue(const TensorId &id) {
    const TensorIndex formal = forward_.find(id);
    const auto &in = forward_.inputs();
    const auto input = static_cast<int>(std::find(in.begin(), in.end(), formal) - in.begin());
    if (input == 0) return position_;
    if (input == 1) return body_->addConstant(body_->uniqueId(body_->addScope("true")), TensorData::scalar(true));
    if (input >= 2 + carried_ && input < static_cast<int>(in.size()))
      return captured(r_.activation(r_.op.inputs()[input]));
    return slice(r_.activation(r_.op.outputs()[stackOf(formal)]));
  }

  // The output of the op that stacks `formal` over the iterations.
  int stackOf(TensorIndex formal) {
    const auto &out = forward_.outputs();
    for (int o = carried_; o + 1 < static_cast<int>(out.size()); ++o)
      if (bodyOut(o) == formal && r_.op.hasOutput(o)) return o;
    if (!canAddOutputs(forward_))
      throw error(
          "Autodiff '{}': the loop's body '{}' is also run by an op that cannot return the values of each iteration. "
          "Give the loop a body of its own.",
          r_.op.debugName(), forward_.id);
    addOutput(forward_, formal);
    return static_cast<int>(out.size()) - 2;
  }

  // ---- the backward loop
  std::vector<TensorIndex> addLoop() {
    std::vector<int> inputs;  // inputs of the forward op whose gradients the loop returns
    for (int value : states_) inputs.push_back(2 + value);
    for (int value : sums_) inputs.push_back(2 + value);
    std::vector<TensorIndex> gradients(r_.wanted.size());
    if (inputs.empty()) return gradients;
    std::vector<TensorId> ids;
    for (int i : inputs)
      ids.push_back(r_.gradient.uniqueId(
          r_.gradient.addScope("Gradient___" + std::to_string(r_.op.id) + "_" + std::to_string(i))));
    loopInputs_.insert(loopInputs_.end(), captures_.begin(), captures_.end());
    const Op *loop = r_.gradient.addConnectedOp(
        opDef("Loop"), loopInputs_, ids,
        {{"body", GraphRef{body_->id}}, {"trip_count", trips_}, {"carried", static_cast<int64_t>(inputs.size())}},
        inheritSettings(r_.op, r_.gradient, kGradientSuffix));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (r_.wanted[inputs[i]]) gradients[inputs[i]] = loop->outputs()[i];
    return gradients;
  }

  const LoopRequest &r_;
  Graph &forward_;
  const int carried_;
  const int counter_;    // carried value that counts the iterations; -1: their number is known
  const int64_t trips_;  // their number or, if they are counted, its bound
  Graph *body_ = nullptr;
  std::vector<int> states_, sums_;  // carried values and values from outside that have gradients, by number
  std::vector<int> scans_;          // outputs of the op that are stacks with a gradient
  TensorIndex position_;            // number of the forward iteration, in the body
  std::vector<TensorIndex> loopInputs_, captures_;
  std::map<TensorIndex, TensorIndex> captured_, slices_;
};

}  // namespace

std::vector<TensorIndex> differentiateLoop(const LoopRequest &request) { return LoopGradient(request).run(); }

}  // namespace popart::autodiff
