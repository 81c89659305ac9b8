// Strided elements, compiled once per instruction set by Highway: interleaved loads, from which one vector is used.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pick_strided.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/pick_strided.hpp"
// clang-format on
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <int64_t kStride>
HWY_INLINE V everyOf(const float *x) {
  V first, second, third, fourth;
  if constexpr (kStride == 2) hn::LoadInterleaved2(D(), x, first, second);
  if constexpr (kStride == 3) hn::LoadInterleaved3(D(), x, first, second, third);
  if constexpr (kStride == 4) hn::LoadInterleaved4(D(), x, first, second, third, fourth);
  return first;
}

// Computes whole vectors of results that read nothing after the last element; returns the number of results.
template <int64_t kStride>
int64_t pickWhole(const float *x, int64_t count, float *y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes < count; i += lanes) hn::StoreU(everyOf<kStride>(x + i * kStride), D(), y + i);
  return i;
}

int64_t pickVectors(const float *x, int64_t stride, int64_t count, float *y) {
  switch (stride) {
    case 2:
      return pickWhole<2>(x, count, y);
    case 3:
      return pickWhole<3>(x, count, y);
    case 4:
      return pickWhole<4>(x, count, y);
    default:
      return 0;
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(pickVectors);

namespace {

template <size_t kBytes>
void pickFrom(int64_t first, const void *x, ptrdiff_t stride, int64_t count, void *y) {
  constexpr auto kSize = static_cast<ptrdiff_t>(kBytes);
  for (int64_t i = first; i < count; ++i)
    std::memcpy(static_cast<char *>(y) + i * kSize, static_cast<const char *>(x) + i * stride, kBytes);
}

}  // namespace

void pickStrided(int64_t elementBytes, const void *x, ptrdiff_t stride, int64_t count, void *y) noexcept {
  constexpr auto kFloat = static_cast<ptrdiff_t>(sizeof(float));
  switch (elementBytes) {
    case 1:
      return pickFrom<1>(0, x, stride, count, y);
    case 2:
      return pickFrom<2>(0, x, stride, count, y);
    case 4: {
      const bool isAligned = (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % sizeof(float) == 0;
      const int64_t first = isAligned && stride % kFloat == 0
                                ? HWY_DYNAMIC_DISPATCH(pickVectors)(static_cast<const float *>(x), stride / kFloat,
                                                                    count, static_cast<float *>(y))
                                : 0;
      return pickFrom<4>(first, x, stride, count, y);
    }
    case 8:
      return pickFrom<8>(0, x, stride, count, y);
    default:
      return pickFrom<16>(0, x, stride, count, y);
  }
}

}  // namespace popart::cpu
#endif
