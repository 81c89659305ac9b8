// Ranking by Levenshtein distance. Names are cut to 64 characters, so that large models do not make it slow. Upper and
// lower case are the same.
#include "base/nearest.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace popart {
namespace {

std::string comparable(const std::string &name) {
  std::string text = name.substr(0, 64);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

// One contains the other, or at most two of five letters of the longer one differ (one letter of two).
bool resembles(const std::string &a, const std::string &b, size_t apart) {
  constexpr size_t kShortestPart = 3;
  const std::string &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  if (shorter.size() >= kShortestPart && longer.find(shorter) != std::string::npos) return true;
  return apart < longer.size() && apart <= std::max<size_t>(1, 2 * longer.size() / 5);
}

// By edit distance, then alphabetically.
std::vector<std::string> nearest(const std::string &wanted, std::vector<std::string> names, size_t count) {
  const std::string given = comparable(wanted);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (auto &n : names) {
    const std::string name = comparable(n);
    const size_t apart = distance(given, name);
    if (resembles(given, name, apart)) ranked.emplace_back(apart, std::move(n));
  }
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) result.push_back(ranked[i].second);
  return result;
}

}  // namespace

std::string nearestText(const std::string &wanted, std::vector<std::string> names, const std::string &what,
                        size_t count) {
  const std::vector<std::string> found = nearest(wanted, std::move(names), count);
  return found.empty() ? std::string() : fmt::format(". Nearest {}: {}", what, fmt::join(found, ", "));
}

}  // namespace popart
