// Binary search for many numbers at once, vectorised per instruction set.
#pragma once
#include <cstdint>

namespace popart::cpu {

// The boundary at which a search stops: the first one not below the number, or the first one above it.
enum class Boundary : uint8_t { kNotBelow, kAbove };

// The first boundary at which the search for x stops, as a plain binary search finds it, in whatever order `boundaries`
// are; `count` if there is none, which is always so for NaN. T is compared with <.
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
