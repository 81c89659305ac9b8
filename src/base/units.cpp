#include "base/units.hpp"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

namespace popart {
namespace {

struct Unit {
  const char *name;
  double size;
};

// "1234.5" as "1,234.5".
std::string withSeparators(std::string number) {
  const size_t point = std::min(number.find('.'), number.size());
  for (size_t at = point; at > 3;) number.insert(at -= 3, 1, ',');
  return number;
}

// `units`: the smallest first.
std::string scaled(double value, std::initializer_list<Unit> units) {
  const Unit *unit = units.begin();
  for (const Unit &larger : units)
    if (value >= larger.size) unit = &larger;
  const double number = value / unit->size;
  if (unit == units.begin()) return fmt::format("{:.4g} {}", number, unit->name);
  const int digits = number < 10 ? 3 : number < 100 ? 2 : 1;
  return fmt::format("{} {}", withSeparators(fmt::format("{:.{}f}", number, digits)), unit->name);
}

}  // namespace

std::string bytesText(double count) {
  return scaled(count, {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}});
}

std::string timeText(double seconds) { return scaled(seconds * 1e6, {{"us", 1}, {"ms", 1e3}, {"s", 1e6}}); }

std::string flopsText(double count) {
  return scaled(count, {{"FLOP", 1}, {"kFLOP", 1e3}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}});
}

}  // namespace popart
