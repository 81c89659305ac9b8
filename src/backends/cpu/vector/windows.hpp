// Pooling over one window: taps are pixels of channels-last memory, given by the offset of their first channel.
// Invariant: taps are visited in the given order; channels are independent, so blocks of channels never change a bit.
#pragma once
#include <cstdint>
#include <span>

namespace popart::cpu {

using Taps = std::span<const int64_t>;

// y[c] = maximum of x[tap + c] (the first NaN wins); -inf without taps.
void maximumOfTaps(const float *x, Taps taps, int64_t channels, float *y) noexcept;
// dx[tap + c] += g[c] for the tap with the first maximum of channel c (the first NaN wins).
void spreadToMaximum(const float *x, Taps taps, int64_t channels, const float *g, float *dx) noexcept;
// y[c] = scale * sum of x[tap + c].
void sumOfTaps(const float *x, Taps taps, int64_t channels, float scale, float *y) noexcept;
// dx[tap + c] += scale * g[c] for every tap.
void spreadToTaps(Taps taps, int64_t channels, const float *g, float scale, float *dx) noexcept;

}  // namespace popart::cpu
