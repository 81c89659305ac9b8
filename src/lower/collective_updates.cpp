// See collective_updates.hpp. All decisions are made from the unchanged program.
#include "lower/collective_updates.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "lower/fuse_elementwise.hpp"
#include "lower/replica_values.hpp"
#include "lower/try_replace.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using ops::ReplicaGroup;

// The group of all collectives of the program; nullopt if there is no collective, or groups differ.
std::optional<ReplicaGroup> onlyGroup(const Ir &program) {
  std::optional<ReplicaGroup> group;
  for (const Graph *graph : schedule::programGraphs(program))
    for (const Op *op : graph->ops()) {
      const ReplicaGroup own = ops::replicaFlow(*op).group;
      if (own.size == 1) continue;
      if (group && *group != own) return std::nullopt;
      group = own;
    }
  return group;
}

// Whether the replicas of each such group start with the same value.
bool haveOneValue(const VariableSettings &settings, const ReplicaGroup &group) {
  if (!settings.isUsingCommGroup())
    return settings.getGroupSize() > 0 && ReplicaGroup{settings.getGroupSize(), settings.getStride()}.contains(group);
  const CommGroup &domain = settings.getSharedVariableDomain();
  return domain.type == CommGroupType::All ||
         (domain.type == CommGroupType::Consecutive && domain.replicaGroupSize > 0 &&
          ReplicaGroup{domain.replicaGroupSize, 1}.contains(group));
}

class UpdateFuser {
 public:
  // `loop`: the loop whose body the graph is, or null.
  UpdateFuser(Graph &graph, const Op *loop, const ReplicaValues &values, const executable::Backend &backend)
      : graph_(graph), values_(values), backend_(backend), known_(graph.tensorSlots()) {
    for (const Op *op : graph.ops())
      if (op->is(Role::VariableAssign)) olds_.emplace(op->inputs()[1], op->inputs()[0]);
    if (!loop) return;
    for (const Passed &c : passedBy(*loop))
      if (c.inner != c.next) olds_.emplace(c.next, c.inner);
  }

  void run() {
    for (const OpIndex o : schedule::orderOps(graph_)) {
      if (!graph_.alive(o)) continue;
      Op &op = graph_.op(o);
      if (op.is(Role::CollectiveReduce) && op.inputCount() == 1 && !op.hasAttr("channel")) fuse(op);
    }
  }

 private:
  void fuse(Op &reduction) {
    const Tensor &joined = graph_.tensor(reduction.outputs()[0]);
    const auto readers = joined.consumerOps();
    if (readers.size() != 1 || joined.isGraphOutput()) return;
    Op &update = *readers.front();
    if (!update.is(Role::FusedElementwise) || staysApart(reduction, update)) return;
    std::vector<TensorIndex> inputs{reduction.inputs()[0]};
    for (TensorIndex t : update.inputs())
      if (t != joined.index()) inputs.push_back(t);
    if (inputs.size() != update.inputs().size() || !areSame(inputs)) return;
    if (const auto replaces = replacedBy(update, inputs)) replace(reduction, update, inputs, *replaces);
  }

  // Whether all operands except the gradient are the same on all replicas.
  bool areSame(const std::vector<TensorIndex> &inputs) const {
    return std::all_of(inputs.begin() + 1, inputs.end(), [&](TensorIndex t) {
      return t.value < known_ && values_.of(graph_, t).kind == ReplicaValue::Same;
    });
  }

  // The operand that each result replaces; nullopt if a result replaces none.
  std::optional<std::vector<int64_t>> replacedBy(const Op &update, const std::vector<TensorIndex> &inputs) const {
    std::vector<int64_t> replaced;
    const auto take = [&](size_t i, TensorIndex result) {
      const auto number = static_cast<int64_t>(i);
      if (graph_.info(inputs[i]) != graph_.info(result) || std::ranges::count(replaced, number) > 0) return false;
      replaced.push_back(number);
      return true;
    };
    for (const TensorIndex result : update.outputs()) {
      const auto [first, last] = olds_.equal_range(result);
      const bool hasOld = std::any_of(first, last, [&](const auto &pair) {
        const auto old = std::find(inputs.begin() + 1, inputs.end(), pair.second);
        return old != inputs.end() && take(static_cast<size_t>(old - inputs.begin()), result);
      });
      if (!hasOld && !take(0, result)) return std::nullopt;
    }
    return replaced;
  }

  void replace(Op &reduction, Op &update, const std::vector<TensorIndex> &inputs,
               const std::vector<int64_t> &replaces) {
    Graph &body = *update.getCalledGraphs().front();
    const std::vector<TensorIndex> old = body.inputs();
    std::vector<TensorIndex> ordered;  // the reduced gradient first
    for (const bool isJoined : {true, false})
      for (size_t i = 0; i < old.size(); ++i)
        if ((update.inputs()[i] == reduction.outputs()[0]) == isJoined) ordered.push_back(old[i]);
    body.setInputs(ordered);
    Attributes attributes = reduction.attributes();
    attributes.set("body", update.attributes().getAttribute<GraphRef>("body"));
    attributes.set("replaces", replaces);
    Op::Settings settings = inheritSettings(reduction, graph_);
    settings.name = update.settings.name;
    const std::vector<TensorIndex> results = update.outputs();
    Op *made = tryReplace(graph_, {opDef("CollectiveUpdate"), inputs, attributes, settings, results},
                          [&](const Op &op) { return isAccepted(op, results); });
    if (!made) return body.setInputs(old);
    for (Op *gone : {&update, &reduction}) {
      graph_.moveConstraints(gone->index(), made->index());
      graph_.eraseOpAndOutputs(gone->index());
    }
  }

  bool isAccepted(const Op &op, const std::vector<TensorIndex> &results) {
    for (size_t o = 0; o < results.size(); ++o)
      graph_.tensor(op.outputs()[o]).layout = graph_.tensor(results[o]).layout;
    std::string reason;
    return backend_.supports(op, reason);
  }

  Graph &graph_;
  const ReplicaValues &values_;
  const executable::Backend &backend_;
  const size_t known_;                            // number of tensors that `values_` knows
  std::multimap<TensorIndex, TensorIndex> olds_;  // by new value
};

}  // namespace

void updateWhereReplicasMeet(Ir &program, const executable::Backend &backend) {
  const std::optional<ReplicaGroup> group = onlyGroup(program);
  if (!group) return;
  const ReplicaValues values(program, [&](const Tensor &t) {
    return t.tensorType() != TensorType::Variable || !haveOneValue(t.variableSettings, *group);
  });
  std::map<const Graph *, const Op *> loops;  // by body
  const std::vector<Graph *> graphs = schedule::programGraphs(program);
  for (const Graph *graph : graphs)
    for (const Op *op : graph->ops())
      if (op->is(Role::Loop)) loops.emplace(op->getCalledGraphs().front(), op);
  for (Graph *graph : graphs) {
    const auto loop = loops.find(graph);
    UpdateFuser(*graph, loop == loops.end() ? nullptr : loop->second, values, backend).run();
  }
}

}  // namespace popart::lower
