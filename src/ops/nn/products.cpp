// See products.hpp.
#include "ops/nn/products.hpp"

#include <popart/error.hpp>

#include "ops/rules.hpp"

namespace popart::ops {
namespace {

bool isFloat8(DataType type) { return (typeBit(type) & kFloat8Types) != 0; }

}  // namespace

void requireProductTypes(const InferContext &c) {
  const DataType a = c.type(0), b = c.type(1);
  if (!isFloat8(a) && !isFloat8(b)) {
    c.require(a == b, "element types differ: got {} and {} (input 1 '{}'), expected equal types. Cast one of them", a,
              b, c.op().inId(1));
    return;
  }
  c.require(isFloat8(a) && isFloat8(b), "FLOAT8 is multiplied by FLOAT8 only: got {} and {}. Cast one of them", a, b);
  c.require(c.hasIn(2), "FLOAT8 operands need the log2 scale of the result as input 2: it is missing");
  requireLog2Scale(c, 2);
}

DataType productType(const InferContext &c) { return isFloat8(c.type(0)) ? DataType::FLOAT16 : c.type(0); }

bool isScaledProduct(const Op &op) {
  return op.inputCount() == 3 && op.hasInput(0) && op.hasInput(1) && op.hasInput(2) &&
         isFloat8(op.inInfo(0).dataType()) && isFloat8(op.inInfo(1).dataType()) &&
         op.inInfo(2).dataType() == DataType::INT32;
}

void requireDifferentiableProduct(const Op &op) {
  if (isScaledProduct(op))
    throw error("{}: products of FLOAT8 operands have no gradient. Write the gradient by hand, or multiply in FLOAT16",
                op.debugName());
}

}  // namespace popart::ops
