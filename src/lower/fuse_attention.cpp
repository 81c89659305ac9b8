// A match starts at a softmax over the last axis and grows along the program's values:
//
//   q, k ── MatMul ── steps ── Softmax ── MatMul ── y        steps: element-wise ops on scores, with other operands
//                                │          v
//   dy, vᵀ ── MatMul ── SoftmaxGrad ── steps ── MatMul ── dq
//                                           └── MatMul ── dk     dv = pᵀ @ dy
//
// Between them there may be ops that keep each score in its row: views, casts to 16 bits and back, and exchanged last
// dimensions where a product reads them. At the end only the match may read a matrix of scores.
#include "lower/fuse_attention.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "lower/attention_match.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/widen.hpp"
#include "ops/numbers.hpp"
#include "ops/shape/strided_view.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// Inputs of FusedAttentionGrad: the outputs of FusedAttention start at kResult.
constexpr int kResult = 3, kGradOut = 6;

// A graph of element-wise ops on scores, and its other operands.
class StepsGraph {
 public:
  StepsGraph(Ir &ir, const Graph &graph, std::vector<TensorIndex> &extras) : ir_(ir), graph_(graph), extras_(extras) {
    GraphId id;
    do id = "fused/" + std::to_string(ir.getAndIncrSubgraphCounter());
    while (ir.hasGraph(id));
    body_ = &ir.createGraph(id);
  }

  void given(TensorIndex t) { addInput(t); }
  // Gives it all operands of a graph that was made before, in order; no others may follow.
  void giveExtras() {
    for (TensorIndex t : extras_) addInput(t);
    isClosed_ = true;
  }
  // Returns false if an op reads a tensor that is not an operand of the graph.
  bool add(const Op &op) {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) {
      if (t.valid() && !inner_.count(t)) {
        if (ops::isNumber(graph_.tensor(t))) {
          inner_[t] = body_->addConstant(body_->addScope(graph_.tensor(t).id), graph_.tensor(t).tensorData());
        } else if (isClosed_) {
          return false;
        } else {
          addInput(t);
          extras_.push_back(t);
        }
      }
      inputs.push_back(t.valid() ? inner_.at(t) : TensorIndex{});
    }
    inner_[op.outputs()[0]] = body_
                                  ->addConnectedOp(op.def(), inputs, {body_->addScope(op.outId(0))}, op.attributes(),
                                                   copySettings(op, *body_))
                                  ->outputs()[0];
    return true;
  }
  GraphRef finish(TensorIndex result) {
    body_->markOutput(inner_.at(result));
    return {body_->id};
  }
  void drop() { ir_.removeGraph(body_->id); }

 private:
  void addInput(TensorIndex t) {
    if (!inner_.count(t)) inner_[t] = body_->addInput(body_->addScope(graph_.tensor(t).id), graph_.info(t));
  }

  Ir &ir_;
  const Graph &graph_;
  std::vector<TensorIndex> &extras_;
  Graph *body_ = nullptr;
  std::map<TensorIndex, TensorIndex> inner_;
  bool isClosed_ = false;
};

void setPermutation(Attributes &attributes, const char *name, const std::vector<int64_t> &perm) {
  if (!std::is_sorted(perm.begin(), perm.end())) attributes.set(name, perm);
}

// The tensor that a result of the fused op replaces, which may be a transposed or scaled form of it.
struct ResultPlace {
  TensorIndex tensor;
  std::vector<int64_t> perm;  // permutation of the result
  float scale = 1.0f;
};

