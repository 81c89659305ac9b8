// Names of layouts in panels: a word and the number of columns of a panel, such as "quads32".
#pragma once
#include <charconv>
#include <cstdint>
#include <memory>
#include <string_view>

#include "executable/layout.hpp"

namespace popart::cpu {

// The layout with the number of columns in `name`; null if `name` is not `word` and a number above 0.
template <class Panels>
std::unique_ptr<const executable::Layout> panelsNamed(std::string_view name, std::string_view word) {
  if (!name.starts_with(word)) return nullptr;
  int32_t columns = 0;
  const char *end = name.data() + name.size();
  const auto [last, failure] = std::from_chars(name.data() + word.size(), end, columns);
  const bool isNumber = failure == std::errc() && last == end && columns > 0;
  return isNumber ? std::make_unique<Panels>(columns) : nullptr;
}

}  // namespace popart::cpu
