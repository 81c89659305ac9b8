// Gradients of pooling along rows, compiled once per instruction set by Highway, see pool_rows.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pool_rows_gradient.cpp"
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

// ---- from phases back to the order of columns, the inverse of pools::split

template <int64_t kStride>
HWY_INLINE void joinBy(const float *from, int64_t phase, int64_t count, float *to) {
  const D d;
  for (int64_t i = 0; i * kStride < count; i += pools::kLanes) {
    const V a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + phase + i);
    if constexpr (kStride == 2) hn::StoreInterleaved2(a, b, d, to + i * 2);
    if constexpr (kStride == 3) hn::StoreInterleaved3(a, b, hn::LoadU(d, from + 2 * phase + i), d, to + i * 3);
    if constexpr (kStride == 4)
      hn::StoreInterleaved4(a, b, hn::LoadU(d, from + 2 * phase + i), hn::LoadU(d, from + 3 * phase + i), d,
                            to + i * 4);
  }
}
HWY_INLINE void join(int64_t stride, const float *from, int64_t phase, int64_t count, float *to) {
  switch (stride) {
    case 2:
      return joinBy<2>(from, phase, count, to);
    case 3:
      return joinBy<3>(from, phase, count, to);
    case 4:
      return joinBy<4>(from, phase, count, to);
    default:
      for (int64_t q = 0; q < count; ++q) to[q] = from[q % stride * phase + q / stride];
  }
}

template <PoolKind kKind>
class RowGradients {
  static constexpr bool kMaximum = kKind == PoolKind::kMaximum;

 public:
  RowGradients(const RowPoolGradient::Plan &plan, const float *g, const float *x, float *dx, void *scratch)
      : plan_(plan),
        rows_(plan.rows),
        p_(plan.rows.pool),
        g_(g),
        dx_(dx),
        staged_(plan.rows, x, -std::numeric_limits<float>::infinity(), static_cast<float *>(scratch)) {
    x_ = static_cast<const float **>(staged_.end());
    sums_ = static_cast<float **>(static_cast<void *>(x_ + rows_.rowsOfWindow));
    kept_ = reinterpret_cast<int64_t *>(sums_ + rows_.rowsOfWindow);
    sumRows_ = reinterpret_cast<float *>(kept_ + plan.slots);
    ordered_ = sumRows_ + plan.slots * rows_.slot;
  }

  void run(int64_t plane) {
    plane_ = plane;
    std::fill_n(dx_ + plane * p_.inputPixels(), p_.inputPixels(), 0.0f);
    std::fill_n(kept_, plan_.slots, int64_t{-1});
    if (p_.out[2] == 0) return;
    staged_.start(plane, 0, p_.out[2]);
    for (int64_t depth = 0; depth < p_.out[0]; ++depth)
      for (int64_t row = 0; row < p_.out[1]; ++row) one(depth, row);
    for (int64_t slot = 0; slot < plan_.slots; ++slot)
      if (kept_[slot] >= 0) write(slot);
  }

 private:
  void one(int64_t outDepth, int64_t outRow) {
    const Reach &depth = rows_.depths[outDepth], &row = rows_.rows[outRow];
    rowCount_ = 0;
    for (int64_t i = 0; i < depth.count; ++i)
      for (int64_t j = 0; j < row.count; ++j) {
        const int64_t d = depth.first + i * p_.dilation[0], r = row.first + j * p_.dilation[1];
        if constexpr (kMaximum) x_[rowCount_] = staged_.row(d, r);
        sums_[rowCount_++] = sumsOf(d, r);
      }
    if (rowCount_ == 0) return;
    perColumn_ = static_cast<float>(rows_.countPadding ? depth.padded * row.padded : rowCount_);
    const float *g = g_ + ((plane_ * p_.out[0] + outDepth) * p_.out[1] + outRow) * p_.out[2];
    int64_t o = 0;
    for (; o + pools::kLanes <= p_.out[2]; o += pools::kLanes) spread(AllLanes(), o, g);
    if (o < p_.out[2]) spread(FirstLanes(p_.out[2] - o), o, g);
  }

  // The sums of a row of dx, by phase. Writes the row that used the slot before.
  float *sumsOf(int64_t depth, int64_t row) {
    const int64_t number = depth * p_.in[1] + row, slot = plan_.depthSlot[depth] + plan_.rowSlot[row];
    float *sums = sumRows_ + slot * rows_.slot;
    if (kept_[slot] == number) return sums;
    if (kept_[slot] >= 0) write(slot);
    kept_[slot] = number;
    std::fill_n(sums, rows_.slot, 0.0f);
    return sums;
  }
  void write(int64_t slot) {
    const int64_t stride = p_.stride[2], low = p_.padLow[2];
    const int64_t span = (p_.out[2] - 1) * stride + (p_.kernel[2] - 1) * p_.dilation[2] + 1;
    const float *ordered = sumRows_ + slot * rows_.slot;
    if (stride != 1) {
      join(stride, ordered, rows_.phase, span, ordered_);
      ordered = ordered_;
    }
    const int64_t count = std::min(p_.in[2], span - low);
    if (count > 0) std::copy_n(ordered + low, count, dx_ + (plane_ * p_.in[0] * p_.in[1] + kept_[slot]) * p_.in[2]);
  }

