// See replica_values.hpp. At first all values count as Same; differences are propagated until nothing changes.
#include "lower/replica_values.hpp"

namespace popart::lower {
namespace {

using ops::ReplicaFlow;

// The result of an op that reads both.
ReplicaValue join(const ReplicaValue &a, const ReplicaValue &b) {
  if (a == b || b.kind == ReplicaValue::Same) return a;
  if (a.kind == ReplicaValue::Same) return b;
  return {ReplicaValue::Differs, {}};
}

ReplicaValue through(const ReplicaFlow &flow, const ReplicaValue &x) {
  const bool isApart = x.kind == ReplicaValue::Parts;
  switch (flow.kind) {
    case ReplicaFlow::Follows:
      return x;
    case ReplicaFlow::Own:
      return {ReplicaValue::Differs, {}};
    case ReplicaFlow::Reduces:
    case ReplicaFlow::Gathers:  // over other replicas than those with the parts: the values stay parts
      return isApart && !flow.group.contains(x.group) ? x : ReplicaValue{};
    case ReplicaFlow::Scatters:
      return isApart ? ReplicaValue{ReplicaValue::Differs, {}} : ReplicaValue{ReplicaValue::Parts, flow.group};
    case ReplicaFlow::Cuts:
      return join(x, {ReplicaValue::Parts, flow.group});
  }
  return x;
}

}  // namespace

ReplicaValues::ReplicaValues(const Ir &flat, const Differs &differs) : tensors_(flat), values_(tensors_.size()) {
  for (const Graph *graph : tensors_.graphs())
    for (const Tensor *t : graph->tensors()) {
      const bool isGiven =
          t->tensorType() == TensorType::Variable || (t->hasProducer() && t->getProducer()->is(Role::HostLoad));
      if (differs && isGiven && differs(*t)) add(*graph, t->index(), {ReplicaValue::Differs, {}});
    }
  bool changes = true;
  while (changes) {
    changes = false;
    for (const Graph *graph : tensors_.graphs())
      for (const Op *op : graph->ops()) changes |= visit(*op);
  }
}

bool ReplicaValues::add(const Graph &graph, TensorIndex t, const ReplicaValue &value) {
  if (!t.valid()) return false;
  ReplicaValue &known = values_[tensors_.number(graph, t)];
  const ReplicaValue before = known;
  known = join(known, value);
  return known != before;
}

ReplicaValue ReplicaValues::operandsOf(const Op &op) const {
  ReplicaValue value;
  for (TensorIndex t : op.inputs())
    if (t.valid()) value = join(value, of(op.getGraph(), t));
  const TensorIndex remote = remoteVariable(op);
  return remote.valid() ? join(value, of(op.getIr().getMainGraph(), remote)) : value;
}

bool ReplicaValues::visit(const Op &op) {
  if (op.has(Trait::Call)) return visitCall(op);
  const ReplicaValue operands = operandsOf(op), result = through(ops::replicaFlow(op), operands);
  bool changes = false;
  for (TensorIndex t : op.outputs()) changes |= add(op.getGraph(), t, result);
  if (op.is(Role::VariableAssign)) changes |= add(op.getGraph(), op.inputs()[0], operands);
  if (op.is(Role::RemoteStore)) changes |= add(op.getIr().getMainGraph(), remoteVariable(op), operands);
  return changes;
}

bool ReplicaValues::visitCall(const Op &op) {
  const Graph &graph = op.getGraph();
  bool changes = false;
  const ReplicaValue choice = op.is(Role::If) ? of(graph, op.inputs()[0]) : ReplicaValue{};
  for (const Passed &p : passedBy(op)) {
    const ReplicaValue next = p.next.valid() ? of(*p.graph, p.next) : ReplicaValue{};
    const ReplicaValue passed = join(of(graph, p.outer), next);
    changes |= add(*p.graph, p.inner, passed) | add(graph, p.result, passed);
  }
  const size_t skipped = op.is(Role::Loop) ? 1 : 0;  // the condition that a body returns
  for (const Graph *called : op.getCalledGraphs())
    for (size_t o = 0; o < op.outputs().size(); ++o)
      changes |= add(graph, op.outputs()[o], join(choice, of(*called, called->outputs()[o + skipped])));
  return changes;
}

}  // namespace popart::lower
