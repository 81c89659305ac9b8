// Pooling along rows, compiled once per instruction set by Highway, see pool_rows.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pool_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/pool_rows.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pool_rows-inl.hpp"
#include "backends/cpu/task_count.hpp"
// clang-format on
#include <algorithm>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// ---- of two values, the first one in the order of memory

// Maxima where a NaN may be, and where there is none.
struct PoolMaximum {
  static HWY_INLINE V of(V first, V second) { return hn::IfThenElse(pools::replaces(second, first), second, first); }
};
struct PoolNumberMaximum {
  static HWY_INLINE V of(V first, V second) {
#if HWY_ARCH_X86
    return hn::Max(second, first);  // the instruction gives its second operand where both are equal
#else
    return hn::IfThenElse(hn::Lt(first, second), second, first);
#endif
  }
};
struct PoolSum {
  static HWY_INLINE V of(V first, V second) { return hn::Add(first, second); }
};

// Whether an element is a NaN; also true for some that have both infinities.
bool poolHasNaN(const float *from, int64_t count) {
  const D d;
  auto found = hn::IsNaN(hn::Zero(d));
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes)
    found = hn::Or(found, hn::IsNaN(hn::Add(hn::LoadU(d, from + i), hn::LoadU(d, from + i + kLanes))));
  for (; i < count; i += kLanes)
    found = hn::Or(found, hn::IsNaN(FirstLanes(std::min(kLanes, count - i)).load(from + i)));
  return !hn::AllFalse(d, found);
}

// to[i] = maximum over taps of from[tap + i]. `Last`: the lanes of the last vector.
template <class Maximum, class Last>
HWY_INLINE void poolMaxima(const float *from, const std::vector<int64_t> &taps, int64_t count, float *to) {
  const D d;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    const float *at = from + i;
    V a = hn::LoadU(d, at), b = hn::LoadU(d, at + kLanes), c = hn::LoadU(d, at + 2 * kLanes),
      e = hn::LoadU(d, at + 3 * kLanes);
    for (size_t k = 1; k < taps.size(); ++k) {
      at = from + taps[k] + i;
      a = Maximum::of(a, hn::LoadU(d, at)), b = Maximum::of(b, hn::LoadU(d, at + kLanes));
      c = Maximum::of(c, hn::LoadU(d, at + 2 * kLanes)), e = Maximum::of(e, hn::LoadU(d, at + 3 * kLanes));
    }
    hn::StoreU(a, d, to + i), hn::StoreU(b, d, to + i + kLanes);
    hn::StoreU(c, d, to + i + 2 * kLanes), hn::StoreU(e, d, to + i + 3 * kLanes);
  }
  for (; i < count; i += kLanes) {
    const Last lanes(std::min(kLanes, count - i));
    V a = lanes.load(from + i);
    for (size_t k = 1; k < taps.size(); ++k) a = Maximum::of(a, lanes.load(from + taps[k] + i));
    hn::StoreU(a, d, to + i);
  }
}
// Where there is room behind the array.
struct PoolVectors : AllLanes {
  explicit PoolVectors(int64_t) {}
};

template <PoolKind kKind>
class RowPooling {
  static constexpr bool kMaximum = kKind == PoolKind::kMaximum;
  static constexpr float kNeutral = kMaximum ? -std::numeric_limits<float>::infinity() : 0.0f;
  using Reading = RowPool::Reading;

 public:
  RowPooling(const RowPool::Plan &plan, const RowPool::Chunks &chunks, const float *x, float *y, void *scratch)
      : plan_(plan), chunks_(chunks), p_(plan.pool), x_(x), y_(y) {
    end_ = x + p_.n * p_.channels * p_.inputPixels();
    rows_ = static_cast<const float **>(scratch);
    staged_ = reinterpret_cast<float *>(rows_ + plan.rowsOfWindow);
    maxima_ = staged_ + chunks.stagedFloats;
    scales_ = maxima_ + chunks.maximaFloats;
  }

