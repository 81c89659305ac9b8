// IntegerMatMul: y[..., m, n] = sum_k (a[..., m, k] - a_zero) (b[..., k, n] - b_zero) in INT32, modulo 2^32, of
// integers of at most 16 bits; leading dimensions broadcast. What ONNX's quantised products are written with. Zero
// points are of 8-bit operands: one for all, or one for each row of a and each column of b.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kFactors = typeBit(DataType::INT8) | typeBit(DataType::UINT8) | typeBit(DataType::INT16);

constexpr TypeSet kZeros = typeBit(DataType::INT8) | typeBit(DataType::UINT8);

// `summed`: the dimension of the operand that a sum goes over, counted from the last.
void requireZeroPoint(const InferContext &c, int operand, size_t summed) {
  const int zero = operand + 2;
  if (!c.hasIn(zero)) return;
  c.require(c.type(zero) == c.type(operand), "an operand and its zero points must have one type: got {} and {}",
            c.type(operand), c.type(zero));
  Shape each = c.shape(operand);
  each[each.size() - 1 - summed] = 1;
  c.require(c.in(zero).nelms() == 1 || c.shape(zero) == each,
            "zero points must be one number or have shape {}: got shape {}", each, c.shape(zero));
}

void inferIntegerMatMul(InferContext &c) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  c.require(a.size() >= 2 && b.size() >= 2, "operands must be matrices or stacks of them: got shapes {} and {}", a, b);
  c.require(a.back() == b[b.size() - 2],
            "the last dimension of the left operand must equal the second last of the right one: got shapes {} and {}",
            a, b);
  const Shape batchA(a.begin(), a.end() - 2), batchB(b.begin(), b.end() - 2);
  c.require(npBroadcastable(batchA, batchB), "leading dimensions do not broadcast: got shapes {} and {}", a, b);
  requireZeroPoint(c, 0, 0);
  requireZeroPoint(c, 1, 1);
  Shape out = npOut(batchA, batchB);
  out.insert(out.end(), {a[a.size() - 2], b.back()});
  c.out(0, DataType::INT32, out);
}

}  // namespace

OpDefs integerProductOps() {
  return {OpDef("popart", "IntegerMatMul", {1})
              .input("a", kFactors)
              .input("b", kFactors)
              .input("a_zero", kZeros, "", Arity::Optional)
              .input("b_zero", kZeros, "", Arity::Optional)
              .output("y")
              .infer(inferIntegerMatMul)
              .layouts([](const Op &, OperandLayouts &layouts) { layouts.in[1] = OperandLayout::Chosen; })
              .cost([](const Op &op, Cost &c) { c.flops = productFlops(op.outInfo(0).nelms(), op.inShape(0).back()); })
              .notOnnx()
              .stopsGrad()
              .doc("Matrix product of INT8, UINT8 and INT16 without their zero points, in INT32, modulo 2^32.")};
}

}  // namespace popart::ops
