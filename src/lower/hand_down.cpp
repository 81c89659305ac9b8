// See hand_down.hpp; the layouts of operands stand in ops/control/control.cpp. In flat programs loops carry all that
// they are given.
#include "lower/hand_down.hpp"

#include <algorithm>

#include "ops/control/loops.hpp"

namespace popart::lower {
namespace {

// Puts output `at` and those behind it one place further.
void shiftOutputs(Graph &graph, Op &op, int at) {
  const std::vector<TensorIndex> outputs = op.outputs();
  for (int o = op.outputCount() - 1; o >= at; --o) {
    if (!outputs[static_cast<size_t>(o)].valid()) continue;
    graph.disconnectOutput(op.index(), o);
    graph.connectOutput(op.index(), o + 1, outputs[static_cast<size_t>(o)]);
  }
}

// The same of inputs.
void shiftInputs(Graph &graph, Op &op, int at) {
  const std::vector<TensorIndex> inputs = op.inputs();
  for (int i = op.inputCount() - 1; i >= at; --i) {
    graph.disconnectInput(op.index(), i);
    graph.connectInput(op.index(), i + 1, inputs[static_cast<size_t>(i)]);
  }
}

void addCarried(Op &loop, Graph &body, TensorIndex t, TensorIndex inner) {
  Graph &graph = loop.getGraph();
  const int carried = ops::carriedCount(loop);
  shiftOutputs(graph, loop, carried);
  graph.connectInput(loop.index(), static_cast<InIndex>(body.inputs().size()) - 1, t);
  std::vector<TensorIndex> outputs = body.outputs();
  outputs.insert(outputs.begin() + 1 + carried, inner);
  body.setOutputs(std::move(outputs));
  loop.mutableAttributes().set("carried", int64_t{carried} + 1);
}

}  // namespace

TensorIndex handDown(Op &caller, Graph &callee, TensorIndex t) {
  Graph &graph = caller.getGraph();
  const TensorIndex inner = callee.addInput(callee.freeId(callee.addScope(graph.tensor(t).id)), graph.info(t));
  if (caller.is(Role::Loop)) {
    addCarried(caller, callee, t, inner);
  } else {
    // the inputs of the then branch stand before those of the other one
    int position = static_cast<int>(callee.inputs().size());
    if (caller.attributes().getAttribute<GraphRef>("else_branch").id == callee.id)
      position = caller.inputCount();
    else
      shiftInputs(graph, caller, position);
    graph.connectInput(caller.index(), position, t);
  }
  caller.setup();
  return inner;
}

Op &dropCarried(Op &loop, Graph &body, TensorIndex inner) {
  Graph &graph = loop.getGraph();
  std::vector<TensorIndex> inputs = body.inputs(), outputs = body.outputs();
  const auto at = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), inner) - inputs.begin());
  inputs.erase(inputs.begin() + static_cast<int64_t>(at));
  outputs.erase(outputs.begin() + static_cast<int64_t>(at) - 1);
  body.setInputs(std::move(inputs));
  body.setOutputs(std::move(outputs));
  body.eraseTensor(inner);

  std::vector<TensorIndex> given = loop.inputs(), results = loop.outputs();
  given.erase(given.begin() + static_cast<int64_t>(at));
  TensorIndex dropped;
  if (at - 2 < results.size()) {
    dropped = results[at - 2];
    results.erase(results.begin() + static_cast<int64_t>(at) - 2);
  }
  Attributes attributes = loop.attributes();
  attributes.set("carried", int64_t{ops::carriedCount(loop)} - 1);
  Op &fresh = *graph.addOp(loop.def(), std::move(attributes), loop.settings);
  for (int o = loop.outputCount(); o-- > 0;) graph.disconnectOutput(loop.index(), o);
  if (dropped.valid()) graph.eraseTensor(dropped);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].valid()) graph.connectInput(fresh.index(), static_cast<int>(i), given[i]);
  for (size_t o = 0; o < results.size(); ++o)
    if (results[o].valid()) graph.connectOutput(fresh.index(), static_cast<int>(o), results[o]);
  graph.moveConstraints(loop.index(), fresh.index());
  graph.eraseOp(loop.index());
  fresh.setup();
  return fresh;
}

}  // namespace popart::lower
