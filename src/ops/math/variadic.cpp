// Sum, Mean, Max, Min of any number of tensors, element-wise with NumPy broadcasting. All arguments equal to the
// extreme get the same share of the gradient of Max and Min.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"
#include "ops/ties.hpp"

namespace popart::ops {
namespace {

using E = Expression;

OpDef variadicRow(const char *type, TypeSet types) {
  return OpDef("ai.onnx", type, {6, 8, 12, 13})
      .input("inputs", types, "T", Arity::Variadic)
      .output("y")
      .infer([](InferContext &c) {
        c.require(c.inputCount() > 0, "there are no inputs: got 0, expected at least 1");
        inferBroadcast(c);
      })
      .traits(Trait::Elementwise | Trait::Commutative)
      .precision(Precision::Follows)
      .identityIf(hasOneInput)
      .cost([](const Op &op, Cost &c) { c.flops *= std::max(op.inputCount() - 1, 1); });
}

// The gradient's info is used for the other arguments. With inputs 1 and 2 (Max, Min): the argument and the result.
void inferArgumentGradient(InferContext &c, const std::string &forward) {
  const TensorInfo dx = forwardInfo(c);
  if (c.hasIn(1))
    c.require(c.shape(1) == dx.shape(), "fwd_shape is not the shape of the argument: got {}, expected {}", dx.shape(),
              c.shape(1));
  ForwardOp(c, forward, {dx, c.in(0)}).gives(0, 0).gives(0, 2);
  c.out(0, dx);
}

OpDef argumentGradientRow(const std::string &forward) {
  return OpDef("ai.graphcore", forward + "ArgGrad", {1})
      .input("grad", kNumeric, "T")
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([forward](InferContext &c) { inferArgumentGradient(c, forward); })
      .traits(Trait::Gradient)
      .pieces(alignedPieces)
      .notOnnx();
}

void addLinear(OpDefs &rows) {
  rows.push_back(variadicRow("Sum", kNumeric).role(Role::Sum).doc("Sum of all inputs.").vjp([](VjpBuilder &b) {
    for (int i = 0; i < b.op().inputCount(); ++i) {
      if (b.wants(i)) b.grad(i, b.emit("SumArgGrad", {b.gradOut(0)}, {{"fwd_shape", b.inInfo(i).shape()}}));
    }
  }));
  rows.push_back(argumentGradientRow("Sum").doc("Gradient of Sum for one input.").decompose([](DecomposeBuilder &b) {
    b.result(0, emitReduceSumTo(b, b.in(0), b.outInfo(0).shape()));
  }));
  rows.push_back(variadicRow("Mean", kFloats).doc("Mean of all inputs.").vjp([](VjpBuilder &b) {
    for (int i = 0; i < b.op().inputCount(); ++i) {
      if (!b.wants(i)) continue;
      b.grad(i, b.emit("MeanArgGrad", {b.gradOut(0)},
                       {{"fwd_shape", b.inInfo(i).shape()}, {"count", int64_t{b.op().inputCount()}}}));
    }
  }));
  rows.push_back(argumentGradientRow("Mean")
                     .attrRequired("count", AttributeType::Int)
                     .infer([](InferContext &c) {
                       const int64_t count = c.attrInt("count");
                       c.require(count >= 1, "count is not positive: got {}, expected the number of inputs", count);
                       inferArgumentGradient(c, "Mean");
                       c.require(count > 1 || c.attrInts("fwd_shape") == c.shape(0),
                                 "fwd_shape is not the shape of the only input: got {}, expected {}",
                                 c.attrInts("fwd_shape"), c.shape(0));
                     })
                     .doc("Gradient of Mean for one of `count` inputs.")
                     .decompose([](DecomposeBuilder &b) {
                       const double count = static_cast<double>(b.attrs().getAttribute<int64_t>("count"));
                       b.result(0, emitReduceSumTo(b, E(b, b.in(0)) / count, b.outInfo(0).shape()));
                     }));
}

// The share of the gradient for each argument that is equal to the extreme.
TensorIndex emitTieShare(VjpBuilder &b) {
  if (b.op().inputCount() == 1) return b.gradOut(0);
  std::vector<TensorIndex> inputs{b.gradOut(0), b.out(0)};
  for (int i = 0; i < b.op().inputCount(); ++i) inputs.push_back(b.in(i));
  return b.emit("TieShare", inputs);
}

OpDef tieShareRow() {
  return OpDef("ai.graphcore", "TieShare", {1})
      .input("grad", kFloats, "T")
      .input("y", kFloats, "T")
      .input("inputs", kFloats, "T", Arity::Variadic)
      .output("share")
      .infer([](InferContext &c) {
        c.require(c.in(1) == c.in(0), "the result and its gradient differ: got {} and {}, expected the same", c.in(1),
                  c.in(0));
        for (int i = 2; i < c.inputCount(); ++i)
          c.require(npBroadcastable(c.shape(i), c.shape(1)) && npOut(c.shape(i), c.shape(1)) == c.shape(1),
                    "input {} does not broadcast to the result: got {}, expected {}", i, c.shape(i), c.shape(1));
        c.out(0, c.in(0));
      })
      .traits(Trait::Elementwise | Trait::Gradient)
      .cost(perElement(2))
      .notOnnx()
      .decompose([](DecomposeBuilder &b) {
        E g(b, b.in(0)), y(b, b.in(1));
        E count = tieCount(E(b, b.in(2)).apply("Equal", y), g.type());
        for (int i = 3; i < b.op().inputCount(); ++i)
          count = count + tieCount(E(b, b.in(i)).apply("Equal", y), g.type());
        b.result(0, evenShare(g, count));
      })
      .doc("The gradient of Max or Min divided by the number of arguments that are equal to the result.");
}

void addExtreme(OpDefs &rows, const char *type) {
  const std::string gradient = std::string(type) + "ArgGrad";
  rows.push_back(variadicRow(type, kNumeric)
                     .doc(std::string(type) + "imum of all inputs; NaN when one is NaN.")
                     .vjp([gradient](VjpBuilder &b) {
                       const TensorIndex share = emitTieShare(b);
                       for (int i = 0; i < b.op().inputCount(); ++i) {
                         if (!b.wants(i)) continue;
                         b.grad(i, b.emit(gradient, {share, b.in(i), b.out(0)}, {{"fwd_shape", b.inInfo(i).shape()}}));
                       }
                     }));
  rows.push_back(argumentGradientRow(type)
                     .input("x", kFloats, "T")
                     .input("y", kFloats, "T")
                     .doc("Gradient of " + std::string(type) +
                          " for one input, from each tied argument's share: passes where the input is the extreme.")
                     .decompose([](DecomposeBuilder &b) {
                       E g(b, b.in(0)), x(b, b.in(1)), y(b, b.in(2));
                       b.result(0,
                                emitReduceSumTo(b, select(x.apply("Equal", y), g, g.number(0)), b.outInfo(0).shape()));
                     }));
}

}  // namespace

OpDefs variadicOps() {
  OpDefs rows;
  addLinear(rows);
  rows.push_back(tieShareRow());
  addExtreme(rows, "Max");
  addExtreme(rows, "Min");
  return rows;
}

}  // namespace popart::ops
