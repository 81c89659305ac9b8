// See machine.hpp. Numbers per tile and cycle are those of the whole IPU, divided by tiles and clock: 62.5 TFLOP/s and
// 47.5 TB/s for the second generation, 31.1 TFLOP/s and 45 TB/s for the first.
#include "backends/ipu_model/machine.hpp"

#include <algorithm>

namespace popart::ipu_model {
namespace {

constexpr std::string_view kFirst =
    "Jia, Tillman, Maggioni, Scarpazza: Dissecting the Graphcore IPU Architecture via Microbenchmarking, "
    "arXiv:1912.03413 (2019)";
constexpr std::string_view kSecond = "data sheet of the Colossus Mk2 GC200";
// No description of this generation gives its clock.
constexpr std::string_view kLater = "taken as ipu2";

}  // namespace

const std::vector<Machine> &machines() {
  static const std::vector<Machine> rows = {
      {"ipu1", 1216, 1.6e9, 16, 23, 256 * 1024, kFirst},
      {"ipu2", 1472, 1.33e9, 32, 24, 624 * 1024, kSecond},
      {"ipu21", 1472, 1.33e9, 32, 24, 624 * 1024, kLater},
  };
  return rows;
}

const Machine *findMachine(std::string_view version) {
  const auto found = std::ranges::find(machines(), version, &Machine::version);
  return found == machines().end() ? nullptr : &*found;
}

}  // namespace popart::ipu_model