class AttentionFuser {
 public:
  AttentionFuser(Ir &ir, Graph &graph, const executable::Backend &backend)
      : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    for (OpIndex o : schedule::orderOps(graph_)) {
      if (!graph_.alive(o)) continue;
      Op &op = graph_.op(o);
      if (!isSoftmaxOfRows(op)) continue;
      const OpIndex added = addProduct(op);
      auto match = AttentionMatch::find(graph_, op);
      const bool isFused = match && fuse(*match);
      if (added.valid() && !isFused) eraseProduct(added);
    }
  }

 private:
  bool fuse(AttentionMatch &m) {
    std::vector<TensorIndex> extras;
    std::vector<GraphId> graphs;
    Attributes forward, backward;
    if (makeGraphs(m, extras, graphs, forward, backward) && replace(m, extras, forward, backward)) return true;
    for (const GraphId &id : graphs) ir_.removeGraph(id);
    return false;
  }

  // A softmax that is recomputed for its gradient has no product with v, because nothing reads that; the fused gradient
  // does. Adds that product. Returns an invalid index if it exists, or if there is no gradient.
  OpIndex addProduct(const Op &softmax) {
    const TensorIndex p = softmax.outputs()[0];
    const Op *gradient = nullptr;
    for (const Use &use : graph_.tensor(p).uses()) {
      const Op &reader = graph_.op(use.op);
      if (isSoftmaxGradient(reader) && use.input == 1)
        gradient = &reader;
      else if (!isTransposeOfKnownAxes(reader))
        return {};
    }
    const Op *product = gradient ? graph_.tensor(gradient->inputs()[0]).getProducerUnsafe() : nullptr;
    if (!product || !product->is(Role::MatMul) || product->inRank(1) < 2) return {};
    const Op *turned = graph_.tensor(product->inputs()[1]).getProducerUnsafe();
    if (!turned || !isTransposeOfKnownAxes(*turned)) return {};
    std::vector<int64_t> last = turned->attrInts("perm");
    std::swap(last[last.size() - 1], last[last.size() - 2]);
    OpEmitter emitter(graph_, softmax);
    TensorIndex v = turned->inputs()[0];
    if (!std::ranges::is_sorted(last)) v = emitter.emit("Transpose", {v}, {{"perm", last}});
    const TensorIndex y = emitter.emit("MatMul", {p, v});
    return graph_.tensor(y).producerIndex();
  }
  void eraseProduct(OpIndex product) {
    const TensorIndex v = graph_.op(product).inputs()[1];
    graph_.eraseOpAndOutputs(product);
    const Tensor &tensor = graph_.tensor(v);
    if (tensor.hasProducer() && tensor.uses().empty() && !tensor.isGraphOutput())
      graph_.eraseOpAndOutputs(tensor.producerIndex());
  }

  // Makes the graphs of steps; returns false if those of the gradient read more than the forward pass.
  bool makeGraphs(const AttentionMatch &m, std::vector<TensorIndex> &extras, std::vector<GraphId> &graphs,
                  Attributes &forward, Attributes &backward) {
    if (!m.steps.empty()) {
      StepsGraph steps(ir_, graph_, extras);
      steps.given(m.product);
      for (const Op *op : m.steps) steps.add(*op);
      const GraphRef ref = steps.finish(m.scores);
      graphs.push_back(ref.id);
      forward.set("scores", ref), backward.set("scores", ref);
    }
    if (!m.gradient || m.gradient->steps.empty()) return true;
    if (m.steps.empty()) return false;
    StepsGraph steps(ir_, graph_, extras);
    steps.given(m.product);
    steps.given(m.gradient->scores);
    steps.giveExtras();
    bool fits = true;
    for (const Op *op : gradientSteps(m)) fits = fits && steps.add(*op);
    if (!fits) return steps.drop(), false;
    const GraphRef ref = steps.finish(m.gradient->product);
    graphs.push_back(ref.id);
    backward.set("gradient", ref);
    return true;
  }

  // The steps that the gradient of the product needs, in order; some are also in the forward pass.
  static std::vector<const Op *> gradientSteps(const AttentionMatch &m) {
    std::vector<const Op *> all = m.steps, needed;
    all.insert(all.end(), m.gradient->steps.begin(), m.gradient->steps.end());
    std::set<TensorIndex> wanted{m.gradient->product};
    for (size_t i = all.size(); i-- > 0;) {
      if (!wanted.count(all[i]->outputs()[0])) continue;
      needed.push_back(all[i]);
      wanted.insert(all[i]->inputs().begin(), all[i]->inputs().end());
    }
    std::ranges::reverse(needed);
    return needed;
  }

  bool replace(AttentionMatch &m, const std::vector<TensorIndex> &extras, Attributes forward, Attributes backward) {
    std::vector<TensorIndex> inputs{m.q.tensor, m.k.tensor, m.v.tensor};
    inputs.insert(inputs.end(), extras.begin(), extras.end());
    const ResultPlace y = placeOf(m.weighted->outputs()[0], Follow::kTransposes, m.spare);
    for (Attributes *a : {&forward, &backward}) {
      setPermutation(*a, "perm_q", m.q.perm), setPermutation(*a, "perm_k", m.k.perm);
      setPermutation(*a, "perm_v", m.v.perm);
      a->set("scale", m.q.scale * m.k.scale * m.scale);
    }
    setPermutation(forward, "perm_y", y.perm);
    Op *made = add("FusedAttention", inputs, std::move(forward), *m.weighted, m.gradient ? 3 : 1);
    if (!isSupported(*made)) return graph_.eraseOpAndOutputs(made->index()), false;
    Op *gradient = m.gradient ? addGradient(m, *made, extras, y, std::move(backward)) : nullptr;
    if (m.gradient && !gradient) return graph_.eraseOpAndOutputs(made->index()), false;
    moveReaders(y.tensor, made->outputs()[0]);
    for (const OpIndex o : m.forwardOps) graph_.moveConstraints(o, made->index());
    erase(m);
    inHalves(*made, gradient);
    return true;
  }

  // Adds the op of the gradient; nullptr if the backend refuses it.
  Op *addGradient(AttentionMatch &m, const Op &forward, const std::vector<TensorIndex> &extras, const ResultPlace &y,
                  Attributes attributes) {
    const AttentionMatch::Gradient &g = *m.gradient;
    std::vector<TensorIndex> inputs{m.q.tensor, m.k.tensor, m.v.tensor};
    inputs.insert(inputs.end(), forward.outputs().begin(), forward.outputs().end());
    inputs.push_back(g.gradOut.tensor);
    inputs.insert(inputs.end(), extras.begin(), extras.end());
    setPermutation(attributes, "perm_out", ops::inversePermutation(y.perm));
    setPermutation(attributes, "perm_g", g.gradOut.perm);
    const char *const perms[] = {"perm_dq", "perm_dk", "perm_dv"};
    const char *const scales[] = {"dq_scale", "dk_scale"};
    const float factors[] = {m.k.scale * m.scale, m.q.scale * m.scale};
    ResultPlace targets[3];
    for (size_t i = 0; i < 3; ++i) {
      if (!g.results[i]) continue;
      targets[i] = placeOf(g.results[i]->outputs()[0], i < 2 ? Follow::kFactorsToo : Follow::kTransposes, m.spare);
      setPermutation(attributes, perms[i], targets[i].perm);
      if (i < 2) attributes.set(scales[i], factors[i] * targets[i].scale);
    }
    Op *made = add("FusedAttentionGrad", inputs, std::move(attributes), *g.ofProbabilities, 3,
                   [&](size_t i) { return g.results[i] != nullptr; });
    if (!isSupported(*made)) return graph_.eraseOpAndOutputs(made->index()), nullptr;
    for (size_t i = 0; i < 3; ++i)
      if (g.results[i]) moveReaders(targets[i].tensor, made->outputs()[i]);
    for (const OpIndex o : m.backwardOps) graph_.moveConstraints(o, made->index());
    return made;
  }

  // ---- 16 bits

  // A 16-bit operand or result: the tensor on the other side of a cast and of transposes, and its permutation.
  struct HalfPlace {
    TensorIndex tensor;
    std::vector<int64_t> perm;
    std::vector<OpIndex> passed;
  };
  static std::vector<int64_t> permutationOf(const Op &op, const char *name, int64_t rank) {
    if (op.hasAttr(name)) return op.attrInts(name);
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    return perm;
  }
  static bool isCast(const Op &op, DataType from, DataType to) {
    return op.has(Trait::Conversion) && op.inInfo(0).dataType() == from && op.outInfo(0).dataType() == to;
  }

  // The tensor from which input `i` was widened; nullopt if it was not widened from this type.
  std::optional<HalfPlace> widenedFrom(const Op &op, int i, const char *name, DataType type) const {
    const TensorIndex wide = op.inputs()[static_cast<size_t>(i)];
    const Op *producer = graph_.tensor(wide).getProducerUnsafe();
    if (!producer || !isCast(*producer, type, DataType::FLOAT) || runsApart(*producer, op)) return std::nullopt;
    HalfPlace place{producer->inputs()[0], permutationOf(op, name, graph_.info(wide).rank()), {producer->index()}};
    while ((producer = graph_.tensor(place.tensor).getProducerUnsafe()) && isTransposeOfKnownAxes(*producer) &&
           !runsApart(*producer, op)) {
      for (int64_t &d : place.perm) d = producer->attrInts("perm")[static_cast<size_t>(d)];
      place.tensor = producer->inputs()[0];
      place.passed.push_back(producer->index());
    }
    return place;
  }
  // The tensor to which output `o` is rounded; nullopt if ops other than `besides` read it in FLOAT.
  std::optional<HalfPlace> roundedTo(const Op &op, int o, const char *name, DataType type, const Op *besides) const {
    const TensorIndex wide = op.outputs()[static_cast<size_t>(o)];
    const Op *cast = nullptr;
    for (const Op *reader : graph_.tensor(wide).consumerOps()) {
      if (reader == besides) continue;
      if (cast || !isCast(*reader, DataType::FLOAT, type) || runsApart(op, *reader)) return std::nullopt;
      cast = reader;
    }
    if (!cast || graph_.tensor(wide).isGraphOutput()) return std::nullopt;
    HalfPlace place{cast->outputs()[0], permutationOf(op, name, graph_.info(wide).rank()), {cast->index()}};
    for (const Op *reader = onlyReader(place.tensor); reader && isTransposeOfKnownAxes(*reader);
         reader = onlyReader(place.tensor)) {
      std::vector<int64_t> next;
      for (int64_t axis : reader->attrInts("perm")) next.push_back(place.perm[static_cast<size_t>(axis)]);
      place.perm = std::move(next);
      place.tensor = reader->outputs()[0];
      place.passed.push_back(reader->index());
    }
    return place;
  }

  // The op of either pass, with 16-bit operands and results.
  struct HalfOp {
    const char *type;
    std::vector<TensorIndex> inputs;
    Attributes attributes;
    std::vector<std::optional<HalfPlace>> results;  // nullopt: not rounded, or absent
    std::vector<OpIndex> passed;
    bool isComplete = true;

    void take(size_t input, const char *name, std::optional<HalfPlace> place) {
      isComplete = isComplete && place;
      if (!isComplete) return;
      inputs[input] = place->tensor;
      permute(name, *place);
    }
    void give(const char *name, std::optional<HalfPlace> place) {
      isComplete = isComplete && place;
      if (isComplete) permute(name, *place);
      results.push_back(std::move(place));
    }
    void permute(const char *name, const HalfPlace &place) {
      attributes.erase(name);
      setPermutation(attributes, name, place.perm);
      passed.insert(passed.end(), place.passed.begin(), place.passed.end());
    }
  };

  // FusedAttention(Cast(q), Cast(k), Cast(v)) → Cast, and its gradient in the same form → both on 16-bit operands, if
  // the backend accepts them: the result is rounded once, and the gradient reads it rounded.
  void inHalves(Op &forward, Op *backward) {
    const Op *cast = graph_.tensor(forward.inputs()[0]).getProducerUnsafe();
    if (!cast || !cast->has(Trait::Conversion)) return;
    const DataType type = cast->inInfo(0).dataType();
    if (!isHalf(type)) return;
    HalfOp y{"FusedAttention", forward.inputs(), forward.attributes(), {}, {}};
    takeOperands(forward, type, y);
    y.give("perm_y", roundedTo(forward, 0, "perm_y", type, backward));
    HalfOp g{"FusedAttentionGrad", {}, {}, {}, {}};
    if (backward && y.isComplete) {
      g.inputs = backward->inputs(), g.attributes = backward->attributes();
      takeOperands(*backward, type, g);
      g.take(kGradOut, "perm_g", widenedFrom(*backward, kGradOut, "perm_g", type));
      const char *const perms[] = {"perm_dq", "perm_dk", "perm_dv"};
      for (int o = 0; o < 3; ++o)
        if (backward->hasOutput(o))
          g.give(perms[o], roundedTo(*backward, o, perms[o], type, nullptr));
        else
          g.results.emplace_back();
    }
    if (!y.isComplete || !g.isComplete) return;
    Op *madeY = addHalves(y, forward, static_cast<size_t>(forward.outputCount()));
    if (!madeY) return;
    Op *madeG = nullptr;
    if (backward) {
      std::ranges::copy(madeY->outputs(), g.inputs.begin() + kResult);
      g.attributes.erase("perm_out");
      setPermutation(g.attributes, "perm_out", ops::inversePermutation(y.results[0]->perm));
      madeG = addHalves(g, *backward, 3);
      if (!madeG) return graph_.eraseOpAndOutputs(madeY->index());
    }
    std::vector<OpIndex> left = y.passed;
    left.insert(left.end(), g.passed.begin(), g.passed.end());
    left.push_back(forward.index());
    if (backward) left.push_back(backward->index());
    take(y, *madeY, forward);
    if (backward) take(g, *madeG, *backward);
    eraseUnread(std::move(left));
  }
  void takeOperands(const Op &op, DataType type, HalfOp &halves) const {
    const char *const perms[] = {"perm_q", "perm_k", "perm_v"};
    for (int i = 0; i < 3; ++i) halves.take(static_cast<size_t>(i), perms[i], widenedFrom(op, i, perms[i], type));
  }
  Op *addHalves(const HalfOp &halves, const Op &wide, size_t outputs) {
    Op *made = add(halves.type, halves.inputs, halves.attributes, wide, outputs,
                   [&](size_t o) { return wide.hasOutput(static_cast<int>(o)); });
    if (isSupported(*made)) return made;
    graph_.eraseOpAndOutputs(made->index());
    return nullptr;
  }
  // Lets the readers of the rounded results read those of `made`.
  void take(const HalfOp &halves, const Op &made, const Op &wide) {
    for (size_t o = 0; o < halves.results.size(); ++o)
      if (halves.results[o]) moveReaders(halves.results[o]->tensor, made.outputs()[o]);
    graph_.moveConstraints(wide.index(), made.index());
  }

  template <class Wanted>
  Op *add(const char *type, const std::vector<TensorIndex> &inputs, Attributes attributes, const Op &origin,
          size_t outputs, const Wanted &isWanted) {
    static constexpr const char *kSuffix[] = {"/fused", "/fused2", "/fused3"};
    std::vector<TensorId> ids(outputs);
    for (size_t o = 0; o < outputs; ++o)
      if (isWanted(o)) ids[o] = graph_.freeId(origin.outId(0) + kSuffix[o]);
    return graph_.addConnectedOp(opDef(type), inputs, ids, std::move(attributes), inheritSettings(origin, graph_));
  }
  Op *add(const char *type, const std::vector<TensorIndex> &inputs, Attributes attributes, const Op &origin,
          size_t outputs) {
    return add(type, inputs, std::move(attributes), origin, outputs, [](size_t) { return true; });
  }

  bool isSupported(const Op &op) const {
    std::string reason;
    return backend_.supports(op, reason);
  }

  // Gives the op's output the id and the readers of `old`.
  void moveReaders(TensorIndex old, TensorIndex fresh) {
    const TensorId id = graph_.tensor(old).id;
    graph_.renameTensor(old, graph_.freeId(id + "/replaced"));
    graph_.renameTensor(fresh, id);
    graph_.replaceTensor(old, fresh);
  }

  enum class Follow : uint8_t { kTransposes, kFactorsToo };
  // Follows the only readers of a result while they transpose or scale it.
  ResultPlace placeOf(TensorIndex t, Follow follow, std::vector<OpIndex> &spare) const {
    ResultPlace target{t, std::vector<int64_t>(static_cast<size_t>(graph_.info(t).rank())), 1.0f};
    std::iota(target.perm.begin(), target.perm.end(), 0);
    while (const Op *reader = onlyReader(target.tensor)) {
      const auto factor = follow == Follow::kFactorsToo ? factorOf(graph_, *reader, target.tensor) : std::nullopt;
      if (!factor && !isTransposeOfKnownAxes(*reader)) break;
      if (factor) {
        target.scale *= *factor;
      } else {
        std::vector<int64_t> next;
        for (int64_t axis : reader->attrInts("perm")) next.push_back(target.perm[static_cast<size_t>(axis)]);
        target.perm = std::move(next);
      }
      spare.push_back(reader->index());
      target.tensor = reader->outputs()[0];
    }
    return target;
  }
  const Op *onlyReader(TensorIndex t) const {
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.isGraphOutput() || tensor.uses().size() != 1) return nullptr;
    const Op &reader = graph_.op(tensor.uses()[0].op);
    return staysApart(*tensor.getProducer(), reader) ? nullptr : &reader;
  }

  // Erases the ops of the match, and ops before and after it that nothing reads any more.
  void erase(const AttentionMatch &m) {
    std::vector<OpIndex> left = m.spare;
    left.insert(left.end(), m.forwardOps.begin(), m.forwardOps.end());
    left.insert(left.end(), m.backwardOps.begin(), m.backwardOps.end());
    eraseUnread(std::move(left));
  }
  void eraseUnread(std::vector<OpIndex> left) {
    for (size_t before = left.size() + 1; left.size() < before;) {
      before = left.size();
      std::erase_if(left, [&](OpIndex o) {
        if (!graph_.alive(o)) return true;
        const bool isRead = std::ranges::any_of(graph_.op(o).outputs(), [&](TensorIndex t) {
          return t.valid() && (!graph_.tensor(t).uses().empty() || graph_.tensor(t).isGraphOutput());
        });
        if (!isRead) graph_.eraseOpAndOutputs(o);
        return !isRead;
      });
    }
  }

  Ir &ir_;
  Graph &graph_;
  const executable::Backend &backend_;
};

}  // namespace

void fuseAttention(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs()) AttentionFuser(flat, *graph, backend).run();
}

}  // namespace popart::lower
