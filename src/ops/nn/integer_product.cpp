// IntegerMatMul: y[..., m, n] = sum_k a[..., m, k] b[..., k, n] in INT32, modulo 2^32, of integers of at most 16 bits;
// leading dimensions broadcast. What ONNX's quantised products are written with: zero points are subtracted before.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kFactors = typeBit(DataType::INT8) | typeBit(DataType::UINT8) | typeBit(DataType::INT16);

void inferIntegerMatMul(InferContext &c) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  c.require(a.size() >= 2 && b.size() >= 2, "operands must be matrices or stacks of them: got shapes {} and {}", a, b);
  c.require(a.back() == b[b.size() - 2],
            "the last dimension of the left operand must equal the second last of the right one: got shapes {} and {}",
            a, b);
  const Shape batchA(a.begin(), a.end() - 2), batchB(b.begin(), b.end() - 2);
  c.require(npBroadcastable(batchA, batchB), "leading dimensions do not broadcast: got shapes {} and {}", a, b);
  Shape out = npOut(batchA, batchB);
  out.insert(out.end(), {a[a.size() - 2], b.back()});
  c.out(0, DataType::INT32, out);
}

}  // namespace

OpDefs integerProductOps() {
  return {OpDef("popart", "IntegerMatMul", {1})
              .input("a", kFactors)
              .input("b", kFactors)
              .output("y")
              .infer(inferIntegerMatMul)
              .cost([](const Op &op, Cost &c) { c.flops = productFlops(op.outInfo(0).nelms(), op.inShape(0).back()); })
              .notOnnx()
              .stopsGrad()
              .doc("Matrix product of INT8, UINT8 and INT16 in INT32, modulo 2^32.")};
}

}  // namespace popart::ops
