// Calls of subgraphs: Call, Loop (ONNX Loop convention) and If. This file has only the rules of shapes and types; the
// lowering inlines calls and runs loops and branches.
//   Call: inputs and outputs of the callee in order; `modified` lists the inputs written through.
//   Loop: inputs [trip count or none, condition or none, carried…, invariant…]; body inputs [iteration, condition,
//   carried…, invariant…]; body outputs [condition, carried…, scans…]; outputs [carried…, scans…]. Invariant inputs are
//   the body inputs after the carried ones. `carried` is the number of carried values; without it, it is the smaller of
//   the numbers of such inputs and outputs, so a loop with both scan outputs and invariant inputs needs it. Scan
// outputs   get a leading dimension of trip_count, the largest number of iterations; rows of iterations that do not run
// are not   written. `counter`: the carried value that counts iterations.
//   If: inputs [condition, inputs of the then branch…, inputs of the else branch…].
#include <algorithm>

#include <popart/graph.hpp>

#include "ops/catalog.hpp"
#include "ops/control/loops.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void requireSameInfo(InferContext &c, const TensorInfo &given, const TensorInfo &expected, const char *what,
                     int64_t i) {
  c.require(given.dataType() == expected.dataType() && given.shape() == expected.shape(),
            "{} {} differs from the subgraph's tensor: got {}, expected {}", what, i, given, expected);
}

void requireAtMost(InferContext &c, size_t inputs) {
  c.require(static_cast<size_t>(c.inputCount()) <= inputs, "too many inputs: got {}, expected at most {}",
            c.inputCount(), inputs);
}

// Inputs `first`… of the op match those of `graph` from `formal` on. An unconnected input may be connected later.
void requireInputs(InferContext &c, const Graph &graph, int first, size_t formal = 0) {
  for (size_t i = formal; i < graph.inputs().size(); ++i) {
    const int input = first + static_cast<int>(i - formal);
    if (c.hasIn(input))
      requireSameInfo(c, c.in(input), graph.info(graph.inputs()[i]), "input", static_cast<int64_t>(i - formal));
  }
}

void inferCall(InferContext &c) {
  const Graph &callee = c.graph("callee");
  requireAtMost(c, callee.inputs().size());
  requireInputs(c, callee, 0);
  c.require(static_cast<size_t>(c.outputCount()) <= callee.outputs().size(),
            "wrong number of outputs: got {}, expected {}", c.outputCount(), callee.outputs().size());
  for (int i = 0; i < c.outputCount(); ++i) c.out(i, callee.info(callee.outputs()[i]));
}

void requireScalar(InferContext &c, int i, const char *what) {
  if (c.hasIn(i)) c.require(c.in(i).nelms() == 1, "{} must be a scalar: got shape {}", what, c.shape(i));
}

void inferLoop(InferContext &c) {
  const Graph &body = c.graph("body");
  requireScalar(c, 0, "the trip count");
  requireScalar(c, 1, "the condition");
  const int bodyInputs = static_cast<int>(body.inputs().size()) - 2;
  c.require(bodyInputs >= 0, "the body must take iteration and condition: it has {} inputs", bodyInputs + 2);
  requireAtMost(c, body.inputs().size());
  c.require(!body.outputs().empty(), "the body must give the condition as its first output: it has no outputs");
  const int bodyOutputs = static_cast<int>(body.outputs().size()) - 1;
  int carried = std::min(bodyOutputs, bodyInputs);
  if (c.hasAttr("carried")) {
    c.require(c.attrInt("carried") >= 0 && c.attrInt("carried") <= carried, "carried must be between 0 and {}: got {}",
              carried, c.attrInt("carried"));
    carried = static_cast<int>(c.attrInt("carried"));
  }
  const bool counted = c.hasAttr("trip_count");
  if (c.hasAttr("counter")) {
    const int64_t counter = c.attrInt("counter");
    c.require(
        counter >= 0 && counter < carried && c.in(static_cast<int>(counter) + 2) == TensorInfo(DataType::INT64, {}),
        "counter must be a carried value, an INT64 scalar: got {} of {}", counter, carried);
  }
  requireInputs(c, body, 2, 2);
  for (int i = 0; i < bodyOutputs; ++i) {
    const TensorInfo &info = body.info(body.outputs()[i + 1]);
    if (i < carried) {
      requireSameInfo(c, info, body.info(body.inputs()[i + 2]), "carried output", i);
      c.out(i, info);
      continue;
    }
    c.require(counted, "scan outputs need a trip count known when the graph is built. Give a constant trip count");
    Shape shape = info.shape();
    shape.insert(shape.begin(), c.attrInt("trip_count"));
    c.out(i, info.dataType(), shape);
  }
}

