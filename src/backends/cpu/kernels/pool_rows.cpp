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
#include <cstring>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// ---- combines two values, in the order of memory

struct PoolSum {
  static HWY_INLINE V of(V first, V second) { return hn::Add(first, second); }
};

// Operands of the loops over rows, in registers.
struct PoolReader {
  const float *begin, *end;  // of the tensor
  const float *masks;
  const uint8_t *isTap;
  int64_t places, stride, readFloats;
};

// kStride: of the columns; 0: any above 4. kTaps: number of neighbouring columns of a window; 0: any.
template <PoolKind kKind, int64_t kStride, int64_t kTaps>
class RowPooling {
  static constexpr bool kMaximum = kKind == PoolKind::kMaximum;
  static constexpr float kNeutral = kMaximum ? -std::numeric_limits<float>::infinity() : 0.0f;
  using First = std::conditional_t<kMaximum, pools::NumberMaximum, PoolSum>;

 public:
  RowPooling(const RowPool::Plan &plan, const RowPool::Reading &reading, const float *x, float *y, void *scratch)
      : plan_(plan), reading_(reading), p_(plan.pool), x_(x), end_(x + p_.n * p_.channels * p_.inputPixels()), y_(y) {
    masks_ = static_cast<float *>(scratch);
    maxima_ = masks_ + static_cast<int64_t>(reading.isTap.size()) * kLanes;
    scales_ = maxima_ + (reading.bySteps ? reading.rows * kLanes : 0);
  }

  // Computes the units [begin, end), which are (plane, block of columns, depth, row).
  void run(int64_t begin, int64_t end) {
    while (begin < end) {
      const Segment s = segmentAt(begin, end - begin);
      for (int64_t o = 0; o < s.columns; o += kLanes) column(s, o);
      begin += s.units;
    }
  }

 private:
  // Neighbouring units of one plane, block and depth, and the rows of the input that their windows span.
  struct Segment {
    int64_t units, plane, depth, row, first, columns, firstRow, spanned, depths;
  };
  Segment segmentAt(int64_t unit, int64_t most) const {
    Segment s;
    s.row = unit % p_.out[1], unit /= p_.out[1];
    s.depth = unit % p_.out[0], unit /= p_.out[0];
    s.plane = unit / plan_.blocks, s.first = unit % plan_.blocks * plan_.block;
    s.columns = std::min(plan_.block, p_.out[2] - s.first);
    s.depths = plan_.depths[s.depth].count;
    const int64_t stride = p_.stride[1], span = (p_.kernel[1] - 1) * p_.dilation[1] + 1;
    s.units = std::min(most, p_.out[1] - s.row);
    if (const int64_t rows = reading_.rows / std::max<int64_t>(1, s.depths); rows < p_.in[1])
      s.units = std::min(s.units, (std::max(rows, span) - span) / stride + 1);
    const int64_t begin = s.row * stride - p_.padLow[1];
    s.firstRow = std::clamp<int64_t>(begin, 0, p_.in[1]);
    s.spanned = std::clamp<int64_t>(begin + (s.units - 1) * stride + span, s.firstRow, p_.in[1]) - s.firstRow;
    return s;
  }

