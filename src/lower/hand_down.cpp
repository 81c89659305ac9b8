// See hand_down.hpp; ops/control/control.cpp defines the order of operands. In flat programs loops carry all their
// operands.
#include "lower/hand_down.hpp"

#include <algorithm>
#include <set>

#include "ops/control/loops.hpp"

namespace popart::lower {
namespace {

// Moves output `at` and those after it by `places`.
void shiftOutputs(Graph &graph, Op &op, int at, int places) {
  const std::vector<TensorIndex> outputs = op.outputs();
  for (int o = op.outputCount() - 1; o >= at; --o) {
    if (!outputs[static_cast<size_t>(o)].valid()) continue;
    graph.disconnectOutput(op.index(), o);
    graph.connectOutput(op.index(), o + places, outputs[static_cast<size_t>(o)]);
  }
}

// Moves input `at` and those after it by one.
void shiftInputs(Graph &graph, Op &op, int at) {
  const std::vector<TensorIndex> inputs = op.inputs();
  for (int i = op.inputCount() - 1; i >= at; --i) {
    graph.disconnectInput(op.index(), i);
    graph.connectInput(op.index(), i + 1, inputs[static_cast<size_t>(i)]);
  }
}

TensorIndex innerInput(Graph &graph, Graph &callee, TensorIndex t) {
  return callee.addInput(callee.freeId(callee.addScope(graph.tensor(t).id)), graph.info(t));
}

}  // namespace

std::vector<TensorIndex> handDown(Op &loop, Graph &body, const std::vector<TensorIndex> &values) {
  Graph &graph = loop.getGraph();
  const int carried = ops::carriedCount(loop), count = static_cast<int>(values.size());
  shiftOutputs(graph, loop, carried, count);
  std::vector<TensorIndex> inner;
  for (TensorIndex t : values) {
    inner.push_back(innerInput(graph, body, t));
    graph.connectInput(loop.index(), static_cast<InIndex>(body.inputs().size()) - 1, t);
  }
  std::vector<TensorIndex> outputs = body.outputs();
  outputs.insert(outputs.begin() + 1 + carried, inner.begin(), inner.end());
  body.setOutputs(std::move(outputs));
  loop.mutableAttributes().set("carried", int64_t{carried} + count);
  loop.setup();
  return inner;
}

TensorIndex handDown(Op &caller, Graph &callee, TensorIndex t) {
  if (caller.is(Role::Loop)) return handDown(caller, callee, std::vector<TensorIndex>{t}).front();
  Graph &graph = caller.getGraph();
  const TensorIndex inner = innerInput(graph, callee, t);
  // the inputs of the then branch precede those of the else branch
  int position = static_cast<int>(callee.inputs().size());
  if (caller.attributes().getAttribute<GraphRef>("else_branch").id == callee.id)
    position = caller.inputCount();
  else
    shiftInputs(graph, caller, position);
  graph.connectInput(caller.index(), position, t);
  caller.setup();
  return inner;
}

Op &dropCarried(Op &loop, Graph &body, const std::vector<TensorIndex> &inner) {
  Graph &graph = loop.getGraph();
  const std::set<TensorIndex> gone(inner.begin(), inner.end());
  const std::vector<TensorIndex> &inputs = body.inputs(), &outputs = body.outputs();
  // Positions of body inputs equal those of the loop; outputs do not have the iteration, and results not the condition.
  std::vector<TensorIndex> innerKept, outerKept, outputsKept, resultsKept, dropped;
  for (size_t i = 0; i < std::max(inputs.size(), outputs.size() + 1); ++i) {
    const bool keeps = i >= inputs.size() || !gone.contains(inputs[i]);
    if (i < inputs.size() && keeps) innerKept.push_back(inputs[i]);
    if (i < loop.inputs().size() && keeps) outerKept.push_back(loop.inputs()[i]);
    if (i >= 1 && i - 1 < outputs.size() && keeps) outputsKept.push_back(outputs[i - 1]);
    if (i >= 2 && i - 2 < loop.outputs().size()) (keeps ? resultsKept : dropped).push_back(loop.outputs()[i - 2]);
  }
  body.setInputs(std::move(innerKept));
  body.setOutputs(std::move(outputsKept));
  for (TensorIndex t : gone) body.eraseTensor(t);
  Attributes attributes = loop.attributes();
  attributes.set("carried", int64_t{ops::carriedCount(loop)} - static_cast<int64_t>(gone.size()));
  Op &fresh = *graph.addOp(loop.def(), std::move(attributes), loop.settings);
  for (int o = loop.outputCount(); o-- > 0;) graph.disconnectOutput(loop.index(), o);
  for (TensorIndex t : dropped)
    if (t.valid()) graph.eraseTensor(t);
  for (size_t i = 0; i < outerKept.size(); ++i)
    if (outerKept[i].valid()) graph.connectInput(fresh.index(), static_cast<int>(i), outerKept[i]);
  for (size_t o = 0; o < resultsKept.size(); ++o)
    if (resultsKept[o].valid()) graph.connectOutput(fresh.index(), static_cast<int>(o), resultsKept[o]);
  graph.moveConstraints(loop.index(), fresh.index());
  graph.eraseOp(loop.index());
  fresh.setup();
  return fresh;
}

}  // namespace popart::lower
