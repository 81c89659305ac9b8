// See stochastic_rounding.hpp. Streams are numbered in program order before anything is fused or decomposed, so that
// the random numbers depend on the program alone, not on the device.
#include "lower/stochastic_rounding.hpp"

#include <map>
#include <tuple>

#include <popart/error.hpp>

#include "lower/hand_down.hpp"
#include "lower/replica_values.hpp"
#include "lower/widen.hpp"

namespace popart::lower {
namespace {

enum class Method { Nearest, Differing, Identical };

// How a result is rounded: replicas with the same such value use the same random numbers.
ReplicaValue drawsOf(Method method) {
  return {method == Method::Differing ? ReplicaValue::Differs : ReplicaValue::Same, {}};
}

std::optional<Method> hintOf(const Op &op) {
  const auto hint = op.settings.hints.find(kRoundingHint);
  if (hint == op.settings.hints.end()) return std::nullopt;
  if (hint->second == "0") return Method::Nearest;
  if (hint->second == "1") return Method::Differing;
  if (hint->second == "2") return Method::Identical;
  throw error(
      "{}: attribute '__{}' is unknown: got {}, expected 0 (to nearest), 1 (at random, differing between replicas) or "
      "2 (at random, the same on all replicas)",
      op.debugName(), kRoundingHint, hint->second);
}

bool givesHalves(const Op &op) {
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o) && isHalf(op.outInfo(o).dataType())) return true;
  return false;
}

// Whether the op rounds: ops that only move elements are exact, and random numbers are drawn in their type.
bool rounds(const Op &op) {
  const bool stays = op.has(Trait::Call | Trait::HostIo | Trait::View | Trait::SideEffect | Trait::Init);
  const bool draws = op.has(Trait::Random) && (op.has(Trait::Internal) || op.def().findAttribute("dtype"));
  return !stays && !draws && !op.isUserOp() && givesHalves(op) && costOf(op).flops > 0;
}

// The attributes, with FLOAT in those that name the type of the result.
Attributes inFloat(const Op &op) {
  Attributes attributes = op.attributes();
  for (const char *name : {"to", "dtype", "output_type"}) {
    const AttributeValue *value = attributes.find(name);
    const int64_t *number = value ? std::get_if<int64_t>(value) : nullptr;
    if (number && isHalf(op.outInfo(0).dataType()) && *number == toOnnxDataType(op.outInfo(0).dataType()))
      attributes.set(name, int64_t{toOnnxDataType(DataType::FLOAT)});
  }
  return attributes;
}

Op::Settings firstIn(Graph &graph) {
  Op::Settings settings(graph);
  settings.sequence = 0;
  return settings;
}

// The seeds of each graph, added when first needed.
class Seeds {
 public:
  explicit Seeds(Ir &ir) : ir_(ir) {
    for (Graph *graph : schedule::programGraphs(ir))
      for (Op *op : graph->ops())
        for (Graph *called : op->getCalledGraphs())
          if (op->is(Role::Loop) || op->is(Role::If)) callers_[called] = op;
  }

  TensorIndex of(Graph &graph, const ReplicaValue &draws) {
    const TensorIndex common = commonOf(graph);
    if (draws.kind == ReplicaValue::Same) return common;
    TensorIndex &own = own_[{&graph, draws.group.size, draws.group.stride}];
    if (own.valid()) return own;
    Attributes group;
    if (draws.kind == ReplicaValue::Parts) group = {{"group_size", draws.group.size}, {"stride", draws.group.stride}};
    return own = add(graph, "ReplicaRandomSeed", {common}, "rngState___ofReplica", std::move(group));
  }

 private:
  TensorIndex commonOf(Graph &graph) {
    if (const auto found = common_.find(&graph); found != common_.end()) return found->second;
    return common_[&graph] = graph.isMain() ? ofRun(graph) : ofCallee(graph);
  }

  static TensorIndex ofRun(Graph &main) {
    const TensorIndex state = main.addVariable(kRngState, TensorData(TensorInfo(DataType::UINT32, {2})));
    const TensorIndex next = add(main, "GetRandomSeed", {state}, "rngState___updated");
    main.addConnectedOp(opDef("VariableAssign"), {state, next}, {}, {}, Op::Settings(main, kRngState));
    return next;
  }