  // Units are (plane, block of columns, depth, row).
  void run(int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end;) {
      for (stagedRows_ = segmentCount_ = 0; unit < end && segmentCount_ < kMostSegments;) {
        Segment &s = segments_[segmentCount_];
        s = segmentAt(unit, end - unit);
        if (s.units == 0) break;
        ++segmentCount_, stagedRows_ += s.rows(), unit += s.units;
      }
      finish();
    }
  }

 private:
  static constexpr int64_t kMostSegments = 64;
  // Neighbouring units of one plane, block and depth, and the rows of the input that their windows span.
  struct Segment {
    int64_t units, plane, depth, row, first, columns;
    int64_t firstRow, spanned, depths, place;  // place: the number of its first row among those of the chunk
    int64_t rows() const { return spanned * depths; }
  };

  // As many units as there is memory for.
  Segment segmentAt(int64_t unit, int64_t most) const {
    Segment s;
    s.row = unit % p_.out[1], unit /= p_.out[1];
    s.depth = unit % p_.out[0], unit /= p_.out[0];
    s.plane = unit / plan_.blocks, s.first = unit % plan_.blocks * plan_.block;
    s.columns = std::min(plan_.block, p_.out[2] - s.first);
    s.depths = plan_.depths[s.depth].count, s.place = stagedRows_;
    const int64_t stride = p_.stride[1], span = (p_.kernel[1] - 1) * p_.dilation[1] + 1;
    s.units = std::min(most, p_.out[1] - s.row);
    if (const int64_t left = (chunks_.rows - stagedRows_) / std::max<int64_t>(1, s.depths); left < p_.in[1])
      s.units = std::min(s.units, left < span ? 0 : (left - span) / stride + 1);
    const int64_t begin = s.row * stride - p_.padLow[1];
    s.firstRow = std::clamp<int64_t>(begin, 0, p_.in[1]);
    s.spanned = std::clamp<int64_t>(begin + (s.units - 1) * stride + span, s.firstRow, p_.in[1]) - s.firstRow;
    return s;
  }

  const float *inputRow(const Segment &s, int64_t depth, int64_t row) const {
    const int64_t at = plan_.depths[s.depth].first + depth * p_.dilation[0];
    return x_ + ((s.plane * p_.in[0] + at) * p_.in[1] + row) * p_.in[2];
  }
  // f(segment, its depth, its row, number of the row in the chunk)
  template <class F>
  HWY_INLINE void forRows(F &&f) const {
    for (int64_t i = 0; i < segmentCount_; ++i) {
      const Segment &s = segments_[i];
      int64_t number = s.place;
      for (int64_t depth = 0; depth < s.depths; ++depth)
        for (int64_t row = 0; row < s.spanned; ++row) f(s, depth, s.firstRow + row, number++);
    }
  }
  int64_t begin(const Segment &s) const { return s.first * p_.stride[2] - p_.padLow[2]; }

  void finish() {
    if (chunks_.reading == Reading::kStaged)
      forRows([&](const Segment &s, int64_t depth, int64_t row, int64_t number) {
        pools::stageRow({inputRow(s, depth, row), p_.in[2], end_}, begin(s), chunks_.pitch * p_.stride[2], p_.stride[2],
                        kNeutral, staged_ + number * chunks_.pitch, chunks_.phase);
      });
    if constexpr (kMaximum) {
      if (chunks_.bySteps) return hasNaN() ? finishBySteps<PoolMaximum>() : finishBySteps<PoolNumberMaximum>();
      forUnits([&](const Segment &s, float *y) {
        chunks_.reading == Reading::kInRegisters ? split(s, y) : combine<PoolMaximum>(s, y);
      });
    } else {
      forUnits([&](const Segment &s, float *y) {
        chunks_.reading == Reading::kInRegisters ? split(s, y) : combine<PoolSum>(s, y);
      });
    }
  }
  bool hasNaN() const {
    bool found = false;
    if (chunks_.reading == Reading::kInPlace) {
      forRows([&](const Segment &s, int64_t depth, int64_t row, int64_t) {
        found |= poolHasNaN(inputRow(s, depth, row), p_.in[2]);
      });
    } else {
      for (int64_t phase = 0; phase < p_.stride[2]; ++phase)
        found |= poolHasNaN(staged_ + phase * chunks_.phase, stagedRows_ * chunks_.pitch);
    }
    return found;
  }

  // f(segment, where the unit's result lies), with rows_ and perColumn_ of the unit.
  template <class F>
  HWY_INLINE void forUnits(F &&f) {
    for (int64_t i = 0; i < segmentCount_; ++i) {
      const Segment &s = segments_[i];
      const Reach &depth = plan_.depths[s.depth];
      for (int64_t unit = 0; unit < s.units; ++unit) {
        const Reach &row = plan_.rows[s.row + unit];
        rowCount_ = 0;
        for (int64_t j = 0; j < depth.count; ++j)
          for (int64_t k = 0; k < row.count; ++k) rows_[rowCount_++] = address(s, j, row.first + k * p_.dilation[1]);
        if constexpr (!kMaximum)
          makeScales(s, static_cast<float>(plan_.countPadding ? depth.padded * row.padded : rowCount_));
        f(s, y_ + ((s.plane * p_.out[0] + s.depth) * p_.out[1] + s.row + unit) * p_.out[2] + s.first);
      }
    }
  }
  const float *address(const Segment &s, int64_t depth, int64_t row) const {
    if (chunks_.bySteps) return maxima_ + (s.place + depth * s.spanned + row - s.firstRow) * chunks_.pitch;
    if (chunks_.reading == Reading::kStaged)
      return staged_ + (s.place + depth * s.spanned + row - s.firstRow) * chunks_.pitch;
    return inputRow(s, depth, row) + begin(s);
  }
  // What sums are multiplied by, by column: 1 / (taps that an average counts), 0 without taps.
  void makeScales(const Segment &s, float perColumn) {
    if (scalesPerColumn_ == perColumn && scalesFirst_ == s.first) return;
    scalesPerColumn_ = perColumn, scalesFirst_ = s.first;
    for (int64_t o = 0; o < s.columns; ++o) {
      const float counted = plan_.counts[s.first + o] * perColumn;
      scales_[o] = counted == 0 ? 0.0f : 1.0f / counted;
    }
  }

  template <class Maximum>
  void finishBySteps() {
    if (chunks_.reading == Reading::kStaged)
      poolMaxima<Maximum, PoolVectors>(staged_, chunks_.taps, stagedRows_ * chunks_.pitch, maxima_);
    else
      forRows([&](const Segment &s, int64_t depth, int64_t row, int64_t number) {
        poolMaxima<Maximum, FirstLanes>(inputRow(s, depth, row) + begin(s), chunks_.taps, s.columns,
                                        maxima_ + number * chunks_.pitch);
      });
    forUnits([&](const Segment &s, float *y) {
      int64_t o = 0;
      for (; o + kLanes <= s.columns; o += kLanes) ofRows<Maximum>(AllLanes(), o, y);
      if (o < s.columns) ofRows<Maximum>(FirstLanes(s.columns - o), o, y);
    });
  }
  template <class Maximum, class Lanes>
  HWY_INLINE void ofRows(Lanes lanes, int64_t o, float *y) const {
    V total = hn::Set(D(), kNeutral);
    for (int64_t r = 0; r < rowCount_; ++r) total = Maximum::of(total, hn::LoadU(D(), rows_[r] + o));
    lanes.store(total, y + o);
  }

  template <class Lanes>
  HWY_INLINE void store(Lanes lanes, V total, int64_t o, float *y) const {
    if constexpr (!kMaximum) total = hn::Mul(total, lanes.load(scales_ + o));
    lanes.store(total, y + o);
  }

  // Two vectors of results, the second with some of its lanes, hide each other's latency.
  template <class Combine>
  HWY_INLINE void combine(const Segment &s, float *y) const {
    int64_t o = 0;
    for (; s.columns - o > 2 * kLanes; o += 2 * kLanes) two<Combine>(AllLanes(), o, y);
    if (s.columns - o > kLanes) return two<Combine>(FirstLanes(s.columns - o - kLanes), o, y);
    last<Combine>(FirstLanes(s.columns - o), o, y);
  }
  template <class Combine, class Lanes>
  HWY_INLINE void two(Lanes second, int64_t o, float *y) const {
    V a = hn::Set(D(), kNeutral), b = a;
    for (int64_t r = 0; r < rowCount_; ++r)
      for (const int64_t tap : chunks_.taps) {
        const float *from = rows_[r] + tap + o;
        a = Combine::of(a, hn::LoadU(D(), from));
        b = Combine::of(b, second.load(from + kLanes));
      }
    store(AllLanes(), a, o, y);
    store(second, b, o + kLanes, y);
  }
  template <class Combine, class Lanes>
  HWY_INLINE void last(Lanes lanes, int64_t o, float *y) const {
    V total = hn::Set(D(), kNeutral);
    for (int64_t r = 0; r < rowCount_; ++r)
      for (const int64_t tap : chunks_.taps) total = Combine::of(total, lanes.load(rows_[r] + tap + o));
    store(lanes, total, o, y);
  }

  // ---- windows between two steps of the stride

  HWY_INLINE void split(const Segment &s, float *y) const {
    if (p_.stride[2] == 2) return splitBy<2>(s, y);
    if (p_.stride[2] == 3) return splitBy<3>(s, y);
    splitBy<4>(s, y);
  }
  template <int64_t kStride>
  HWY_INLINE void splitBy(const Segment &s, float *y) const {
    int64_t o = 0;
    for (; o + kLanes <= s.columns; o += kLanes) splitVector<kStride>(AllLanes(), o, kLanes, y);
    if (o < s.columns) splitVector<kStride>(FirstLanes(s.columns - o), o, s.columns - o, y);
  }
  template <int64_t kStride, class Lanes>
  HWY_INLINE void splitVector(Lanes lanes, int64_t o, int64_t count, float *y) const {
    if constexpr (kMaximum) {
      // Sums of everything are no number where there is a NaN.
      V total = hn::Set(D(), kNeutral), all = hn::Zero(D());
      forTaps<kStride>(o, count, [&](V v) { total = PoolNumberMaximum::of(total, v), all = hn::Add(all, v); });
      if (HWY_UNLIKELY(!hn::AllFalse(D(), hn::IsNaN(all)))) {
        total = hn::Set(D(), kNeutral);
        forTaps<kStride>(o, count, [&](V v) { total = PoolMaximum::of(total, v); });
      }
      store(lanes, total, o, y);
    } else {
      V total = hn::Zero(D());
      forTaps<kStride>(o, count, [&](V v) { total = hn::Add(total, v); });
      store(lanes, total, o, y);
    }
  }
  // f(vector of `count` neighbouring windows' tap) for every tap, in order.
  template <int64_t kStride, class F>
  HWY_INLINE void forTaps(int64_t o, int64_t count, F &&f) const {
    for (int64_t r = 0; r < rowCount_; ++r) {
      const float *from = rows_[r] + o * kStride;
      HWY_ALIGN float whole[kStride * kLanes];
      if (HWY_UNLIKELY(end_ - from < kStride * kLanes)) {
        std::fill(std::copy(from, std::min(end_, from + kStride * count), whole), whole + kStride * kLanes, 0.0f);
        from = whole;
      }
      V v[kStride];
      pools::loadPhases<kStride>(from, v);
#pragma GCC unroll 4
      for (int64_t q = 0; q < kStride; ++q)
        if (chunks_.isTap[q]) f(v[q]);
    }
  }

  const RowPool::Plan &plan_;
  const RowPool::Chunks &chunks_;
  const Pool &p_;
  const float *x_, *end_;
  float *y_;
  const float **rows_;  // of a unit's window: the input, staged, or their maxima
  float *staged_, *maxima_, *scales_;
  Segment segments_[kMostSegments];
  int64_t segmentCount_ = 0, stagedRows_ = 0, rowCount_ = 0;
  float scalesPerColumn_ = -1;
  int64_t scalesFirst_ = -1;
};

