// CumSum: running sums along an axis.
#include "ops/catalog.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

OpDefs cumulativeOps() {
  auto infer = [](InferContext &c) {
    c.axis("axis", c.in(0).rank());
    c.out(0, c.in(0));
  };
  OpDef cumsum = OpDef("ai.onnx", "CumSum", {11, 14})
                     .input("x", kNumeric)
                     .input("axis", kIndices, "", Arity::Optional)  // as popxl prints it; the attribute says the same
                     .output("y")
                     .attrRequired("axis", AttributeType::Int)
                     .attr("exclusive", int64_t{0})
                     .attr("reverse", int64_t{0})
                     .constInput(1, "axis", 11)
                     .infer(infer)
                     .pieces(otherAxisPieces)
                     .vjp([](VjpBuilder &b) { b.grad(0, b.emit("CumSumGrad", {b.gradOut(0)}, b.attrs())); })
                     .doc("y[i] = sum of x[j] for j <= i (exclusive: j < i; reverse: from the end).");
  OpDef grad = OpDef("ai.graphcore", "CumSumGrad", {1})
                   .input("grad", kNumeric)
                   .output("dx")
                   .attrRequired("axis", AttributeType::Int)
                   .attr("exclusive", int64_t{0})
                   .attr("reverse", int64_t{0})
                   .infer(infer)
                   .pieces(otherAxisPieces)
                   .traits(Trait::Gradient)
                   .notOnnx()
                   .decompose([](DecomposeBuilder &b) {
                     Attributes attributes = b.attrs();
                     attributes.set("reverse", int64_t{attributes.getAttribute<int64_t>("reverse") == 0});
                     b.result(0, b.emit("CumSum", {b.in(0)}, attributes));
                   })
                   .doc("Gradient of CumSum: running sum from the other end.");
  return {cumsum, grad};
}

}  // namespace popart::ops
