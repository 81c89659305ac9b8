// Concat and Split along one axis.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferConcat(InferContext &c) {
  c.require(c.inputCount() > 0, "there are no inputs: got 0, expected at least 1");
  const int64_t axis = c.axis("axis", c.in(0).rank());
  Shape to = c.shape(0);
  for (int i = 1; i < c.inputCount(); ++i) {
    Shape other = c.shape(i);
    c.require(other.size() == to.size(), "ranks differ: got {} and {}, expected equal ranks", c.shape(0), other);
    to[axis] += other[axis];
    other[axis] = to[axis];
    c.require(other == to, "shapes differ outside axis {}: got {} and {}, expected them equal there", axis, c.shape(0),
              c.shape(i));
  }
  c.out(0, c.type(0), to);
}

// The parts of `whole` that correspond to the inputs of Concat `e.op()`.
std::vector<TensorIndex> partsOf(OpEmitter &e, const std::vector<TensorIndex> &, TensorIndex whole) {
  using Ints = std::vector<int64_t>;
  const int64_t axis = axisOf(e.attrs(), e.info(whole).rank());
  std::vector<TensorIndex> parts;
  int64_t start = 0;
  for (int i = 0; i < e.op().inputCount(); ++i) {
    const int64_t end = start + e.op().inInfo(i).dim(static_cast<int>(axis));
    parts.push_back(e.emit("Slice", {whole}, {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}}));
    start = end;
  }
  return parts;
}

OpDef concatRow() {
  return OpDef("ai.onnx", "Concat", {1, 4, 11, 13})
      .input("inputs", kStoredTypes, "T", Arity::Variadic)
      .output("concatenated")
      .attrRequired("axis", AttributeType::Int)
      .infer(inferConcat)
      .precision(Precision::Follows)
      .layouts(joinedChannels)
      .pieces(otherAxisPieces)
      .inplace("ConcatInplace", 10)
      .view(partsOf)
      .identityIf(hasOneInput)
      .cost(movesData())
      .vjp([](VjpBuilder &b) {
        const int64_t axis = axisOf(b.attrs(), b.inInfo(0).rank());
        int64_t start = 0;
        for (int i = 0; i < b.op().inputCount(); ++i) {
          const int64_t end = start + b.inInfo(i).dim(static_cast<int>(axis));
          if (b.wants(i))
            b.grad(i, b.emit("ConcatGrad", {b.gradOut(0)}, {{"axis", axis}, {"start", start}, {"end", end}}));
          start = end;
        }
      })
      .doc("Joins tensors along an axis.");
}

OpDef concatGradientRow() {
  return OpDef("ai.graphcore", "ConcatGrad", {1})
      .input("grad", kNumeric)
      .output("dx")
      .attrRequired("axis", AttributeType::Int)
      .attrRequired("start", AttributeType::Int)
      .attrRequired("end", AttributeType::Int)
      .infer([](InferContext &c) {
        Shape shape = c.shape(0);
        const int64_t axis = c.axis("axis", c.in(0).rank()), start = c.attrInt("start"), end = c.attrInt("end");
        c.require(start >= 0 && start <= end && end <= shape[axis],
                  "start and end are not part of axis {}: got {} to {}, expected numbers from 0 to {} in order", axis,
                  start, end, shape[axis]);
        shape[axis] = end - start;
        c.out(0, c.type(0), shape);
      })
      .layouts(pieceOfChannels)
      .pieces(otherAxisPieces)
      .traits(Trait::Gradient)
      .cost(movesData())
      .notOnnx()
      .decompose([](DecomposeBuilder &b) {
        auto at = [&b](const char *name) { return std::vector<int64_t>{b.attrs().getAttribute<int64_t>(name)}; };
        b.result(0, b.emit("Slice", {b.in(0)}, {{"axes", at("axis")}, {"starts", at("start")}, {"ends", at("end")}}));
      })
      .doc("Gradient of Concat for one input: its part of the axis.");
}

void inferSplit(InferContext &c) {
  const int64_t axis = c.axis("axis", c.in(0).rank()), size = c.shape(0)[axis], count = c.outputCount();
  c.require(count > 0, "there are no outputs: got 0, expected at least 1");
  const std::vector<int64_t> sizes = splitSizes(c.attrs(), size, count);
  c.require(static_cast<int64_t>(sizes.size()) == count,
            "there are not as many sizes as outputs: got {} for {} outputs", sizes, count);
  int64_t total = 0;  // size + 1 is used for anything larger
  for (int64_t s : sizes) {
    c.require(s >= 0, "a size is negative: got {}, expected sizes of 0 or more", sizes);
    total = std::min(total + std::min(s, size + 1), size + 1);
  }
  c.require(total == size, "the sizes do not add up: got {}, expected a sum of {}", sizes, size);
  for (int i = 0; i < count; ++i) {
    Shape shape = c.shape(0);
    shape[axis] = sizes[i];
    c.out(i, c.type(0), shape);
  }
}

OpDef splitRow() {
  return OpDef("ai.onnx", "Split", {2, 11, 13, 18})
      .input("input", kStoredTypes)
      .output("outputs", Arity::Variadic)
      .attr("axis", int64_t{0})
      .attrOptional("split", AttributeType::Ints)
      .attrOptional("num_outputs", AttributeType::Int)
      .constInput(1, "split", 13)
      .infer(inferSplit)
      .precision(Precision::Follows)
      .pieces(otherAxisPieces)
      .identityIf([](const Op &op) { return op.outputCount() == 1; })
      .cost(movesData())
      .vjp([](VjpBuilder &b) {
        std::vector<TensorIndex> parts;
        for (int i = 0; i < b.op().outputCount(); ++i) {
          const TensorInfo &info = b.outInfo(i);
          parts.push_back(b.hasGradOut(i) ? b.gradOut(i) : emitZeros(b, info.dataType(), info.shape()));
        }
        b.grad(0, b.emit("SplitGrad", parts, {{"axis", axisOf(b.attrs(), b.inInfo(0).rank())}}));
      })
      .doc("Splits a tensor along an axis into pieces of the sizes `split`, or of equal size.");
}

OpDef splitGradientRow() {
  return OpDef("ai.graphcore", "SplitGrad", {1})
      .input("grads", kNumeric, "T", Arity::Variadic)
      .output("dx")
      .attrRequired("axis", AttributeType::Int)
      .infer(inferConcat)
      .traits(Trait::Gradient)
      .pieces(otherAxisPieces)
      .notOnnx()
      .decompose([](DecomposeBuilder &b) { b.result(0, b.emit("Concat", b.op().inputs(), b.attrs())); })
      .doc("Gradient of Split: the pieces joined.");
}

}  // namespace

OpDefs joinOps() { return {concatRow(), concatGradientRow(), splitRow(), splitGradientRow()}; }

}  // namespace popart::ops
