// Dropout and ShapedDropout: y = x mask / (1 - ratio). The mask keeps an element if its Philox word is at least ratio
// 2^32. The gradient draws the same mask from the same seed, so nothing is stored. Without training_mode, Dropout is
// the identity.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/random/seed.hpp"

namespace popart::ops {
namespace {

void requireRatio(const InferContext &c) {
  const float ratio = c.attrFloat("ratio");
  c.require(ratio >= 0.0f && ratio < 1.0f, "the ratio must be in [0, 1): got {}", ratio);
}

void inferDropout(InferContext &c) {
  requireRatio(c);
  if (c.attrInt("training_mode") != 0) {
    c.require(c.hasIn(1), "training needs a random seed. Connect input 1");
    requireSeed(c, 1);
  }
  c.out(0, c.in(0));
  if (c.outputCount() > 1) c.out(1, DataType::BOOL, c.shape(0));
}

void inferShapedDropout(InferContext &c) {
  requireRatio(c);
  requireSeed(c, 1);
  const Shape &mask = c.attrInts("shape");
  c.require(
      mask.size() <= c.shape(0).size() && npBroadcastable(c.shape(0), mask) && npOut(c.shape(0), mask) == c.shape(0),
      "the mask's shape must broadcast to the input: got {}, expected one that fits {}", mask, c.shape(0));
  c.out(0, c.in(0));
}

void addDropout(OpDefs &rows) {
  rows.push_back(
      OpDef("ai.onnx", "Dropout", {6, 7, 10, 12, 13, 22})
          .input("data", kFloats)
          .input("seed", kSeedType, "", Arity::Optional)
          .output("output")
          .output("mask", Arity::Optional)
          .attr("ratio", 0.5f)
          .attr("training_mode", int64_t{0})
          .infer(inferDropout)
          .precision(Precision::Follows)
          .traits(Trait::Random)
          .identityIf([](const Op &op) { return op.attrInt("training_mode") == 0; })
          .vjp([](VjpBuilder &b) {
            const bool training = b.op().attrInt("training_mode") != 0;
            b.grad(0, training ? b.emit("DropoutGrad", {b.gradOut(0), b.in(1)}, {{"ratio", b.op().attrFloat("ratio")}})
                               : b.emit("Identity", {b.gradOut(0)}));
          })
          .doc("Zeroes elements with probability ratio and scales the others by 1 / (1 - ratio) when training."));
  rows.push_back(OpDef("ai.graphcore", "DropoutGrad", {1})
                     .input("grad_out", kFloats)
                     .input("seed", kSeedType)
                     .output("grad")
                     .attrRequired("ratio", AttributeType::Float)
                     .infer([](InferContext &c) {
                       requireRatio(c);
                       requireSeed(c, 1);
                       c.out(0, c.in(0));
                     })
                     .traits(Trait::Gradient)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("DropoutGrad", {b.gradOut(0), b.in(1)}, b.attrs()));
                     })
                     .notOnnx()
                     .doc("The mask and scale of the forward dropout applied to the gradient."));
}

void addShapedDropout(OpDefs &rows) {
  auto row = [](const char *type, const char *input) {
    OpDef def("ai.graphcore", type, {1});
    def.input(input, kFloats)
        .input("seed", kSeedType)
        .output("output")
        .attrRequired("shape", AttributeType::Ints)
        .attr("ratio", 0.5f)
        .infer(inferShapedDropout);
    return def;
  };
  rows.push_back(row("ShapedDropout", "data")
                     .traits(Trait::Random)
                     .precision(Precision::Follows)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("ShapedDropoutGrad", {b.gradOut(0), b.in(1)},
                                        {{"ratio", b.op().attrFloat("ratio")}, {"shape", b.op().attrInts("shape")}}));
                     })
                     .doc("Dropout with a mask of the given shape, broadcast to the input."));
  rows.push_back(row("ShapedDropoutGrad", "grad_out")
                     .traits(Trait::Gradient)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("ShapedDropoutGrad", {b.gradOut(0), b.in(1)}, b.attrs()));
                     })
                     .notOnnx()
                     .doc("The mask and scale of the forward ShapedDropout applied to the gradient."));
}

}  // namespace

OpDefs dropoutOps() {
  OpDefs rows;
  addDropout(rows);
  addShapedDropout(rows);
  return rows;
}

}  // namespace popart::ops
