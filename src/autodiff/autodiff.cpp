// The two entry points of autodiff.
//   growBackward   adds gradient ops to the graph itself, which read activations directly.
//   differentiate  adds gradient ops to a new graph. A forward tensor that a gradient op reads becomes an input of it;
// one                  that call sites cannot access yet becomes an extra output of the forward graph (and of each Call
// of                  it), or is recomputed inside the gradient graph if something other than a Call runs the forward
//                  graph.
// Invariant: afterwards expectedInputs/expectedOutputs of every GradInfo match the gradient graph's inputs and outputs.
#include "autodiff/autodiff.hpp"

#include <algorithm>
#include <atomic>
#include <set>

#include <popart/ir.hpp>

#include "autodiff/backward_walk.hpp"
#include "autodiff/extra_outputs.hpp"
#include "ir/layer_names.hpp"

namespace popart::autodiff {
namespace {

enum class MissingGradients { Refuse, Skip };
// Tensors that a gradient op reads by its documentation, but does not need. Keep: they are inputs of the gradient
// graph, because users count them; Drop: for the graphs of a training program.
enum class UnusedReads { Keep, Drop };

struct Request {
  std::vector<TensorId> provided, required;
  MissingGradients missing = MissingGradients::Refuse;
};

GraphId newGradientGraphId(const Ir &ir, const GraphId &forward) {
  static std::atomic<int> counter{0};
  GraphId id = forward + "_bwd";
  while (ir.hasGraph(id)) id = forward + "_bwd_" + std::to_string(counter++);
  return id;
}

void refuseModifyingOps(const Graph &graph) {
  for (Op *op : graph.ops()) {
    if (op->has(Trait::HostIo)) continue;
    bool modifies = false;
    for (int i = 0; i < op->inputCount(); ++i) modifies |= op->hasInput(i) && op->modifiesInput(i);
    if (modifies)
      throw error(
          "Autodiff '{}': op {} writes to one of its inputs: the values its gradient needs are lost. Use the variant "
          "that makes a new tensor, or move the op to the calling graph.",
          graph.id, op->debugName());
  }
}

// Differentiates graphs, called graphs first; caches the results.
class Differentiator {
 public:
  Differentiator(Ir &ir, const GradInfos &known, UnusedReads unused) : ir_(ir), known_(known), unused_(unused) {}
  const GradInfos &made() const { return made_; }

  const GradInfo &differentiate(Graph &forward, const Request &request);

  // Gradient information for a called graph that covers at least the request.
  GradInfo forCall(Graph &callee, const CalledRequest &asked) {
    if (auto it = known_.find(callee.id); it != known_.end()) return it->second;
    Request request;
    request.missing = MissingGradients::Skip;
    for (size_t o = 0; o < asked.given.size() && o < callee.outputs().size(); ++o)
      if (asked.given[o]) addOnce(request.provided, callee.tensor(callee.outputs()[o]).id);
    for (size_t i = 0; i < callee.inputs().size(); ++i)
      if (asked.wanted.empty() || asked.wanted[i]) request.required.push_back(callee.tensor(callee.inputs()[i]).id);
    if (auto it = requests_.find(callee.id); it != requests_.end()) {
      if (covers(it->second.provided, request.provided) && covers(it->second.required, request.required))
        return made_.at(callee.id);
      for (const TensorId &id : it->second.provided) addOnce(request.provided, id);
      for (const TensorId &id : it->second.required) addOnce(request.required, id);
    }
    requests_[callee.id] = request;
    return differentiate(callee, request);
  }

 private:
  static void addOnce(std::vector<TensorId> &ids, const TensorId &id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  static bool covers(const std::vector<TensorId> &had, const std::vector<TensorId> &wanted) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const TensorId &id) { return std::find(had.begin(), had.end(), id) != had.end(); });
  }

  Ir &ir_;
  const GradInfos &known_;
  UnusedReads unused_;
  GradInfos made_;
  std::map<GraphId, Request> requests_;  // the requests that the gradient graphs of called graphs cover
};

// The forward tensors that a gradient graph reads: represented by tensors of that graph, connected at the end.
class Activations {
 public:
  Activations(Graph &forward, Graph &gradient) : fwd_(forward), grad_(gradient) {}

