// Packing of pairs, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pairs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/pairs.hpp"
// clang-format on
#include <cstring>

#include "backends/cpu/kernels/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Interleaves two rows with contiguous columns; `second` null: zeros.
HWY_INLINE void interleaveRows(const uint16_t *first, const uint16_t *second, int64_t cols, uint32_t *to) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    auto pairs = hn::PromoteTo(d, hn::LoadU(half, first + c));
    if (second) pairs = hn::Or(pairs, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, second + c))));
    hn::StoreU(pairs, d, to + c);
  }
  if (c == cols) return;
#if HWY_TARGET <= HWY_AVX3
  const auto rest = static_cast<size_t>(cols - c);
  const auto mask = hn::FirstN(half, rest);
  auto pairs = hn::PromoteTo(d, hn::MaskedLoad(mask, half, first + c));
  if (second) pairs = hn::Or(pairs, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::MaskedLoad(mask, half, second + c))));
  hn::BlendedStore(pairs, hn::FirstN(d, rest), d, to + c);
#else  // without masked memory instructions, Highway would access memory outside the array
  for (; c < cols; ++c) to[c] = first[c] | (second ? static_cast<uint32_t>(second[c]) << 16 : 0u);
#endif
}

void interleave(const uint16_t *from, ptrdiff_t rowStride, int64_t k, int cols, int width, float *panel) {
  for (int64_t row = 0; row < k; row += 2, from += 2 * rowStride, panel += width) {
    interleaveRows(from, row + 1 < k ? from + rowStride : nullptr, cols, reinterpret_cast<uint32_t *>(panel));
    if (cols < width) std::memset(panel + cols, 0, static_cast<size_t>(width - cols) * sizeof(float));
  }
}

void pairUp(const uint16_t *first, const uint16_t *second, ptrdiff_t rowStride, int64_t rows, int64_t cols,
            int64_t width, float *to) {
  for (int64_t row = 0; row < rows; ++row, to += width) {
    const ptrdiff_t at = row * rowStride;
    interleaveRows(first + at, second ? second + at : nullptr, cols, reinterpret_cast<uint32_t *>(to));
    if (cols < width) std::memset(to + cols, 0, static_cast<size_t>(width - cols) * sizeof(float));
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(interleave);
HWY_EXPORT(pairUp);

namespace {

void packElements(const uint16_t *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
                  float *panel) {
  for (int64_t row = 0; row < k; row += 2)
    for (int n = 0; n < width; ++n) {
      const uint16_t *at = b + row * rowStride + n * colStride;
      const uint16_t pair[2] = {n < cols ? at[0] : uint16_t{0}, n < cols && row + 1 < k ? at[rowStride] : uint16_t{0}};
      std::memcpy(panel + row / 2 * width + n, pair, sizeof pair);
    }
}

}  // namespace

void packPairPanel(const uint16_t *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
                   float *panel) noexcept {
  if (colStride == 1) return HWY_DYNAMIC_DISPATCH(interleave)(b, rowStride, k, cols, width, panel);
  if (rowStride != 1 || colStride % 2 != 0) return packElements(b, rowStride, colStride, k, cols, width, panel);
  const int64_t pairs = k / 2;
  transpose(reinterpret_cast<const float *>(b), colStride / 2, panel, width, cols, pairs);
  for (int64_t row = 0; row < pairs && cols < width; ++row)
    std::memset(panel + row * width + cols, 0, static_cast<size_t>(width - cols) * sizeof(float));
  if (k % 2 != 0) packElements(b + k - 1, rowStride, colStride, 1, cols, width, panel + pairs * width);
}

void pairMatrices(const uint16_t *first, const uint16_t *second, ptrdiff_t rowStride, int64_t rows, int64_t cols,
                  int64_t width, float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(pairUp)(first, second, rowStride, rows, cols, width, to);
}

void copyPairRows(const uint16_t *a, ptrdiff_t rowStride, int64_t k, int count, ptrdiff_t rowPairs,
                  float *to) noexcept {
  for (int m = 0; m < count; ++m, a += rowStride, to += rowPairs) {
    std::memcpy(to, a, static_cast<size_t>(k) * sizeof(uint16_t));
    if (k % 2 != 0) std::memset(reinterpret_cast<char *>(to) + k * sizeof(uint16_t), 0, sizeof(uint16_t));
  }
}

}  // namespace popart::cpu
#endif
