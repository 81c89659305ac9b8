// FLOAT8 values are stored, moved and multiplied, but not used in other computations: casts convert them, with a scale
// that is a power of two, given as an INT32 scalar of the program.
//   Pow2ScaleThenCast   y = round(x 2^s)          CastThenPow2Scale   y = x 2^s
// Products of FLOAT8 operands (matmul.cpp, conv.cpp) have the scale of their result as third input.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kWide = typeBit(DataType::FLOAT16) | typeBit(DataType::FLOAT);

OpDef castRow(const char *type, TypeSet from, TypeSet to) {
  return OpDef("ai.graphcore", type, {1})
      .input("x", from)
      .input("log2_scale", typeBit(DataType::INT32))
      .output("y")
      .attrRequired("to", AttributeType::Int)
      .infer([to](InferContext &c) {
        requireLog2Scale(c, 1);
        const DataType type = typeOfAttribute(c, "to");
        c.require((typeBit(type) & to) != 0, "there is no such cast: got {} to {}", c.type(0), type);
        c.out(0, type, c.shape(0));
      })
      .traits(Trait::Conversion)
      .noGrad("FLOAT8 values have no gradient");
}

}  // namespace

OpDefs float8Ops() {
  OpDefs rows;
  rows.push_back(castRow("Pow2ScaleThenCast", kWide, kFloat8Types)
                     .doc("x times 2^log2_scale, rounded to FLOAT8; NaN if it is too large."));
  rows.push_back(castRow("CastThenPow2Scale", kFloat8Types, kWide).doc("The value of x times 2^log2_scale."));
  rows.push_back(OpDef("popart", "CheckLog2Scale", {1})
                     .input("log2_scale", typeBit(DataType::INT32))
                     .attrRequired("checked_op", AttributeType::String)
                     .infer([](InferContext &c) { requireLog2Scale(c, 0); })
                     .traits(Trait::Internal | Trait::SideEffect)
                     .notOnnx()
                     .noGrad("it is made after differentiation")
                     .doc("Ends the run if the scale of checked_op is not in [-32, 32)."));
  return rows;
}

}  // namespace popart::ops