  // Some lanes of results, starting at column o of the segment.
  struct Column {
    int64_t o, lanes, position;  // position: of the first tap of lane 0, in a row of the input
  };
  void column(const Segment &s, int64_t o) {
    const int64_t stride = p_.stride[2], span = (p_.kernel[2] - 1) * p_.dilation[2] + 1;
    const Column c{o, std::min(kLanes, s.columns - o), (s.first + o) * stride - p_.padLow[2]};
    const bool isInside = c.position >= 0 && c.position + (c.lanes - 1) * stride + span <= p_.in[2];
    if (!isInside) makeMasks(c);
    if (isInside ? combine<First, false>(s, c) : combine<First, true>(s, c)) return;
    if constexpr (kMaximum) isInside ? combine<pools::Maximum, false>(s, c) : combine<pools::Maximum, true>(s, c);
  }
  // For each tap: all bits in the lanes whose element is inside the input.
  void makeMasks(const Column &c) {
    if (maskPosition_ == c.position && maskLanes_ == c.lanes) return;
    maskPosition_ = c.position, maskLanes_ = c.lanes;
    for (int64_t q = 0; q < static_cast<int64_t>(reading_.isTap.size()); ++q)
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t at = c.position + q + i * p_.stride[2];
        const uint32_t bits = i < c.lanes && at >= 0 && at < p_.in[2] ? ~uint32_t{0} : 0;
        std::memcpy(masks_ + q * kLanes + i, &bits, sizeof(bits));
      }
  }

  // Returns false if maxima were computed without regard to NaN and the operands may have one. The sum of all values
  // read shows this: it is NaN as well.
  template <class Combine, bool kBorder>
  bool combine(const Segment &s, const Column &c) {
    const PoolReader reader{x_,
                            end_,
                            masks_,
                            reading_.isTap.data(),
                            static_cast<int64_t>(reading_.isTap.size()),
                            p_.stride[2],
                            reading_.readFloats};
    const bool bySteps = kMaximum && reading_.bySteps;
    const int64_t width = p_.in[2], spanned = s.spanned, step = p_.dilation[1];
    V all = hn::Zero(D());
    float *to = maxima_;
    for (int64_t depth = 0; bySteps && depth < s.depths; ++depth) {
      const float *from = inputRow(s, depth, s.firstRow) + c.position;
      for (int64_t row = 0; row < spanned; ++row, from += width, to += kLanes)
        hn::StoreU(ofRow<Combine, kBorder>(reader, from, hn::Set(D(), kNeutral), all), D(), to);
    }
    const Reach &depth = plan_.depths[s.depth];
    float *y = y_ + ((s.plane * p_.out[0] + s.depth) * p_.out[1] + s.row) * p_.out[2] + s.first + c.o;
    for (int64_t unit = 0; unit < s.units; ++unit, y += p_.out[2]) {
      const Reach &row = plan_.rows[s.row + unit];
      V total = hn::Set(D(), kNeutral);
      for (int64_t i = 0; i < depth.count; ++i) {
        if (bySteps) {
          const float *from = maxima_ + (i * spanned + row.first - s.firstRow) * kLanes;
          for (int64_t j = 0; j < row.count; ++j, from += step * kLanes)
            total = Combine::of(total, hn::LoadU(D(), from));
        } else {
          const float *from = inputRow(s, i, row.first) + c.position;
          for (int64_t j = 0; j < row.count; ++j, from += step * width)
            total = ofRow<Combine, kBorder>(reader, from, total, all);
        }
      }
      if constexpr (!kMaximum) {
        makeScales(s, static_cast<float>(countedPerColumn(depth, row)));
        total = hn::Mul(total, hn::LoadU(D(), scales_ + c.o));
      }
      c.lanes == kLanes ? AllLanes().store(total, y) : FirstLanes(c.lanes).store(total, y);
    }
    if constexpr (std::is_same_v<Combine, pools::NumberMaximum>) return hn::AllFalse(D(), hn::IsNaN(all));
    return true;
  }
  const float *inputRow(const Segment &s, int64_t depth, int64_t row) const {
    const int64_t at = plan_.depths[s.depth].first + depth * p_.dilation[0];
    return x_ + ((s.plane * p_.in[0] + at) * p_.in[1] + row) * p_.in[2];
  }
  // Number of taps that an average counts per tap of a column.
  int64_t countedPerColumn(const Reach &depth, const Reach &row) const {
    return plan_.countPadding ? depth.padded * row.padded : depth.count * row.count;
  }
  // Factors of sums, by column: 1 / (taps that an average counts), 0 without taps.
  void makeScales(const Segment &s, float perColumn) {
    if (scalesPerColumn_ == perColumn && scalesFirst_ == s.first) return;
    scalesPerColumn_ = perColumn, scalesFirst_ = s.first;
    for (int64_t o = 0; o < s.columns; ++o) {
      const float counted = plan_.counts[s.first + o] * perColumn;
      scales_[o] = counted == 0 ? 0.0f : 1.0f / counted;
    }
  }

  // ---- the taps of a row, in order

  template <class Combine, bool kBorder>
  static HWY_INLINE V ofRow(const PoolReader &r, const float *from, V total, V &all) {
    if (HWY_UNLIKELY(from < r.begin || r.end - from < r.readFloats))
      return ofTaps<Combine, kBorder, false>(r, from, total, all);
    return ofTaps<Combine, kBorder, true>(r, from, total, all);
  }
  template <class Combine, bool kBorder, bool kReadable>
  static HWY_INLINE V ofTaps(const PoolReader &r, const float *from, V total, V &all) {
    constexpr int64_t kPhases = std::max<int64_t>(1, kStride), kPlaces = (kTaps + kPhases - 1) / kPhases * kPhases;
    V sum = hn::Zero(D());
    const int64_t places = kTaps > 0 ? kPlaces : r.places;
#pragma GCC unroll 4
    for (int64_t q = 0; q < places; q += kPhases) {
      V v[kPhases];
      load<kReadable>(r, from + q, v);
#pragma GCC unroll 4
      for (int64_t k = 0; k < kPhases; ++k) {
        if (kTaps > 0 ? q + k >= kTaps : !r.isTap[q + k]) continue;
        if constexpr (kMaximum) sum = hn::Add(sum, v[k]);
        if constexpr (kBorder)
          v[k] = hn::IfVecThenElse(hn::LoadU(D(), r.masks + (q + k) * kLanes), v[k], hn::Set(D(), kNeutral));
        total = Combine::of(total, v[k]);
      }
    }
    all = hn::Add(all, sum);
    return total;
  }
  // Vectors of every kStride-th element; elements outside the tensor are zeros.
  template <bool kReadable>
  static HWY_INLINE void load(const PoolReader &r, const float *from, V *v) {
    if constexpr (kReadable && kStride > 0) return pools::loadPhases<kStride>(from, v);
    constexpr int64_t kPhases = std::max<int64_t>(1, kStride);
    for (int64_t k = 0; k < kPhases; ++k) {
      HWY_ALIGN float lanes[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        const float *at = from + k + i * r.stride;
        lanes[i] = at >= r.begin && at < r.end ? *at : 0.0f;
      }
      v[k] = hn::Load(D(), lanes);
    }
  }

  const RowPool::Plan &plan_;
  const RowPool::Reading &reading_;
  const Pool &p_;
  const float *x_, *end_;
  float *y_;
  float *masks_, *maxima_, *scales_;
  int64_t maskPosition_ = 0, maskLanes_ = -1, scalesFirst_ = -1;
  float scalesPerColumn_ = -1;
};

