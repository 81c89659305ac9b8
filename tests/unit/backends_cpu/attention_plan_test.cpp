// Plans of attention over more keys and elements than 32 bits count. A plan is numbers alone: nothing is allocated.
#include <gtest/gtest.h>

#include "backends/cpu/kernels/attention.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kKeys = (int64_t{3} << 31) + 5;

AttentionShape shape(int64_t queries) {
  AttentionShape s;
  s.queries = queries, s.keys = kKeys, s.size = s.valueSize = 64;
  return s;
}

TEST(AttentionPlan, blocks_after_the_two_billionth_key_have_all_their_panels) {
  const AttentionPlan plan(shape(8), {});
  const int64_t last = plan.keyBlocks() - 1;
  EXPECT_GT(last * plan.keyBlock(), int64_t{1} << 32);
  const KeyRange first = plan.panels(0, 8, 0), middle = plan.panels(0, 8, last / 2), end = plan.panels(0, 8, last);
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(middle.begin, 0);
  EXPECT_EQ(middle.end, first.end);
  EXPECT_EQ(end.begin, 0);
  EXPECT_GT(end.end, 0);
  EXPECT_EQ(plan.work(0, 8), 8.0 * static_cast<double>(kKeys));
}

TEST(AttentionPlan, ranges_of_keys_may_begin_anywhere) {
  const AttentionPlan plan(shape(2), {{kKeys - 1, kKeys}, {0, 1}});
  EXPECT_EQ(plan.panels(0, 1, 0).end, 0);
  EXPECT_GT(plan.panels(0, 1, plan.keyBlocks() - 1).end, 0);
  EXPECT_EQ(plan.panels(1, 2, plan.keyBlocks() - 1).end, 0);
  EXPECT_EQ(plan.work(0, 2), 2.0);
}

}  // namespace
}  // namespace popart::cpu
