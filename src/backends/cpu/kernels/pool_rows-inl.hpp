// Rows of the input of a pooling as pool_rows.hpp stages them. Compiled once per instruction set; only for .cpp files
// that Highway compiles so.
#if defined(POPART_CPU_POOL_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_POOL_ROWS_INL_HPP
#undef POPART_CPU_POOL_ROWS_INL_HPP
#else
#define POPART_CPU_POOL_ROWS_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "backends/cpu/kernels/pool_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace pools {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// ---- phases: element q goes to position q / stride of phase q % stride

template <int64_t kStride>
HWY_INLINE void splitVectors(const float *from, float *to, int64_t phase) {
  const D d;
  V a, b, c, e;
  if constexpr (kStride == 2) hn::LoadInterleaved2(d, from, a, b);
  if constexpr (kStride == 3) hn::LoadInterleaved3(d, from, a, b, c);
  if constexpr (kStride == 4) hn::LoadInterleaved4(d, from, a, b, c, e);
  hn::StoreU(a, d, to);
  hn::StoreU(b, d, to + phase);
  if constexpr (kStride > 2) hn::StoreU(c, d, to + 2 * phase);
  if constexpr (kStride > 3) hn::StoreU(e, d, to + 3 * phase);
}
// Reads whole vectors: `from` has room behind its `count` elements, and so has each phase.
template <int64_t kStride>
HWY_INLINE void splitBy(const float *from, int64_t count, float *to, int64_t phase) {
  for (int64_t i = 0; i * kStride < count; i += kLanes) splitVectors<kStride>(from + i * kStride, to + i, phase);
}
HWY_INLINE void split(int64_t stride, const float *from, int64_t count, float *to, int64_t phase) {
  switch (stride) {
    case 2:
      return splitBy<2>(from, count, to, phase);
    case 3:
      return splitBy<3>(from, count, to, phase);
    case 4:
      return splitBy<4>(from, count, to, phase);
    default:
      for (int64_t p = 0; p < std::min(stride, count); ++p)
        for (int64_t i = 0; i * stride + p < count; ++i) to[p * phase + i] = from[i * stride + p];
  }
}

// Whether v replaces best: greater, or the first NaN.
HWY_INLINE hn::Mask<D> replaces(V v, V best) { return hn::AndNot(hn::IsNaN(best), hn::Not(hn::Le(v, best))); }

class StagedRows {
 public:
  // neutral: what stands in the padding.
  StagedRows(const RowPool::Plan &plan, const float *x, float neutral, float *scratch)
      : plan_(plan), p_(plan.pool), x_(x), neutral_(neutral), staged_(scratch) {
    padded_ = staged_ + plan.slots * plan.slot;
    kept_ = reinterpret_cast<int64_t *>(padded_ + plan.padded);
  }
  // Of the scratch memory.
  void *end() const { return kept_ + plan_.slots; }

  // The rows that follow are those of a plane, as `count` columns of the result from `first` on want them.
  void start(int64_t plane, int64_t first, int64_t count) {
    plane_ = plane;
    begin_ = first * p_.stride[2] - p_.padLow[2];
    span_ = (count - 1) * p_.stride[2] + (p_.kernel[2] - 1) * p_.dilation[2] + 1;
    isInside_ = begin_ >= 0 && begin_ + span_ <= p_.in[2];
    std::fill_n(kept_, plan_.slots, int64_t{-1});
  }

  // Element 0 is that of the first column's first tap. Valid until a row that the same window does not span is asked
  // for.
  const float *row(int64_t depth, int64_t row) {
    const int64_t number = depth * p_.in[1] + row, stride = p_.stride[2];
    const float *from = x_ + (plane_ * p_.in[0] * p_.in[1] + number) * p_.in[2];
    if (stride == 1 && isInside_) return from + begin_;
    const int64_t slot = plan_.depthSlot[depth] + plan_.rowSlot[row];
    float *to = staged_ + slot * plan_.slot;
    if (kept_[slot] == number) return to;
    kept_[slot] = number;
    float *whole = stride == 1 ? to : padded_;
    const int64_t low = std::clamp<int64_t>(-begin_, 0, span_),
                  high = std::clamp<int64_t>(p_.in[2] - begin_, low, span_);
    std::fill_n(whole, low, neutral_);
    std::copy_n(from + begin_ + low, high - low, whole + low);
    std::fill_n(whole + high, span_ - high, neutral_);
    if (stride != 1) split(stride, padded_, span_, to, plan_.phase);
    return to;
  }

 private:
  const RowPool::Plan &plan_;
  const Pool &p_;
  const float *x_;
  float neutral_;
  float *staged_, *padded_;
  int64_t *kept_;  // by slot: the number of the input row that is staged there, or -1
  int64_t plane_ = 0, begin_ = 0, span_ = 0;
  bool isInside_ = false;
};

}  // namespace pools
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
