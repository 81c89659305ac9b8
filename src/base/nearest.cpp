// Levenshtein distance ranking (names cut to 64 characters, so that the cost stays small for large models).
#include "base/nearest.hpp"

#include <algorithm>

namespace popart {
namespace {

size_t distance(const std::string &a, const std::string &b) {
  const size_t n = std::min<size_t>(a.size(), 64), m = std::min<size_t>(b.size(), 64);
  std::vector<size_t> row(m + 1);
  for (size_t j = 0; j <= m; ++j) row[j] = j;
  for (size_t i = 1; i <= n; ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[m];
}

}  // namespace

std::vector<std::string> nearest(const std::string &wanted, std::vector<std::string> names, size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (auto &n : names) ranked.emplace_back(distance(wanted, n), std::move(n));
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) result.push_back(ranked[i].second);
  return result;
}

}  // namespace popart
