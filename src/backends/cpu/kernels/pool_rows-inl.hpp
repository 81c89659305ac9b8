// Rows of a plane (N, C, spatial…) in the form that windows read: split by the remainder of the column by the stride,
// with neutral values around them, see pool_rows.hpp. Compiled once per instruction set; only for .cpp files that
// Highway compiles this way.
#if defined(POPART_CPU_POOL_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_POOL_ROWS_INL_HPP
#undef POPART_CPU_POOL_ROWS_INL_HPP
#else
#define POPART_CPU_POOL_ROWS_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "backends/cpu/kernels/pool_maximum-inl.hpp"
#include "backends/cpu/kernels/pool_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace pools {

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// ---- phases: element q is stored at position q / stride of phase q % stride

// kStride contiguous vectors; vector p of the result has the elements of phase p.
template <int64_t kStride>
HWY_INLINE void loadPhases(const float *from, V *phases) {
  const D d;
  if constexpr (kStride == 1) phases[0] = hn::LoadU(d, from);
  if constexpr (kStride == 2) hn::LoadInterleaved2(d, from, phases[0], phases[1]);
  if constexpr (kStride == 3) hn::LoadInterleaved3(d, from, phases[0], phases[1], phases[2]);
  if constexpr (kStride == 4) hn::LoadInterleaved4(d, from, phases[0], phases[1], phases[2], phases[3]);
}

// A row of the input: `width` elements from `row` on; memory is readable up to `end`.
struct PlaneRow {
  const float *row;
  int64_t width;
  const float *end;
};

// Stages positions [begin, begin + count) of a row by phase; positions outside the row become `neutral`. Up to a vector
// may be written after a phase's last element. kStride 0: `stride`, which is above 4.
template <int64_t kStride>
HWY_INLINE void stageBy(const PlaneRow &from, int64_t begin, int64_t count, int64_t stride, float neutral, float *to,
                        int64_t phase) {
  if constexpr (kStride != 0) stride = kStride;
  const int64_t low = std::clamp<int64_t>(-begin, 0, count), high = std::clamp<int64_t>(from.width - begin, low, count);
  const float *first = from.row + begin;
  int64_t q = 0, p = 0, i = 0;
  const auto put = [&](float value) {
    to[p * phase + i] = value;
    if (++q, ++p == stride) p = 0, ++i;
  };
  while (q < low) put(neutral);
  if constexpr (kStride != 0) {
    while (q < high && p != 0) put(first[q]);
    for (; q < high && from.end - first >= q + kStride * kLanes; q += kStride * kLanes, i += kLanes) {
      V v[kStride];
      loadPhases<kStride>(first + q, v);
      for (int64_t k = 0; k < kStride; ++k) hn::StoreU(v[k], D(), to + k * phase + i);
    }
    if (q > high) q = high, p = high % kStride, i = high / kStride;
  }
  while (q < high) put(first[q]);
  while (q < count) put(neutral);
}
HWY_INLINE void stageRow(const PlaneRow &from, int64_t begin, int64_t count, int64_t stride, float neutral, float *to,
                         int64_t phase) {
  switch (stride) {
    case 1:
      return stageBy<1>(from, begin, count, stride, neutral, to, phase);
    case 2:
      return stageBy<2>(from, begin, count, stride, neutral, to, phase);
    case 3:
      return stageBy<3>(from, begin, count, stride, neutral, to, phase);
    case 4:
      return stageBy<4>(from, begin, count, stride, neutral, to, phase);
    default:
      stageBy<0>(from, begin, count, stride, neutral, to, phase);
  }
}

class StagedRows {
 public:
  // neutral: value of the padding.
  StagedRows(const RowPool::Plan &plan, const float *x, float neutral, float *scratch)
      : plan_(plan), p_(plan.pool), x_(x), neutral_(neutral), staged_(scratch) {
    kept_ = reinterpret_cast<int64_t *>(staged_ + plan.slots * plan.slot + plan.padded);
    if (x) end_ = x + p_.n * p_.channels * p_.inputPixels();
  }
  // End of the scratch memory.
  void *end() const { return kept_ + plan_.slots; }

  // Sets the plane of the following rows, and the `count` columns of the result from `first` on that they serve.
  void start(int64_t plane, int64_t first, int64_t count) {
    plane_ = plane;
    begin_ = first * p_.stride[2] - p_.padLow[2];
    span_ = (count - 1) * p_.stride[2] + (p_.kernel[2] - 1) * p_.dilation[2] + 1;
    isInside_ = begin_ >= 0 && begin_ + span_ <= p_.in[2];
    std::fill_n(kept_, plan_.slots, int64_t{-1});
  }

  // Element 0 of the returned row is the first tap of the first column. The row is valid until a row outside the same
  // window is requested.
  const float *row(int64_t depth, int64_t row) {
    const int64_t number = depth * p_.in[1] + row, stride = p_.stride[2];
    const float *from = x_ + (plane_ * p_.in[0] * p_.in[1] + number) * p_.in[2];
    if (stride == 1 && isInside_) return from + begin_;
    const int64_t slot = plan_.depthSlot[depth] + plan_.rowSlot[row];
    float *to = staged_ + slot * plan_.slot;
    if (kept_[slot] == number) return to;
    kept_[slot] = number;
    stageRow({from, p_.in[2], end_}, begin_, span_, stride, neutral_, to, plan_.phase);
    return to;
  }

 private:
  const RowPool::Plan &plan_;
  const Pool &p_;
  const float *x_, *end_ = nullptr;
  float neutral_;
  float *staged_;
  int64_t *kept_;  // by slot: number of the input row that is staged there, or -1
  int64_t plane_ = 0, begin_ = 0, span_ = 0;
  bool isInside_ = false;
};

}  // namespace pools
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
