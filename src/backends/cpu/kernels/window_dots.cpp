// See window_dots.hpp. Compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window_dots.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/window_dots.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using lanes::AllLanes;
using lanes::D;
using lanes::FirstLanes;
using lanes::V;

template <int kRows, int kColumns, class Lanes>
HWY_INLINE void addVector(const WindowDots &d, Lanes lanes, const float *a, const float *w,
                          V (&sums)[kRows][kColumns]) {
  V weights[kColumns];
  for (int c = 0; c < kColumns; ++c) weights[c] = lanes.load(w + c * d.blockCount * d.k);
  for (int r = 0; r < kRows; ++r) {
    const V x = lanes.load(a + r * d.aStride);
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::MulAdd(x, weights[c], sums[r][c]);
  }
}

template <int kRows, int kColumns>
void dotsOf(const WindowDots &d, int64_t row) {
  V sums[kRows][kColumns];
  for (auto &ofRow : sums)
    for (V &sum : ofRow) sum = hn::Zero(D());
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t full = d.k - d.k % lanes;
  for (int64_t b = 0; b < d.blockCount; ++b) {
    const float *a = d.a + row * d.aStride + d.blocks[b].a, *w = d.w + b * d.k;
    for (int64_t k = 0; k < full; k += lanes) addVector(d, AllLanes(), a + k, w + k, sums);
    if (full < d.k) addVector(d, FirstLanes(d.k - full), a + full, w + full, sums);
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) d.out[(row + r) * kColumns + c] = hn::GetLane(hn::SumOfLanes(D(), sums[r][c]));
}

template <int kColumns>
void dotRows(const WindowDots &d) {
  constexpr int kRows = 4;  // share the loads of weights
  int64_t row = 0;
  for (; row + kRows <= d.rows; row += kRows) dotsOf<kRows, kColumns>(d, row);
  for (; row < d.rows; ++row) dotsOf<1, kColumns>(d, row);
}

void dots(const WindowDots &d) {
  static_assert(kMostDotColumns == 4);
  switch (d.columns) {
    case 1:
      return dotRows<1>(d);
    case 2:
      return dotRows<2>(d);
    case 3:
      return dotRows<3>(d);
    default:
      return dotRows<4>(d);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(dots);

void windowDots(const WindowDots &d) noexcept { HWY_DYNAMIC_DISPATCH(dots)(d); }

}  // namespace popart::cpu
#endif
