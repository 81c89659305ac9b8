// findRepeats against a search by trying all pairs, and its work on long sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "transforms/repeats.hpp"

namespace popart::transforms {
namespace {

using Sequence = std::vector<int>;
using Found = std::map<Sequence, std::set<int>>;  // stretch -> positions

// Longest stretches for their positions: one number more would lose a position.
Found byTrying(const Sequence &s) {
  Found all, result;
  for (size_t begin = 0; begin < s.size(); ++begin)
    for (size_t end = begin + 1; end <= s.size(); ++end)
      all[Sequence(s.begin() + static_cast<int64_t>(begin), s.begin() + static_cast<int64_t>(end))].insert(
          static_cast<int>(begin));
  for (const auto &[stretch, positions] : all) {
    if (positions.size() < 2) continue;
    const bool longer = std::ranges::any_of(all, [&, &stretch = stretch, &positions = positions](const auto &other) {
      return other.first.size() == stretch.size() + 1 && other.second == positions;
    });
    if (!longer) result[stretch] = positions;
  }
  return result;
}

Found byRepeats(const Sequence &s) {
  Found result;
  const Repeats repeats = findRepeats(s);
  for (const Repeat &r : repeats.found) {
    const auto at = s.begin() + repeats.suffixes[static_cast<size_t>(r.first)];
    auto &positions = result[Sequence(at, at + r.length)];
    EXPECT_TRUE(positions.empty()) << "found twice";
    positions.insert(repeats.suffixes.begin() + r.first, repeats.suffixes.begin() + r.last + 1);
  }
  return result;
}

TEST(Repeats, AreThoseOfTryingAllPairs) {
  std::mt19937 random(1);
  for (int length = 0; length < 24; ++length)
    for (const int kinds : {1, 2, 3, 9}) {
      Sequence s;
      for (int i = 0; i < length; ++i) s.push_back(static_cast<int>(random() % static_cast<unsigned>(kinds)));
      EXPECT_EQ(byRepeats(s), byTrying(s));
    }
}

TEST(Repeats, OfLongSequencesAreFewerThanNumbers) {
  constexpr size_t kLength = 100'000;
  Sequence same(kLength, 7), period;
  for (size_t i = 0; i < kLength; ++i) period.push_back(static_cast<int>(i % 50));
  for (const Sequence &s : {same, period}) EXPECT_LT(findRepeats(s).found.size(), kLength);
}

}  // namespace
}  // namespace popart::transforms
