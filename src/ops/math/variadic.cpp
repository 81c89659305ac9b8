// Sum, Mean, Max, Min of any number of tensors, element-wise with NumPy broadcasting. The gradient of Max and Min goes
// to every argument that attains the extreme.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/rules.hpp"

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
      .traits(Trait::Elementwise | Trait::Commutative);
}

OpDef argumentGradientRow(const char *type) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad", kFloats, "T")
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer(inferForwardShape)
      .traits(Trait::Gradient)
      .notOnnx();
}

void addLinear(OpDefs &rows) {
  rows.push_back(variadicRow("Sum", kNumeric).doc("Sum of all inputs.").vjp([](VjpBuilder &b) {
    for (int i = 0; i < b.op().inputCount(); ++i) {
      if (b.wants(i)) b.grad(i, b.emit("SumArgGrad", {b.gradOut(0)}, {{"fwd_shape", b.inInfo(i).shape()}}));
    }
  }));
  rows.push_back(
      argumentGradientRow("SumArgGrad").doc("Gradient of Sum for one input.").decompose([](DecomposeBuilder &b) {
        b.result(0, emitReduceSumTo(b, b.in(0), b.outInfo(0).shape()));
      }));
  rows.push_back(variadicRow("Mean", kFloats).doc("Mean of all inputs.").vjp([](VjpBuilder &b) {
    for (int i = 0; i < b.op().inputCount(); ++i) {
      if (!b.wants(i)) continue;
      b.grad(i, b.emit("MeanArgGrad", {b.gradOut(0)},
                       {{"fwd_shape", b.inInfo(i).shape()}, {"count", int64_t{b.op().inputCount()}}}));
    }
  }));
  rows.push_back(argumentGradientRow("MeanArgGrad")
                     .attrRequired("count", AttributeType::Int)
                     .doc("Gradient of Mean for one of `count` inputs.")
                     .decompose([](DecomposeBuilder &b) {
                       const double count = static_cast<double>(b.attrs().getAttribute<int64_t>("count"));
                       b.result(0, emitReduceSumTo(b, E(b, b.in(0)) / count, b.outInfo(0).shape()));
                     }));
}

void addExtreme(OpDefs &rows, const char *type) {
  const std::string gradient = std::string(type) + "ArgGrad";
  rows.push_back(
      variadicRow(type, kNumeric)
          .doc(std::string(type) + "imum of all inputs; NaN when one is NaN.")
          .vjp([gradient](VjpBuilder &b) {
            for (int i = 0; i < b.op().inputCount(); ++i) {
              if (!b.wants(i)) continue;
              b.grad(i, b.emit(gradient, {b.gradOut(0), b.in(i), b.out(0)}, {{"fwd_shape", b.inInfo(i).shape()}}));
            }
          }));
  rows.push_back(argumentGradientRow(gradient.c_str())
                     .input("x", kFloats, "T")
                     .input("y", kFloats, "T")
                     .doc("Gradient of " + std::string(type) + " for one input: passes where the input is the extreme.")
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
  addExtreme(rows, "Max");
  addExtreme(rows, "Min");
  return rows;
}

}  // namespace popart::ops
