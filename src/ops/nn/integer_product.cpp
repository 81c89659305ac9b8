// IntegerMatMul: y[..., m, n] = sum_k (a[..., m, k] - a_zero) (b[..., k, n] - b_zero) in INT32, modulo 2^32, for INT8
// and UINT8; leading dimensions broadcast. ONNX's quantised products are imported as this op. Zero points: one for all,
// or one for each row of a and each column of b.
// IntegerConv: the same for windows, as in Conv; padding has the value x_zero, so that it adds nothing.
// Both may end like ONNX's quantised products. Each step is rounded to FLOAT, and its numbers are for all columns
// (channels) or for each of them:
//   sum + bias                                        bias: INT32, modulo 2^32
//   (sum + bias) scale                                scale: FLOAT
//   saturate(round((sum + bias) scale) + y_zero)      y_zero: one number, UINT8 or INT8, whose type the result has;
//                                                     halves are rounded to even
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/nn/products.hpp"
#include "ops/nn/window.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kBytes = typeBit(DataType::INT8) | typeBit(DataType::UINT8);

// Requires one number, or an array of shape `each`.
void requireZeroPoint(const InferContext &c, int operand, const Shape &each) {
  const int zero = operand + 2;
  if (!c.hasIn(zero)) return;
  c.require(c.type(zero) == c.type(operand), "an operand and its zero points must have one type: got {} and {}",
            c.type(operand), c.type(zero));
  c.require(c.in(zero).nelms() == 1 || c.shape(zero) == each,
            "zero points must be one number or have shape {}: got shape {}", each, c.shape(zero));
}

constexpr int kBiasInput = 4, kScaleInput = 5, kZeroInput = 6;

// The type of the result; bias and scale have a value for all of its columns (channels) or for each.
DataType requireEnding(const InferContext &c, int64_t columns) {
  for (int i : {kBiasInput, kScaleInput})
    c.require(!c.hasIn(i) || c.in(i).nelms() == 1 || c.shape(i) == Shape{columns},
              "bias and scale must be one number or have shape {}: got shape {}", Shape{columns},
              c.hasIn(i) ? c.shape(i) : Shape{});
  if (!c.hasIn(kZeroInput)) return c.hasIn(kScaleInput) ? DataType::FLOAT : DataType::INT32;
  c.require(c.hasIn(kScaleInput), "a zero point of the result needs a scale");
  c.require(c.in(kZeroInput).nelms() == 1, "the result must have one zero point: got shape {}", c.shape(kZeroInput));
  return c.type(kZeroInput);
}

// Adds two factors, their zero points, and the inputs of the final steps.
OpDef &productInputs(OpDef &row, const std::string &left, const std::string &right) {
  return row.input(left, kBytes)
      .input(right, kBytes)
      .input(left + "_zero", kBytes, "", Arity::Optional)
      .input(right + "_zero", kBytes, "", Arity::Optional)
      .input("bias", typeBit(DataType::INT32), "", Arity::Optional)
      .input("scale", typeBit(DataType::FLOAT), "", Arity::Optional)
      .input("y_zero", kBytes, "", Arity::Optional);
}

void inferIntegerMatMul(InferContext &c) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  c.require(a.size() >= 2 && b.size() >= 2, "operands must be matrices or stacks of them: got shapes {} and {}", a, b);
  c.require(a.back() == b[b.size() - 2],
            "the last dimension of the left operand must equal the second last of the right one: got shapes {} and {}",
            a, b);
  const Shape batchA(a.begin(), a.end() - 2), batchB(b.begin(), b.end() - 2);
  c.require(npBroadcastable(batchA, batchB), "leading dimensions do not broadcast: got shapes {} and {}", a, b);
  Shape rows = a, columns = b;
  rows.back() = columns[b.size() - 2] = 1;
  requireZeroPoint(c, 0, rows);
  requireZeroPoint(c, 1, columns);
  Shape out = npOut(batchA, batchB);
  out.insert(out.end(), {a[a.size() - 2], b.back()});
  c.out(0, requireEnding(c, b.back()), out);
}

void inferIntegerConv(InferContext &c) {
  const Shape out = convolutionShape(c);
  requireZeroPoint(c, 0, {});
  requireZeroPoint(c, 1, {out[1]});
  c.out(0, requireEnding(c, out[1]), out);
}

OpDef integerConvolution() {
  OpDef row("popart", "IntegerConv", {1});
  productInputs(row, "x", "w").output("y");
  convAttributes(row)
      .traits(Trait::Spatial)
      .infer(inferIntegerConv)
      .layouts([](const Op &, OperandLayouts &layouts) {
        layouts.in[0] = layouts.in[1] = layouts.out[0] = OperandLayout::Chosen;
      })
      .cost([](const Op &op, Cost &c) { c.flops = convFlops(op.outInfo(0), op.inShape(1)); })
      .notOnnx()
      .stopsGrad()
      .doc(
          "Convolution of INT8 and UINT8, minus their zero points, in INT32 modulo 2^32; optionally with a bias, "
          "scaled and quantised.");
  return row;
}

OpDef integerMatMul() {
  OpDef row("popart", "IntegerMatMul", {1});
  productInputs(row, "a", "b")
      .output("y")
      .infer(inferIntegerMatMul)
      .layouts([](const Op &, OperandLayouts &layouts) { layouts.in[1] = OperandLayout::Chosen; })
      .cost([](const Op &op, Cost &c) { c.flops = productFlops(op.outInfo(0).nelms(), op.inShape(0).back()); })
      .notOnnx()
      .stopsGrad()
      .doc(
          "Matrix product of INT8 and UINT8, minus their zero points, in INT32 modulo 2^32; optionally with a bias, "
          "scaled and quantised.");
  return row;
}

}  // namespace

OpDefs integerProductOps() { return {integerConvolution(), integerMatMul()}; }

}  // namespace popart::ops
