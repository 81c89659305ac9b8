// Histogram: counts of elements between levels l_0 < l_1 < … < l_{n-1}.
//   counts[0] = #{x < l_0},  counts[i] = #{l_{i-1} <= x < l_i},  counts[n] = #{not x < l_{n-1}}
// NaN is not below any level, so it counts as large.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

OpDefs histogramOps() {
  OpDefs rows;
  rows.push_back(OpDef("ai.graphcore", "Histogram", {1})
                     .input("x", kFloats)
                     .output("counts")
                     .attrRequired("levels", AttributeType::Floats)
                     .attr("absoluteOfInput", int64_t{0})
                     .infer([](InferContext &c) {
                       const auto &levels = c.attrs().getAttribute<std::vector<float>>("levels");
                       c.require(!levels.empty(), "levels must be strictly increasing, one at least: got none");
                       const auto wrong =
                           std::adjacent_find(levels.begin(), levels.end(), [](float a, float b) { return !(a < b); });
                       c.require(wrong == levels.end(), "levels must be strictly increasing: got {} before {}",
                                 wrong == levels.end() ? 0 : wrong[0], wrong == levels.end() ? 0 : wrong[1]);
                       c.out(0, DataType::UINT32, {static_cast<int64_t>(levels.size()) + 1});
                     })
                     .cost([](const Op &op, Cost &c) { c.flops *= static_cast<double>(op.outInfo(0).nelms() - 1); })
                     .stopsGrad()
                     .notOnnx()
                     .doc("Counts of elements below the first of increasing levels, between levels, and from the last "
                          "one on; with absoluteOfInput of |x|."));
  return rows;
}

}  // namespace popart::ops
