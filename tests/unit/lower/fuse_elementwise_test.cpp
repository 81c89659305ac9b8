// Clusters of element-wise ops that wait for one another: fusing must leave a graph that can be ordered and gives the
// same values.
#include "lower/fuse_elementwise.hpp"

#include <random>

#include <gtest/gtest.h>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"

namespace popart::lower {
namespace {

constexpr int64_t kSize = 4;

// Each of these clusters is fine alone; {a1, a2} waits for {b1, b2} and that for {a1, a2}:
//   a1 = exp(x)   b1 = exp(y)   a2 = a1 + b1·w   b2 = b1 + a1·w
// `between`: products between a1 and b2 that stand before b1.
void addCrossing(test::GraphBuilder &b, int between) {
  const TensorIndex x = b.variable("x", {kSize, kSize}, test::numbers(kSize * kSize, 1));
  const TensorIndex y = b.variable("y", {kSize, kSize}, test::numbers(kSize * kSize, 2));
  const TensorIndex w = b.variable("w", {kSize, kSize}, test::numbers(kSize * kSize, 3));
  const TensorIndex a1 = b.op("Exp", {x}, "a1");
  TensorIndex q = a1;
  for (int i = 0; i < between; ++i) q = b.op("MatMul", {q, w}, "q" + std::to_string(i));
  const TensorIndex b1 = b.op("Exp", {y}, "b1");
  const TensorIndex p = b.op("MatMul", {b1, w}, "p");
  const TensorIndex last = b.op("MatMul", {q, w}, "last");
  b.graph().markOutput(b.op("Add", {a1, p}, "a2"));
  b.graph().markOutput(b.op("Add", {b1, last}, "b2"));
}

TEST(FuseElementwise, NeverClosesACycleThroughAnotherCluster) {
  for (int between : {0, 1, 3}) {
    Ir ir;
    test::GraphBuilder b(ir.getMainGraph());
    addCrossing(b, between);
    fuseElementwise(ir, cpu::backend());
    EXPECT_NO_THROW(ir.getMainGraph().getOpSchedule()) << between;
    int fused = 0;
    for (const Op *op : ir.getMainGraph().ops()) fused += op->is("FusedElementwise");
    EXPECT_EQ(fused, 1) << between;  // one of the two is merged all the same
  }
}

TEST(FuseElementwise, RandomGraphsCanBeOrdered) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Ir ir;
    test::GraphBuilder b(ir.getMainGraph());
    std::vector<TensorIndex> made;
    for (int i = 0; i < 3; ++i)
      made.push_back(b.variable("v" + std::to_string(i), {kSize, kSize}, test::numbers(kSize * kSize, i)));
    const int count = 5 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      const TensorIndex left = made[random() % made.size()], right = made[random() % made.size()];
      const std::string id = "t" + std::to_string(i);
      const auto kind = random() % 6;
      made.push_back(kind < 3    ? b.op("Add", {left, right}, id)
                     : kind == 3 ? b.op("Exp", {left}, id)
                     : kind == 4 ? b.op("Mul", {left, right}, id)
                                 : b.op("MatMul", {left, right}, id));
    }
    for (int i = 0; i < 3; ++i) b.graph().markOutput(made[made.size() - 1 - static_cast<size_t>(i)]);
    fuseElementwise(ir, cpu::backend());
    ASSERT_NO_THROW(ir.getMainGraph().getOpSchedule()) << round;
    verify(ir);
  }
}

}  // namespace
}  // namespace popart::lower