  TensorIndex get(TensorIndex forward) {
    if (auto it = seen_.find(forward); it != seen_.end()) return it->second;
    const Tensor &t = fwd_.tensor(forward);
    const TensorId id = grad_.uniqueId(grad_.addScope(fwd_.removeScope(t.id)));
    return seen_[forward] = grad_.addTensor(id, t.info, TensorType::ActGrad);
  }

  // Makes every activation an input of the gradient graph, in order of forward ids; returns those ids.
  std::vector<TensorId> connect(UnusedReads unused) {
    const bool canAdd = canAddOutputs(fwd_);
    std::erase_if(seen_, [&](const auto &entry) {
      return (unused == UnusedReads::Drop || (!canAdd && !reachable(entry.first))) && eraseUnused(entry.second);
    });
    if (!canAdd) recomputeHidden();
    std::map<TensorId, TensorIndex> byId;
    for (auto [forward, local] : seen_)
      if (!grad_.tensor(local).hasProducer() && grad_.tensor(local).tensorType() != TensorType::Const)
        byId[fwd_.tensor(forward).id] = forward;
    std::vector<TensorId> result;
    for (auto &[id, forward] : byId) {
      grad_.markInput(seen_.at(forward));
      if (!reachable(forward)) addOutput(fwd_, forward);
      result.push_back(id);
    }
    return result;
  }

 private:
  bool eraseUnused(TensorIndex local) {
    const Tensor &t = grad_.tensor(local);
    if (t.hasProducer() || !t.uses().empty() || t.isGraphOutput()) return false;
    grad_.eraseTensor(local);
    return true;
  }

  bool reachable(TensorIndex t) const {
    const auto &in = fwd_.inputs(), &out = fwd_.outputs();
    return std::find(in.begin(), in.end(), t) != in.end() || std::find(out.begin(), out.end(), t) != out.end();
  }

  void recomputeHidden() {
    const std::map<TensorIndex, TensorIndex> asked = seen_;
    for (auto [forward, local] : asked)
      if (!reachable(forward)) grad_.replaceUses(local, recomputed(forward));
    for (auto [forward, local] : asked) {
      if (reachable(forward)) continue;
      grad_.replaceOutputs(local, copies_.at(forward));
      grad_.eraseTensor(local);
      seen_.erase(forward);
    }
  }

  // The forward tensor, recomputed in the gradient graph from tensors that call sites can access.
  TensorIndex recomputed(TensorIndex forward) {
    if (reachable(forward)) return get(forward);
    if (auto it = copies_.find(forward); it != copies_.end()) return it->second;
    const Tensor &t = fwd_.tensor(forward);
    const std::string name = fwd_.removeScope(t.id);
    if (t.tensorType() == TensorType::Const)
      return copies_[forward] = grad_.addConstant(grad_.uniqueId(grad_.addScope(name)), t.tensorData());
    Op &producer = *t.getProducer();
    std::vector<TensorIndex> inputs;
    for (TensorIndex in : producer.inputs()) inputs.push_back(in.valid() ? recomputed(in) : TensorIndex{});
    std::vector<TensorId> outputs;
    for (TensorIndex out : producer.outputs())
      outputs.push_back(out.valid() ? grad_.uniqueId(grad_.addScope(fwd_.removeScope(fwd_.tensor(out).id)))
                                    : TensorId());
    Op::Settings settings = inheritSettings(producer, grad_, kRecomputedSuffix);
    settings.recomputeType = RecomputeType::Recomputed;
    Op *copy = grad_.addConnectedOp(producer.def(), inputs, outputs, producer.attributes(), settings);
    for (int o = 0; o < producer.outputCount(); ++o)
      if (producer.hasOutput(o)) copies_[producer.outputs()[o]] = copy->outputs()[o];
    return copies_.at(forward);
  }

  Graph &fwd_, &grad_;
  std::map<TensorIndex, TensorIndex> seen_;    // forward → its representative in the gradient graph
  std::map<TensorIndex, TensorIndex> copies_;  // forward -> recomputed
};

TensorIndex findForward(const Graph &forward, const TensorId &id, const char *role) {
  const TensorIndex t = forward.find(id);
  if (!t.valid())
    throw error("Autodiff '{}': tensor {} is not in the graph: got '{}'. Name tensors of the differentiated graph.",
                forward.id, role, id);
  return t;
}

