// See loops.hpp. A condition counts as constant only if the graph shows it, with Identity ops between; nothing is
// evaluated.
#include "ops/control/loops.hpp"

#include <algorithm>

#include <popart/error.hpp>
#include <popart/ir.hpp>

namespace popart::ops {

int carriedCount(const Op &loop) {
  if (loop.hasAttr("carried")) return static_cast<int>(loop.attrInt("carried"));
  const Graph &body = *loop.getCalledGraphs().front();
  return static_cast<int>(std::min(body.inputs().size() - 2, body.outputs().size() - 1));
}

namespace {

bool isConstant(const Graph &graph, TensorIndex t) {
  return graph.tensor(t).tensorType() == TensorType::Const && graph.tensor(t).hasTensorData();
}

}  // namespace

bool isConstantTrue(const Graph &graph, TensorIndex t) {
  return isConstant(graph, t) && graph.tensor(t).tensorData().asInts().at(0) != 0;
}

bool keepsRunning(const Graph &body) {
  TensorIndex t = body.outputs().at(0);
  while (body.tensor(t).hasProducer() && body.tensor(t).getProducer()->isIdentity())
    t = body.tensor(t).getProducer()->inputs()[0];
  return t == body.inputs().at(1) || isConstantTrue(body, t);
}

int64_t iterationCount(const Op &loop) {
  if (!loop.hasAttr("trip_count") || !keepsRunning(*loop.getCalledGraphs().front())) return -1;
  if (loop.hasInput(0) && !isConstant(loop.getGraph(), loop.inputs()[0])) return -1;
  if (loop.hasInput(1) && !isConstantTrue(loop.getGraph(), loop.inputs()[1])) return -1;
  return loop.attrInt("trip_count");
}

int loopCounter(const Op &loop) {
  return loop.hasAttr("trip_count") && loop.hasAttr("counter") ? static_cast<int>(loop.attrInt("counter")) : -1;
}

namespace {

// Inputs `first`… of the op match those of `called` from `formal` on.
void requireInputsOf(const Op &op, const Graph &called, int first, size_t formal) {
  for (size_t i = formal; i < called.inputs().size(); ++i) {
    const int input = first + static_cast<int>(i - formal);
    check(op.hasInput(input),
          "{}: input {} is not connected: '{}' of {} has no value. Give it where the graph is called, or connect a "
          "tensor to the op",
          op.debugName(), input, called.tensor(called.inputs()[i]).id, called.getGraphString());
  }
}

}  // namespace

void requireCalledInputs(const Op &op) {
  const auto graph = [&](const char *attribute) -> const Graph & {
    return op.getGraph().getIr().getGraph(op.attributes().getAttribute<GraphRef>(attribute).id);
  };
  if (op.is(Role::Call)) requireInputsOf(op, graph("callee"), 0, 0);
  if (op.is(Role::Loop)) requireInputsOf(op, graph("body"), 2, 2);
  if (!op.is(Role::If)) return;
  const Graph &yes = graph("then_branch");
  requireInputsOf(op, yes, 1, 0);
  requireInputsOf(op, graph("else_branch"), 1 + static_cast<int>(yes.inputs().size()), 0);
}

}  // namespace popart::ops
