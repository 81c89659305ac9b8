// Where: selects from two tensors by a condition, all three broadcast to one shape.
#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

enum class Value { X, Y };

// The gradient's info is used for the value whose gradient is not wanted.
OpDef gradientRow(Value value, DecomposeFn decompose) {
  return OpDef("ai.graphcore", value == Value::X ? "WhereXGrad" : "WhereYGrad", {1})
      .input("condition", kBool)
      .input("grad", kNumeric)
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([value](InferContext &c) {
        const TensorInfo dx = forwardInfo(c, c.type(1)), &other = c.in(1);
        ForwardOp(c, "Where", {c.in(0), value == Value::X ? dx : other, value == Value::X ? other : dx}).gives(0, 1);
        c.out(0, dx);
      })
      .traits(Trait::Gradient)
      .pieces(alignedPieces)
      .notOnnx()
      .decompose(std::move(decompose))
      .doc("Gradient of Where for one of its values.");
}

}  // namespace

OpDefs whereOps() {
  OpDef where = OpDef("ai.onnx", "Where", {9, 16})
                    .input("condition", kBool)
                    .input("x", kStoredTypes, "T")
                    .input("y", kStoredTypes, "T")
                    .output("output")
                    .infer([](InferContext &c) { c.out(0, c.type(1), broadcastShape(c, 0, 3)); })
                    .role(Role::Where)
                    .precision(Precision::Follows)
                    .traits(Trait::Elementwise)
                    .vjp([](VjpBuilder &b) {
                      if (b.wants(1))
                        b.grad(1, b.emit("WhereXGrad", {b.in(0), b.gradOut(0)}, {{"fwd_shape", b.inInfo(1).shape()}}));
                      if (b.wants(2))
                        b.grad(2, b.emit("WhereYGrad", {b.in(0), b.gradOut(0)}, {{"fwd_shape", b.inInfo(2).shape()}}));
                    })
                    .doc("x where the condition holds, else y.");
  auto xGrad = [](DecomposeBuilder &b) {
    Expression c(b, b.in(0)), g(b, b.in(1));
    b.result(0, emitReduceSumTo(b, select(c, g, g.number(0)), b.outInfo(0).shape()));
  };
  auto yGrad = [](DecomposeBuilder &b) {
    Expression c(b, b.in(0)), g(b, b.in(1));
    b.result(0, emitReduceSumTo(b, select(c, g.number(0), g), b.outInfo(0).shape()));
  };
  return {where, gradientRow(Value::X, xGrad), gradientRow(Value::Y, yGrad)};
}

}  // namespace popart::ops
