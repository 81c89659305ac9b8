// Terms of processes: joined in the tree's order they give the bits of the tree over single members.
#include "exchange/tree.hpp"

#include <bit>
#include <numeric>

#include <gtest/gtest.h>
#include <popart/error.hpp>

#include "unit/exchange/flat_tree.hpp"

namespace popart::exchange {
namespace {

float sum(float a, float b) { return a + b; }

std::vector<float> mixedFloats(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(mixedFloat(random));
  return values;
}

std::vector<Node> termsOfAll(const std::vector<int> &counts) {
  const int size = std::accumulate(counts.begin(), counts.end(), 0);
  std::vector<Node> all;
  int first = 0;
  for (const int count : counts) {
    const std::vector<Node> terms = termsOf(first, count, size);
    all.insert(all.end(), terms.begin(), terms.end());
    first += count;
  }
  return all;
}

// Members divided into consecutive parts of these sizes.
float joined(const std::vector<float> &members, const std::vector<int> &counts) {
  const std::vector<Node> terms = termsOfAll(counts);
  std::vector<float> places;
  for (const Node &n : terms) places.push_back(flatTree(members, n.level, n.index, sum));
  const JoinTree tree = joinTree(terms, static_cast<int>(members.size()));
  EXPECT_EQ(tree.steps.size() + 1, terms.size());
  for (const JoinTree::Step &s : tree.steps)
    places[static_cast<size_t>(s.left)] =
        sum(places[static_cast<size_t>(s.left)], places[static_cast<size_t>(s.right)]);
  return places[0];
}

void expectSameBits(const std::vector<float> &members, const std::vector<int> &counts) {
  ASSERT_EQ(std::bit_cast<uint32_t>(joined(members, counts)), std::bit_cast<uint32_t>(flatTree(members, sum)))
      << testing::PrintToString(counts);
}

// Bit i of `cuts`: a process ends behind member i.
std::vector<int> countsOf(int size, uint64_t cuts) {
  std::vector<int> counts{1};
  for (int i = 0; i + 1 < size; ++i)
    if (cuts >> i & 1)
      counts.push_back(1);
    else
      ++counts.back();
  return counts;
}

TEST(ExchangeTree, terms_are_maximal_nodes) {
  using Nodes = std::vector<Node>;
  EXPECT_EQ(termsOf(0, 4, 8), (Nodes{{2, 0}}));
  EXPECT_EQ(termsOf(0, 3, 6), (Nodes{{1, 0}, {0, 2}}));
  EXPECT_EQ(termsOf(3, 3, 6), (Nodes{{0, 3}, {2, 1}}));  // members 4 and 5 are all of node 1 of level 2
  EXPECT_EQ(termsOf(4, 1, 5), (Nodes{{2, 1}}));
  EXPECT_EQ(termsOf(0, 1, 1), (Nodes{{0, 0}}));
  EXPECT_EQ(termsOf(1, 62, 64).size(), 10u);  // 2 log2(62) is below 12
}

TEST(ExchangeTree, every_division_of_few_members_gives_the_same_bits) {
  for (int size = 1; size <= 12; ++size) {
    const std::vector<float> members = mixedFloats(size, static_cast<unsigned>(size));
    for (uint64_t cuts = 0; cuts < uint64_t{1} << (size - 1); ++cuts) expectSameBits(members, countsOf(size, cuts));
  }
}

TEST(ExchangeTree, divisions_of_up_to_33_members_give_the_same_bits) {
  std::mt19937_64 random(7);
  for (int size = 13; size <= 33; ++size) {
    const std::vector<float> members = mixedFloats(size, static_cast<unsigned>(size));
    for (int a = 1; a < size; ++a)
      for (int b = a; b < size; ++b)
        expectSameBits(members, countsOf(size, uint64_t{1} << (a - 1) | uint64_t{1} << (b - 1)));
    for (int each = 1; each < size; ++each) {
      uint64_t cuts = 0;
      for (int i = each; i < size; i += each) cuts |= uint64_t{1} << (i - 1);
      expectSameBits(members, countsOf(size, cuts));
    }
    for (int i = 0; i < 100; ++i) expectSameBits(members, countsOf(size, random()));
  }
}

TEST(ExchangeTree, the_order_of_sums_shows_in_the_bits) {  // else the tests above would say nothing
  const std::vector<float> members = mixedFloats(7, 3);
  EXPECT_NE(flatTree(members, sum), std::accumulate(members.begin() + 1, members.end(), members[0]));
}

TEST(ExchangeTree, steps_follow_those_whose_results_they_take) {
  for (int size = 2; size <= 33; ++size) {
    const std::vector<Node> terms = termsOfAll(countsOf(size, ~uint64_t{0}));
    const JoinTree tree = joinTree(terms, size);
    std::vector<int> taken(tree.steps.size(), 0);
    for (const int step : tree.firstStep) ++taken[static_cast<size_t>(step)];
    for (size_t s = 0; s < tree.steps.size(); ++s) {
      EXPECT_EQ(taken[s], 2);
      const int next = tree.steps[s].next;
      if (next < 0) continue;
      EXPECT_GT(next, static_cast<int>(s));
      ++taken[static_cast<size_t>(next)];
    }
    EXPECT_EQ(tree.steps.back().next, -1);
    EXPECT_EQ(tree.steps.back().left, 0);
  }
}

TEST(ExchangeTree, refuses_members_that_do_not_exist) {
  EXPECT_THROW(termsOf(3, 2, 4), internal_error);
  EXPECT_THROW(termsOf(-1, 2, 4), internal_error);
  EXPECT_THROW(termsOf(0, 0, 4), internal_error);
}

TEST(ExchangeTree, refuses_terms_that_are_not_the_members) {
  const auto refused = [](std::vector<Node> terms, int size) { EXPECT_THROW(joinTree(terms, size), internal_error); };
  refused({}, 1);
  refused({{1, 0}}, 4);
  refused({{1, 0}, {1, 0}}, 4);
  refused({{0, 1}, {0, 0}}, 2);
  refused({{0, 0}, {0, 1}, {0, 2}}, 2);
}

}  // namespace
}  // namespace popart::exchange