void poolRows(const RowPool::Plan &plan, const RowPool::Chunks &chunks, const float *x, float *y, void *scratch,
              int64_t begin, int64_t end) {
  if (plan.kind == PoolKind::kMaximum)
    RowPooling<PoolKind::kMaximum>(plan, chunks, x, y, scratch).run(begin, end);
  else
    RowPooling<PoolKind::kAverage>(plan, chunks, x, y, scratch).run(begin, end);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(poolRows);

namespace {

constexpr int64_t kBlock = 1024;  // columns of the result: their staged rows stay in the cache

}  // namespace

RowPool::RowPool(const Pool &pool, PoolKind kind, bool countPadding)
    : plan_(planRows(pool, kind, countPadding, kBlock)), chunks_(planChunks(plan_)) {
  tasks_ = static_cast<int>(
      taskCount(pool.n * pool.channels * pool.outputPixels() * pool.taps(), int64_t{1} << 15, plan_.units));
}

int64_t RowPool::scratchBytes() const {
  const int64_t floats = chunks_.stagedFloats + chunks_.maximaFloats + chunks_.scaleFloats;
  return plan_.rowsOfWindow * static_cast<int64_t>(sizeof(float *)) + floats * static_cast<int64_t>(sizeof(float));
}

void RowPool::run(const float *x, float *y, void *scratch, int task) const noexcept {
  HWY_DYNAMIC_DISPATCH(poolRows)
  (plan_, chunks_, x, y, scratch, plan_.units * task / tasks_, plan_.units * (task + 1) / tasks_);
}

}  // namespace popart::cpu
#endif