struct PoolUnits {
  const float *x;
  float *y;
  void *scratch;
  int64_t begin, end;
};
template <int64_t kStride, int64_t kTaps>
void poolTaps(const RowPool::Plan &plan, const RowPool::Reading &reading, const PoolUnits &u) {
  if (plan.kind == PoolKind::kMaximum)
    RowPooling<PoolKind::kMaximum, kStride, kTaps>(plan, reading, u.x, u.y, u.scratch).run(u.begin, u.end);
  else
    RowPooling<PoolKind::kAverage, kStride, kTaps>(plan, reading, u.x, u.y, u.scratch).run(u.begin, u.end);
}
// Windows of two and three columns are the most common ones.
template <int64_t kStride>
void poolStride(const RowPool::Plan &plan, const RowPool::Reading &reading, const PoolUnits &units) {
  const bool areNeighbours = plan.pool.dilation[2] == 1;
  if (areNeighbours && plan.pool.kernel[2] == 2) return poolTaps<kStride, 2>(plan, reading, units);
  if (areNeighbours && plan.pool.kernel[2] == 3) return poolTaps<kStride, 3>(plan, reading, units);
  poolTaps<kStride, 0>(plan, reading, units);
}
void poolRows(const RowPool::Plan &plan, const RowPool::Reading &reading, const float *x, float *y, void *scratch,
              int64_t begin, int64_t end) {
  const PoolUnits units{x, y, scratch, begin, end};
  switch (plan.pool.stride[2]) {
    case 1:
      return poolStride<1>(plan, reading, units);
    case 2:
      return poolStride<2>(plan, reading, units);
    case 3:
      return poolTaps<3, 0>(plan, reading, units);
    case 4:
      return poolTaps<4, 0>(plan, reading, units);
    default:
      return poolTaps<0, 0>(plan, reading, units);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(poolRows);

namespace {

constexpr int64_t kBlock = 1024;  // columns of the result per unit: their staged rows stay in the cache

}  // namespace

RowPool::RowPool(const Pool &pool, PoolKind kind, bool countPadding)
    : plan_(planRows(pool, kind, countPadding, kBlock)), reading_(planReading(plan_)) {
  tasks_ = static_cast<int>(
      taskCount(pool.n * pool.channels * pool.outputPixels() * pool.taps(), int64_t{1} << 15, plan_.units));
}

void RowPool::run(const float *x, float *y, void *scratch, int task) const noexcept {
  HWY_DYNAMIC_DISPATCH(poolRows)
  (plan_, reading_, x, y, scratch, plan_.units * task / tasks_, plan_.units * (task + 1) / tasks_);
}

}  // namespace popart::cpu
#endif
