// Binary search for many numbers at once, vectorised per instruction set.
#pragma once
#include <cstdint>

namespace popart::cpu {

// Which boundaries a number is compared with: those that are not below it, or those that are above it.
enum class Boundary : uint8_t { kNotBelow, kAbove };

// The first boundary that x is to stop at, as a plain binary search finds it, whatever the order of `boundaries`:
// `count` where there is none. NaN stops at none. T is compared with <.
template <class T, class C>
int64_t firstBoundary(Boundary kind, C x, const T *boundaries, int64_t count) noexcept {
  int64_t low = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    const auto boundary = static_cast<C>(boundaries[low + half]);
    const bool stops = kind == Boundary::kAbove ? boundary > x : boundary >= x;
    low = stops ? low : low + half + 1;
    count = stops ? half : count - half - 1;
  }
  return low;
}
// y[i] = the same for x[i], i < length. boundaryCount < 2^31.
void firstBoundaries(Boundary kind, const float *x, int64_t length, const float *boundaries, int64_t boundaryCount,
                     int32_t *y) noexcept;

}  // namespace popart::cpu
