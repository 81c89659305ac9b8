// Where a forward pass is cut into segments for recomputation.
#include "transforms/checkpoints.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace popart::transforms {
namespace {

// Layers of one narrow and one wide value; both are read backwards.
std::vector<ForwardValue> layers(int count, int64_t narrow, int64_t wide) {
  std::vector<ForwardValue> values;
  for (int i = 0; i < count; ++i) {
    values.push_back({2 * i, 2 * i + 1, wide, true, {2 * i + 1}});
    values.push_back({2 * i + 1, 2 * i + 2, narrow, true, {2 * i + 2}});
  }
  values.back().lastRead = 2 * count - 1;
  values.back().makes.clear();
  return values;
}

std::vector<int> chooseCuts(int count, const std::vector<ForwardValue> &values) {
  return chooseCheckpoints(count, values, LastSegment::Kept).cuts;
}

TEST(Checkpoints, cuts_stand_where_few_bytes_are_alive) {
  const std::vector<int> cuts = chooseCuts(80, layers(40, 1, 100));
  ASSERT_FALSE(cuts.empty());
  for (const int cut : cuts) EXPECT_EQ(cut % 2, 1) << cut;  // behind narrow values
}

TEST(Checkpoints, equal_layers_have_about_the_square_root_of_segments) {
  for (const int count : {16, 64, 256}) {
    const std::vector<int> cuts = chooseCuts(2 * count, layers(count, 10, 10));
    const double root = std::sqrt(2.0 * count);
    EXPECT_GE(static_cast<double>(cuts.size()), root / 2) << count;
    EXPECT_LE(static_cast<double>(cuts.size()), root * 2) << count;
  }
}

TEST(Checkpoints, nothing_is_cut_where_nothing_is_saved) {
  EXPECT_TRUE(chooseCuts(0, {}).empty());
  EXPECT_TRUE(chooseCuts(4, {{0, 1, 8, false, {1}}, {1, 2, 8, false}}).empty());  // nothing is read backwards
  EXPECT_TRUE(
      chooseCuts(3, {{0, 2, 8, true, {1}}, {1, 2, 8, true, {2}}, {2, 2, 8, true}}).empty());  // all is alive at the end
}

TEST(Checkpoints, what_is_kept_anyway_needs_no_cuts) {
  // Wide values are kept; each narrow one is computed from the wide one before it when its own reader comes.
  std::vector<ForwardValue> values = layers(16, 10, 100);
  for (size_t i = 0; i < values.size(); i += 2) values[i].isKept = true;
  const Checkpoints found = chooseCheckpoints(32, values, LastSegment::WherePays);
  EXPECT_TRUE(found.cuts.empty());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found.isKept[i] != 0, i % 2 == 0) << i;
}

}  // namespace
}  // namespace popart::transforms
