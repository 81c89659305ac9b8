// See repeats.hpp. The suffix array is sorted by prefixes of doubling length. Neighbours in it share a prefix. The
// repeats are the intervals in which no shared prefix is shorter than the repeat (lcp intervals), found with a
// stack:
//   lcp   3 5 5 2      intervals of length 5: [1, 3], of 3: [0, 3], of 2: [0, 4]
#include "transforms/repeats.hpp"

#include <algorithm>
#include <numeric>

namespace popart::transforms {
namespace {

std::vector<int> sortedSuffixes(const std::vector<int> &sequence) {
  const int n = static_cast<int>(sequence.size());
  std::vector<int> suffixes(sequence.size()), rank = sequence, next(sequence.size());
  std::iota(suffixes.begin(), suffixes.end(), 0);
  for (int length = 1;; length *= 2) {
    auto key = [&](int p) { return std::pair(rank[p], p + length < n ? rank[p + length] : -1); };
    std::ranges::sort(suffixes, {}, key);
    for (int i = 0, r = 0; i < n; ++i) {
      if (i > 0 && key(suffixes[i - 1]) != key(suffixes[i])) ++r;
      next[suffixes[i]] = r;
    }
    rank = next;
    if (n == 0 || rank[suffixes.back()] == n - 1 || length >= n) return suffixes;
  }
}

// The length of the prefix that the suffixes at i and i + 1 of the array share.
std::vector<int> sharedPrefixes(const std::vector<int> &sequence, const std::vector<int> &suffixes) {
  const int n = static_cast<int>(sequence.size());
  std::vector<int> rank(sequence.size()), shared(sequence.size(), 0);
  for (int i = 0; i < n; ++i) rank[suffixes[i]] = i;
  int length = 0;  // decreases by at most one from one position to the next
  for (int p = 0; p < n; ++p) {
    if (rank[p] + 1 == n) {
      length = 0;
      continue;
    }
    const int other = suffixes[rank[p] + 1];
    while (p + length < n && other + length < n && sequence[p + length] == sequence[other + length]) ++length;
    shared[rank[p]] = length;
    length = std::max(0, length - 1);
  }
  return shared;
}

}  // namespace

Repeats findRepeats(const std::vector<int> &sequence) {
  Repeats result{sortedSuffixes(sequence), {}};
  const std::vector<int> shared = sharedPrefixes(sequence, result.suffixes);
  std::vector<Repeat> open;
  for (int i = 0; i < static_cast<int>(shared.size()); ++i) {
    int first = i;
    while (!open.empty() && open.back().length > shared[i]) {
      result.found.push_back({open.back().length, open.back().first, i});
      first = open.back().first;
      open.pop_back();
    }
    if (shared[i] > 0 && (open.empty() || open.back().length < shared[i])) open.push_back({shared[i], first, 0});
  }
  return result;
}

}  // namespace popart::transforms
