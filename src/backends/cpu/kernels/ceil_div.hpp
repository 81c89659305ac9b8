// ceil(a / b), for tilings. a >= 0, b > 0.
#pragma once
#include <cstdint>

namespace popart::cpu {

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace popart::cpu