// Removes a new graph from the Ir unless keep() was called, so that a failed autodiff leaves no graph.
class UnfinishedGraph {
 public:
  UnfinishedGraph(Ir &ir, GraphId id) : ir_(&ir), id_(std::move(id)) {}
  ~UnfinishedGraph() {
    if (ir_) ir_->removeGraph(id_);
  }
  UnfinishedGraph(const UnfinishedGraph &) = delete;
  UnfinishedGraph &operator=(const UnfinishedGraph &) = delete;
  void keep() { ir_ = nullptr; }

 private:
  Ir *ir_;
  GraphId id_;
};

const GradInfo &Differentiator::differentiate(Graph &forward, const Request &request) {
  refuseModifyingOps(forward);
  Graph &gradient = ir_.createGraph(newGradientGraphId(ir_, forward.id));
  GradInfo info{forward.id, gradient.id, {}, {}};
  Activations activations(forward, gradient);
  BackwardWalk walk{forward,
                    gradient,
                    {},
                    {},
                    [&](TensorIndex t) { return activations.get(t); },
                    [this](Graph &called, const CalledRequest &asked) { return forCall(called, asked); }};
  for (const TensorId &id : request.provided) {
    const TensorIndex t = findForward(forward, id, "with a provided gradient");
    walk.starts.emplace_back(t,
                             gradient.addInput(gradient.uniqueId(gradientId(forward, gradient, id)), forward.info(t)));
    info.expectedInputs.push_back({id, ConnectionType::FwdGrad});
  }
  for (const TensorId &id : request.required)
    walk.targets.push_back(findForward(forward, id, "whose gradient is required"));
  UnfinishedGraph unfinished(ir_, info.gradient);
  const std::vector<TensorIndex> gradients = walkBackward(walk);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].valid()) {
      if (request.missing == MissingGradients::Skip) continue;
      throw error(
          "Autodiff '{}': a required gradient cannot be had: tensor '{}' ({}) has no differentiable path to a provided "
          "gradient. Leave it out of grads_required.",
          forward.id, request.required[i], forward.getTensor(request.required[i])->info);
    }
    gradient.markOutput(gradients[i]);
    info.expectedOutputs.push_back({request.required[i], ConnectionType::FwdGrad});
  }
  for (const TensorId &id : activations.connect(unused_)) info.expectedInputs.push_back({id, ConnectionType::Fwd});
  unfinished.keep();
  return made_[forward.id] = info;
}

}  // namespace

GradInfos differentiate(Ir &ir, const GraphId &forward, const std::vector<TensorId> *gradsProvided,
                        const std::vector<TensorId> *gradsRequired, const GradInfos &known) {
  Graph &graph = ir.getGraph(forward);
  if (gradsRequired && gradsRequired->empty())
    throw error(
        "Autodiff '{}': the list of required gradients is empty: got 0 tensors, expected at least 1. Leave the list "
        "out to ask for all inputs.",
        forward);
  Differentiator differentiator(ir, known, UnusedReads::Keep);
  differentiator.differentiate(graph, {gradsProvided ? *gradsProvided : graph.getOutputIds(),
                                       gradsRequired ? *gradsRequired : graph.getInputIds(), MissingGradients::Refuse});
  return differentiator.made();
}

std::map<TensorId, TensorId> growBackward(Graph &graph, const TensorId &lossId, TensorIndex lossGradient,
                                          const std::vector<TensorId> &targets) {
  const GradInfos none;
  Differentiator differentiator(graph.getIr(), none, UnusedReads::Drop);
  BackwardWalk walk{graph,
                    graph,
                    {{graph.getTensor(lossId)->index(), lossGradient}},
                    {},
                    [](TensorIndex t) { return t; },
                    [&](Graph &called, const CalledRequest &asked) { return differentiator.forCall(called, asked); }};
  for (const TensorId &id : targets) walk.targets.push_back(graph.getTensor(id)->index());
  const std::vector<TensorIndex> gradients = walkBackward(walk);
  std::map<TensorId, TensorId> result;
  for (size_t i = 0; i < targets.size(); ++i)
    if (gradients[i].valid()) result[targets[i]] = graph.tensor(gradients[i]).id;
  return result;
}

}  // namespace popart::autodiff
