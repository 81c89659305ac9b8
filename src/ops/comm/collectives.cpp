// Collectives over replicas. Each row states shapes for a group of `group_size` replicas; within a group of one they are
// identities up to shape (SquareAdd squares), which is how they decompose. `op` is the collective operator, `stride` the
// distance of the group's members.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void requireCollective(InferContext &c) {
  const std::string &op = c.attrString("op");
  bool known = false;
  for (const char *name : {"Add", "Mean", "Mul", "Min", "Max", "LogicalAnd", "LogicalOr", "SquareAdd", "Local"}) known |= op == name;
  c.require(known, "unknown collective operator: got '{}', expected Add, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, SquareAdd or Local",
            op);
  c.require(c.attrInt("group_size") >= 1, "the group needs at least one replica: got {}", c.attrInt("group_size"));
}

OpDef collectiveRow(const char *type) {
  return OpDef("ai.graphcore", type, {1})
      .input("data", kNumeric | kBool)
      .output("output")
      .attr("op", std::string("Add"))
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .cost(Cost::Heavy);
}

// The value of the reduction in a group of one.
TensorIndex reduceAlone(DecomposeBuilder &b) {
  if (b.op().attrInt("group_size") != 1)
    throw error("{}: a group of {} replicas needs a device with collectives, which this one has not. Use one replica",
                b.op().debugName(), b.op().attrInt("group_size"));
  if (b.op().attrString("op") == "SquareAdd") return Expression(b, b.in(0)) * Expression(b, b.in(0));
  return b.emit("Identity", {b.in(0)});
}

void addAllReduce(OpDefs &rows) {
  rows.push_back(collectiveRow("ReplicatedAllReduce")
                     .infer([](InferContext &c) {
                       requireCollective(c);
                       c.out(0, c.in(0));
                     })
                     .inplace("ReplicatedAllReduceInplace", 10)
                     .decompose([](DecomposeBuilder &b) { b.result(0, reduceAlone(b)); })
                     .noGrad("reductions over replicas are not differentiable")
                     .doc("Reduction over the replicas of each group; every replica gets the result."));
}

void addScatterGather(OpDefs &rows) {
  rows.push_back(collectiveRow("ReplicatedReduceScatter")
                     .attrOptional("meta_shape", AttributeType::Ints)
                     .infer([](InferContext &c) {
                       requireCollective(c);
                       const int64_t group = c.attrInt("group_size");
                       const Shape shape{(c.in(0).nelms() + group - 1) / group};
                       c.out(0, c.hasAttr("meta_shape") ? TensorInfo(c.type(0), shape, c.attrInts("meta_shape"))
                                                        : TensorInfo(c.type(0), shape));
                     })
                     .decompose([](DecomposeBuilder &b) { b.result(0, emitReshape(b, reduceAlone(b), b.outInfo(0).shape())); })
                     .noGrad("reductions over replicas are not differentiable")
                     .doc("Reduction of the flattened tensor; member i of the group gets chunk i of ceil(n / group_size)."));
  rows.push_back(collectiveRow("ReplicatedAllGather")
                     .attrOptional("shape", AttributeType::Ints)
                     .infer([](InferContext &c) {
                       requireCollective(c);
                       const Shape shape = c.hasAttr("shape") ? c.attrInts("shape")
                                                              : Shape{c.in(0).nelms() * c.attrInt("group_size")};
                       c.require(elementCount(shape) <= c.in(0).nelms() * c.attrInt("group_size"),
                                 "the gathered tensor is larger than its parts: got shape {} from {} parts of {}", shape,
                                 c.attrInt("group_size"), c.in(0));
                       c.out(0, c.type(0), shape);
                     })
                     .decompose([](DecomposeBuilder &b) {
                       TensorIndex flat = emitReshape(b, reduceAlone(b), {b.inInfo(0).nelms()});
                       const int64_t n = b.outInfo(0).nelms();
                       if (n != b.inInfo(0).nelms()) {
                         const std::vector<int64_t> zero{0}, end{n};
                         flat = b.emit("Slice", {flat}, {{"starts", zero}, {"ends", end}, {"axes", zero}});
                       }
                       b.result(0, emitReshape(b, flat, b.outInfo(0).shape()));
                     })
                     .noGrad("gathers over replicas are not differentiable")
                     .doc("The flattened parts of all members of the group, padding dropped, in `shape`."));
}

}  // namespace

OpDefs collectiveOps() {
  OpDefs rows;
  addAllReduce(rows);
  addScatterGather(rows);
  return rows;
}

}  // namespace popart::ops
