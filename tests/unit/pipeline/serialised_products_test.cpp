// The option of C++ programs that leaves marked products whole (tests/python/popart/test_serialisation.py has the
// rest).
#include <gtest/gtest.h>

#include "../support/program.hpp"
#include "pipeline/options.hpp"

namespace popart {
namespace {

constexpr const char *kMarked = R"(main {
  stream %x : float32[2, 4]
  variable %w : float32[4, 6] = 0.5
  %y = MatMul(%x, %w) <hints = s["serialize_matmul_factor", "3", "serialize_matmul_mode", "output_channels"]>
})";

size_t productsWith(bool enableSerializedMatmuls) {
  SessionOptions options;
  options.enableSerializedMatmuls = enableSerializedMatmuls;
  options.enableOutlining = false;
  pipeline::PrepareRequest request;
  request.ir = parseIr(kMarked);
  request.anchors = {{"y"}};
  request.options = pipeline::pipelineOptions(options);
  return pipeline::prepare(std::move(request)).ir->opsOfType("MatMul").size();
}

TEST(SerialisedProducts, AreCutUnlessTheOptionIsOff) {
  EXPECT_EQ(productsWith(true), 3U);
  EXPECT_EQ(productsWith(false), 1U);
}

}  // namespace
}  // namespace popart
