// ClusterOrder against a list in which clusters are moved one by one.
#include "lower/cluster_order.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace popart::lower {
namespace {

TEST(ClusterOrder, MovesKeepTheOrderAmongThemselves) {
  ClusterOrder order(5);
  order.moveBefore({3, 2}, 1);  // 0 2 3 1 4
  EXPECT_TRUE(order.isBefore(0, 2));
  EXPECT_TRUE(order.isBefore(2, 3));
  EXPECT_TRUE(order.isBefore(3, 1));
  EXPECT_TRUE(order.isBefore(1, 4));
}

TEST(ClusterOrder, FollowsAListThroughManyMoves) {
  constexpr int kCount = 40;
  std::mt19937 random(7);
  std::vector<int> list(kCount);
  for (int i = 0; i < kCount; ++i) list[static_cast<size_t>(i)] = i;
  ClusterOrder order(kCount);
  for (int round = 0; round < 2000; ++round) {
    const auto other = static_cast<int>(random() % kCount);
    std::vector<int> moved;
    for (int c = 0; c < kCount; ++c)
      if (c != other && random() % 4 == 0) moved.push_back(c);
    order.moveBefore(moved, other);
    std::vector<int> inOrder, rest;
    for (int c : list) (std::count(moved.begin(), moved.end(), c) ? inOrder : rest).push_back(c);
    rest.insert(std::find(rest.begin(), rest.end(), other), inOrder.begin(), inOrder.end());
    list = rest;
    for (int i = 1; i < kCount; ++i)
      ASSERT_TRUE(order.isBefore(list[static_cast<size_t>(i) - 1], list[static_cast<size_t>(i)])) << round;
  }
}

}  // namespace
}  // namespace popart::lower
