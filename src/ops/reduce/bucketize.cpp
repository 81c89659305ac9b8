// Bucketize: for each element, the interval between increasing boundaries that contains it.
#include "ops/catalog.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

OpDefs bucketizeOps() {
  OpDefs rows;
  rows.push_back(OpDef("ai.graphcore", "Bucketize", {1})
                     .input("x", kNumeric, "T")
                     .input("boundaries", kNumeric, "T")
                     .output("index")
                     .attr("right", int64_t{0})
                     .infer([](InferContext &c) {
                       c.require(c.attrInt("right") == 0 || c.attrInt("right") == 1, "right: got {}, expected 0 or 1",
                                 c.attrInt("right"));
                       c.require(c.in(1).rank() == 1, "boundaries must have one dimension: got shape {}", c.shape(1));
                       c.out(0, DataType::INT32, c.shape(0));
                     })
                     .pieces(keptAxisPieces)
                     .cost(perElement(8))
                     .stopsGrad()
                     .doc("i with boundaries[i-1] < x <= boundaries[i]; right: boundaries[i-1] <= x < boundaries[i]."));
  return rows;
}

}  // namespace popart::ops
