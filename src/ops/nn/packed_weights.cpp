// DequantizePacked: converts weights of 2, 4 or 8 bits to floats. The first number of a byte is in its lowest bits.
//   y[r, c] = (q[r, c] - zero[r, c / block_size]) scale[r, c / block_size]
// packed (rows, bytes), scale and zero (rows, blocks), y (rows, columns). Without `zero`, the attribute zero_point
// applies to all blocks. The op is never folded, even for constants, so that memory holds the packed weights. They are
// not trained.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferDequantizePacked(InferContext &c) {
  const int64_t bits = c.attrInt("bits"), block = c.attrInt("block_size"), columns = c.attrInt("columns");
  c.require(bits == 2 || bits == 4 || bits == 8, "bits: got {}, expected 2, 4 or 8", bits);
  c.require(block > 0 && columns >= 0, "block_size and columns must not be negative: got {} and {}", block, columns);
  const Shape &packed = c.shape(0);
  c.require(packed.size() == 2 && columns <= packed[1] * (8 / bits),
            "packed numbers must be (rows, bytes) with {} numbers in a row: got shape {}", columns, packed);
  const Shape blocks = {packed[0], columns / block + (columns % block != 0 ? 1 : 0)};
  for (int i : {1, 2})
    c.require(!c.hasIn(i) || c.shape(i) == blocks,
              "scales and zero points must be one for each block: got shape {}, expected {}",
              c.hasIn(i) ? c.shape(i) : Shape{}, blocks);
  c.out(0, c.type(1), {packed[0], columns});
}

}  // namespace

OpDefs packedWeightOps() {
  OpDefs rows;
  rows.push_back(
      OpDef("popart", "DequantizePacked", {1})
          .input("packed", typeBit(DataType::UINT8))
          .input("scale", kFloats, "T")
          .input("zero", kFloats, "T", Arity::Optional)
          .output("y")
          .attrRequired("bits", AttributeType::Int)
          .attrRequired("block_size", AttributeType::Int)
          .attrRequired("columns", AttributeType::Int)
          .attr("zero_point", 0.0f)
          .infer(inferDequantizePacked)
          .traits(Trait::NeverFolded)
          .role(Role::DequantizePacked)
          .cost(perElement(3))
          .notOnnx()
          .slots(Slot::Setting, {1, 2})
          .stopsGrad()
          .doc("Floats from packed numbers of 2, 4 or 8 bits, with a scale and a zero point for each block."));
  return rows;
}

}  // namespace popart::ops