void inferIf(InferContext &c) {
  const Graph &yes = c.graph("then_branch"), &no = c.graph("else_branch");
  requireScalar(c, 0, "the condition");
  const size_t thenInputs = yes.inputs().size();
  requireAtMost(c, 1 + thenInputs + no.inputs().size());
  requireInputs(c, yes, 1);
  requireInputs(c, no, 1 + static_cast<int>(thenInputs));
  c.require(yes.outputs().size() == no.outputs().size(),
            "the branches differ in their number of outputs: got {} and {}", yes.outputs().size(), no.outputs().size());
  for (size_t i = 0; i < yes.outputs().size(); ++i) {
    requireSameInfo(c, no.info(no.outputs()[i]), yes.info(yes.outputs()[i]), "output of the else branch",
                    static_cast<int64_t>(i));
    c.out(static_cast<int>(i), yes.info(yes.outputs()[i]));
  }
}

void loopCost(const Op &op, Cost &c) {
  const Cost body = costOf(*op.getCalledGraphs().front());
  const auto times = static_cast<double>(std::max<int64_t>(iterationCount(op), 1));
  c = {body.flops * times, body.bytesRead * times, body.bytesWritten * times};
}

void branchCost(const Op &op, Cost &c) {
  for (const Graph *branch : op.getCalledGraphs())
    if (const Cost cost = costOf(*branch);
        cost.flops + cost.bytesRead + cost.bytesWritten > c.flops + c.bytesRead + c.bytesWritten)
      c = cost;
}

}  // namespace

OpDefs controlOps() {
  constexpr TypeSet kCounts = typeBit(DataType::INT64) | typeBit(DataType::INT32);
  OpDefs rows;
  rows.push_back(OpDef("ai.graphcore", "Call", {1})
                     .input("inputs", kStoredTypes, "", Arity::Variadic)
                     .output("outputs", Arity::Variadic)
                     .attrRequired("callee", AttributeType::Graph)
                     .attr("modified", std::vector<int64_t>{})
                     .infer(inferCall)
                     .traits(Trait::Call)
                     .role(Role::Call)
                     .cost([](const Op &op, Cost &c) { c = costOf(*op.getCalledGraphs().front()); })
                     .doc("Runs a subgraph."));
  rows.push_back(OpDef("ai.onnx", "Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25})
                     .input("M", kCounts, "", Arity::Optional)
                     .input("cond", kBool, "", Arity::Optional)
                     .input("v_initial", kStoredTypes, "", Arity::Variadic)
                     .output("v_final_and_scan_outputs", Arity::Variadic)
                     .attrRequired("body", AttributeType::Graph)
                     .attrOptional("trip_count", AttributeType::Int)
                     .attrOptional("carried", AttributeType::Int)
                     .attrOptional("counter", AttributeType::Int)
                     .attr("modified", std::vector<int64_t>{})
                     .infer(inferLoop)
                     .layouts(loopLayouts)
                     .traits(Trait::Call)
                     .role(Role::Loop)
                     .cost(loopCost)
                     .noGrad("the gradient of a loop needs its graph")
                     .doc("Runs a subgraph repeatedly, carrying values from one iteration to the next."));
  rows.push_back(OpDef("ai.onnx", "If", {1, 11, 13, 16, 19, 21, 23, 24, 25})
                     .input("cond", kBool)
                     .input("inputs", kStoredTypes, "", Arity::Variadic)
                     .output("outputs", Arity::Variadic)
                     .attrRequired("then_branch", AttributeType::Graph)
                     .attrRequired("else_branch", AttributeType::Graph)
                     .infer(inferIf)
                     .layouts(branchLayouts)
                     .traits(Trait::Call)
                     .role(Role::If)
                     .cost(branchCost)
                     .noGrad("the gradient of a branch needs its graph")
                     .doc("Runs one of two subgraphs."));
  return rows;
}

}  // namespace popart::ops