  TensorIndex ofCallee(Graph &graph) {
    Op &caller = *callers_.at(&graph);
    const TensorIndex handed = handDown(caller, graph, commonOf(caller.getGraph()));
    if (!caller.is(Role::Loop)) return handed;
    const TensorIndex iteration = graph.inputs()[0];
    Op *number =
        graph.addConnectedOp(opDef("Cast"), {iteration}, {graph.freeId(graph.addScope("rngState___iteration"))},
                             {{"to", int64_t{toOnnxDataType(DataType::UINT32)}}}, firstIn(graph));
    return add(graph, "ModifyRandomSeed", {handed, number->outputs()[0]}, "rngState___ofIteration");
  }

  static TensorIndex add(Graph &graph, const char *type, const std::vector<TensorIndex> &inputs, const char *id,
                         Attributes attributes = {}) {
    return graph
        .addConnectedOp(opDef(type), inputs, {graph.freeId(graph.addScope(id))}, std::move(attributes), firstIn(graph))
        ->outputs()[0];
  }

  Ir &ir_;
  std::map<const Graph *, Op *> callers_;
  std::map<const Graph *, TensorIndex> common_;
  std::map<std::tuple<const Graph *, int64_t, int64_t>, TensorIndex> own_;  // by graph and group
};

struct Rounding {
  Op *op;
  ReplicaValue draws;
  int64_t stream;  // stream of the first output
};

// Gives equal values of a graph the same numbers, so that a recomputed copy gets the streams of its original.
class Streams {
 public:
  // The number of the op's first stream.
  int64_t of(const Op &op) {
    const Key key = keyOf(op);
    for (const auto &[attributes, stream] : seen_[key])
      if (attributes == op.attributes()) return note(op, stream);
    const int64_t stream = next_;
    next_ += std::max(op.outputCount(), 1);
    seen_[key].emplace_back(op.attributes(), stream);
    return note(op, stream);
  }

 private:
  using Value = std::pair<int64_t, int64_t>;  // the output of a numbered op, or (-1, tensor)
  using Key = std::tuple<const Graph *, const OpDef *, std::vector<Value>>;

  Key keyOf(const Op &op) const {
    std::vector<Value> inputs;
    for (TensorIndex t : op.inputs()) {
      const auto found = values_.find({&op.getGraph(), t.value});
      inputs.push_back(found != values_.end() ? found->second : Value(-1, t.valid() ? int64_t{t.value} : -1));
    }
    return {&op.getGraph(), &op.def(), std::move(inputs)};
  }

  int64_t note(const Op &op, int64_t stream) {
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) values_[{&op.getGraph(), op.outputs()[static_cast<size_t>(o)].value}] = {stream, o};
    return stream;
  }

  std::map<Key, std::vector<std::pair<Attributes, int64_t>>> seen_;
  std::map<std::pair<const Graph *, uint32_t>, Value> values_;
  int64_t next_ = 0;
};

bool isPure(const Op &op) {
  return !op.has(Trait::Call | Trait::HostIo | Trait::SideEffect) && !op.isUserOp() && op.outputCount() > 0;
}

std::vector<Rounding> findRoundings(Ir &flat, bool all) {
  std::vector<Rounding> found;
  const ReplicaValues values(flat);
  Streams streams;
  for (Graph *graph : schedule::programGraphs(flat))
    for (Op *op : graph->getOpSchedule()) {
      if (!isPure(*op)) continue;
      const int64_t stream = streams.of(*op);
      const std::optional<Method> hint = hintOf(*op);
      if (hint == Method::Nearest || (!all && !hint) || !rounds(*op)) continue;
      found.push_back({op, hint ? drawsOf(*hint) : values.of(*graph, op->outputs()[0]), stream});
    }
  return found;
}

}  // namespace

bool hasRoundingHints(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      if (const auto hint = hintOf(*op); hint && *hint != Method::Nearest) return true;
  return false;
}

void roundStochastically(Ir &flat, bool all) {
  Seeds seeds(flat);
  for (const Rounding &r : findRoundings(flat, all)) {
    Op &op = *r.op;
    Graph &graph = op.getGraph();
    const TensorIndex seed = seeds.of(graph, r.draws);
    int64_t stream = r.stream;
    computeInFloat(op, inFloat(op), [&](TensorIndex wide, DataType type) {
      return graph
          .addConnectedOp(opDef("RoundStochastically"), {wide, seed},
                          {graph.freeId(graph.tensor(wide).id + "/rounded")},
                          {{"to", int64_t{toOnnxDataType(type)}}, {"stream", stream++}}, inheritSettings(op, graph))
          ->outputs()[0];
    });
  }
}

}  // namespace popart::lower