  // Adds later taps first, so that contributions to an element are added in the order of the windows.
  template <class Lanes>
  HWY_INLINE void spread(Lanes lanes, int64_t o, const float *g) {
    const auto taps = static_cast<int64_t>(rows_.taps.size());
    if constexpr (kMaximum) {
      const V gradient = lanes.load(g + o), winner = winners(lanes, o);
      for (int64_t r = 0; r < rowCount_; ++r)
        for (int64_t k = taps; k-- > 0;)
          add(lanes, r, k, o, hn::IfThenElseZero(hn::Eq(winner, tapNumber(r, k)), gradient));
    } else {
      const V counted = hn::Mul(lanes.load(rows_.counts.data() + o), hn::Set(D(), perColumn_));
      const V scale = hn::IfThenZeroElse(hn::Eq(counted, hn::Zero(D())), hn::Div(hn::Set(D(), 1.0f), counted));
      const V share = hn::Mul(lanes.load(g + o), scale);
      for (int64_t r = 0; r < rowCount_; ++r)
        for (int64_t k = taps; k-- > 0;) add(lanes, r, k, o, share);
    }
  }
  template <class Lanes>
  HWY_INLINE void add(Lanes lanes, int64_t r, int64_t k, int64_t o, V share) {
    float *to = sums_[r] + rows_.taps[k] + o;
    lanes.store(hn::Add(lanes.load(to), share), to);
  }
  HWY_INLINE V tapNumber(int64_t r, int64_t k) const {
    return hn::Set(D(), static_cast<float>(r * static_cast<int64_t>(rows_.taps.size()) + k));
  }
  // The number of the tap with the maximum; if all are -inf, of the first tap inside the input.
  template <class Lanes>
  HWY_INLINE V winners(Lanes lanes, int64_t o) const {
    V best = hn::Set(D(), -std::numeric_limits<float>::infinity()), winner = lanes.load(plan_.firstTaps.data() + o);
    for (int64_t r = 0; r < rowCount_; ++r)
      for (size_t k = 0; k < rows_.taps.size(); ++k) {
        const V v = lanes.load(x_[r] + rows_.taps[k] + o);
        const auto over = pools::replaces(v, best);
        best = hn::IfThenElse(over, v, best);
        winner = hn::IfThenElse(over, tapNumber(r, static_cast<int64_t>(k)), winner);
      }
    return winner;
  }

  const RowPoolGradient::Plan &plan_;
  const RowPool::Plan &rows_;
  const Pool &p_;
  const float *g_;
  float *dx_;
  pools::StagedRows staged_;
  const float **x_;  // rows of the window: of the input, and of the sums of its gradient
  float **sums_;
  int64_t *kept_;  // by slot: number of the row whose sums are stored there, or -1
  float *sumRows_, *ordered_;
  int64_t plane_ = 0, rowCount_ = 0;
  float perColumn_ = 0;
};

void poolRowGradients(const RowPoolGradient::Plan &plan, const float *g, const float *x, float *dx, void *scratch,
                      int64_t begin, int64_t end) {
  if (plan.rows.kind == PoolKind::kMaximum) {
    RowGradients<PoolKind::kMaximum> rows(plan, g, x, dx, scratch);
    for (int64_t plane = begin; plane < end; ++plane) rows.run(plane);
  } else {
    RowGradients<PoolKind::kAverage> rows(plan, g, x, dx, scratch);
    for (int64_t plane = begin; plane < end; ++plane) rows.run(plane);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(poolRowGradients);

RowPoolGradient::RowPoolGradient(const Pool &pool, PoolKind kind, bool countPadding) {
  plan_.rows = planRows(pool, kind, countPadding, std::numeric_limits<int64_t>::max());
  const Pool &p = plan_.rows.pool;
  for (int64_t o = 0; o < p.out[2]; ++o) {
    const int64_t begin = o * p.stride[2] - p.padLow[2];
    plan_.firstTaps.push_back(static_cast<float>((plan_.rows.columns[o].first - begin) / p.dilation[2]));
  }
  // Windows of volumes return to the rows of a depth, so all rows of a depth are kept.
  const bool isVolume = p.in[0] > 1;
  const int64_t ofDepth = isVolume ? p.in[1] : std::max<int64_t>(1, plan_.rows.slots);
  for (const int32_t slot : plan_.rows.depthSlot) {
    const int64_t spannedRows = std::max<int64_t>(1, std::min((p.kernel[1] - 1) * p.dilation[1] + 1, p.in[1]));
    plan_.depthSlot.push_back(static_cast<int32_t>(slot / spannedRows * ofDepth));
  }
  for (int64_t row = 0; row < p.in[1]; ++row)
    plan_.rowSlot.push_back(isVolume ? static_cast<int32_t>(row) : plan_.rows.rowSlot[row]);
  const int64_t depths = std::min((p.kernel[0] - 1) * p.dilation[0] + 1, p.in[0]);
  plan_.slots = depths * ofDepth;
  plan_.scratchBytes = (plan_.slots * plan_.rows.slot + plan_.rows.padded) * static_cast<int64_t>(sizeof(float)) +
                       (plan_.slots + plan_.rows.rowsOfWindow) * static_cast<int64_t>(sizeof(int64_t));
  const int64_t planes = pool.n * pool.channels;
  tasks_ = static_cast<int>(
      taskCount(planes * (pool.inputPixels() + pool.outputPixels() * pool.taps()), int64_t{1} << 14, planes));
}

void RowPoolGradient::run(const float *g, const float *x, float *dx, void *scratch, int task) const noexcept {
  const int64_t planes = plan_.rows.pool.n * plan_.rows.pool.channels;
  HWY_DYNAMIC_DISPATCH(poolRowGradients)
  (plan_, g, x, dx, scratch, planes * task / tasks_, planes * (task + 1) / tasks_);
}

}  // namespace popart::cpu
#endif
