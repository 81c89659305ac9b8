// See replica_values.hpp. Everything counts as the same at first; what differs spreads until nothing changes.
#include "lower/replica_values.hpp"

#include "ops/comm/replica_flow.hpp"

namespace popart::lower {
namespace {

bool isOfOneReplica(const VariableSettings &settings) {
  return settings.isUsingCommGroup() ? settings.getCommGroupType() == CommGroupType::None
                                     : settings.getGroupSize() == 1;
}

}  // namespace

ReplicaValues::ReplicaValues(const Ir &flat) : tensors_(flat), differs_(tensors_.size(), 0) {
  const Graph &main = flat.getMainGraph();
  for (const Tensor *t : main.tensorsOfType(TensorType::Variable))
    if (isOfOneReplica(t->variableSettings)) mark(main, t->index(), true);
  bool changes = true;
  while (changes) {
    changes = false;
    for (const Graph *graph : tensors_.graphs())
      for (const Op *op : graph->ops()) changes |= visit(*op);
  }
}

bool ReplicaValues::mark(const Graph &graph, TensorIndex t, bool differs) {
  if (!differs || !t.valid()) return false;
  char &known = differs_[tensors_.number(graph, t)];
  const bool fresh = known == 0;
  known = 1;
  return fresh;
}

bool ReplicaValues::readsDiffering(const Op &op) const {
  for (TensorIndex t : op.inputs())
    if (t.valid() && differ(op.getGraph(), t)) return true;
  const TensorIndex remote = remoteVariable(op);
  return remote.valid() && differ(op.getIr().getMainGraph(), remote);
}

bool ReplicaValues::visit(const Op &op) {
  if (op.has(Trait::Call)) return visitCall(op);
  const Graph &graph = op.getGraph();
  const bool reads = readsDiffering(op);
  bool differs = reads;
  switch (ops::replicaFlow(op)) {
    case ops::ReplicaFlow::Follows:
      break;
    case ops::ReplicaFlow::Differs:
      differs = true;
      break;
    case ops::ReplicaFlow::Joins:
      differs = false;
      break;
  }
  bool changes = false;
  for (TensorIndex t : op.outputs()) changes |= mark(graph, t, differs);
  if (op.is(Role::VariableAssign)) changes |= mark(graph, op.inputs()[0], reads);
  if (op.is(Role::RemoteStore)) changes |= mark(op.getIr().getMainGraph(), remoteVariable(op), reads);
  return changes;
}

bool ReplicaValues::visitCall(const Op &op) {
  const Graph &graph = op.getGraph();
  bool changes = false;
  const bool choice = op.is(Role::If) && differ(graph, op.inputs()[0]);
  for (const Passed &p : passedBy(op)) {
    const bool differs = differ(graph, p.outer) || (p.next.valid() && differ(*p.graph, p.next));
    changes |= mark(*p.graph, p.inner, differs) | mark(graph, p.result, differs);
  }
  const size_t skipped = op.is(Role::Loop) ? 1 : 0;  // the condition that a body gives
  for (const Graph *called : op.getCalledGraphs())
    for (size_t o = 0; o < op.outputs().size(); ++o)
      changes |= mark(graph, op.outputs()[o], choice || differ(*called, called->outputs()[o + skipped]));
  return changes;
}

}  // namespace popart::lower
