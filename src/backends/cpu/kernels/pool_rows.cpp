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

template <PoolKind kKind>
class RowPooling {
  static constexpr bool kMaximum = kKind == PoolKind::kMaximum;
  static constexpr float kNeutral = kMaximum ? -std::numeric_limits<float>::infinity() : 0.0f;

 public:
  RowPooling(const RowPool::Plan &plan, const float *x, float *y, void *scratch)
      : plan_(plan), p_(plan.pool), y_(y), staged_(plan, x, kNeutral, static_cast<float *>(scratch)) {
    rows_ = static_cast<const float **>(staged_.end());
  }

  // Units are (plane, block of columns, depth, row).
  void run(int64_t begin, int64_t end) {
    if (begin == end) return;
    int64_t row = begin % p_.out[1], rest = begin / p_.out[1], depth = rest % p_.out[0];
    rest /= p_.out[0];
    start(rest / plan_.blocks, rest % plan_.blocks);
    for (int64_t unit = begin; unit < end; ++unit) {
      one(depth, row);
      if (++row < p_.out[1]) continue;
      row = 0;
      if (++depth < p_.out[0]) continue;
      depth = 0;
      if (unit + 1 < end) block_ + 1 < plan_.blocks ? start(plane_, block_ + 1) : start(plane_ + 1, 0);
    }
  }

 private:
  void start(int64_t plane, int64_t block) {
    plane_ = plane, block_ = block;
    first_ = block * plan_.block;
    count_ = std::min(plan_.block, p_.out[2] - first_);
    staged_.start(plane, first_, count_);
  }

  void one(int64_t outDepth, int64_t outRow) {
    const Reach &depth = plan_.depths[outDepth], &row = plan_.rows[outRow];
    rowCount_ = 0;
    for (int64_t i = 0; i < depth.count; ++i)
      for (int64_t j = 0; j < row.count; ++j)
        rows_[rowCount_++] = staged_.row(depth.first + i * p_.dilation[0], row.first + j * p_.dilation[1]);
    perColumn_ = static_cast<float>(plan_.countPadding ? depth.padded * row.padded : rowCount_);
    float *y = y_ + ((plane_ * p_.out[0] + outDepth) * p_.out[1] + outRow) * p_.out[2] + first_;
    int64_t o = 0;
    for (; count_ - o > 2 * kLanes; o += 2 * kLanes) two(AllLanes(), o, y);
    if (count_ - o > kLanes) return two(FirstLanes(count_ - o - kLanes), o, y);
    last(FirstLanes(count_ - o), o, y);
  }

  HWY_INLINE V combine(V total, V v) const {
    if constexpr (kMaximum) return hn::IfThenElse(pools::replaces(v, total), v, total);
    return hn::Add(total, v);
  }
  template <class Lanes>
  HWY_INLINE void finish(Lanes lanes, V total, int64_t o, float *y) const {
    if constexpr (kMaximum) return lanes.store(total, y + o);
    const V counted = hn::Mul(lanes.load(plan_.counts.data() + first_ + o), hn::Set(D(), perColumn_));
    const V scale = hn::IfThenZeroElse(hn::Eq(counted, hn::Zero(D())), hn::Div(hn::Set(D(), 1.0f), counted));
    lanes.store(hn::Mul(total, scale), y + o);
  }
  // Two vectors of results, the second with some of its lanes, hide each other's latency.
  template <class Lanes>
  HWY_INLINE void two(Lanes second, int64_t o, float *y) const {
    V a = hn::Set(D(), kNeutral), b = a;
    for (int64_t r = 0; r < rowCount_; ++r)
      for (const int64_t tap : plan_.taps) {
        const float *from = rows_[r] + tap + o;
        a = combine(a, hn::LoadU(D(), from));
        b = combine(b, second.load(from + kLanes));
      }
    finish(AllLanes(), a, o, y);
    finish(second, b, o + kLanes, y);
  }
  template <class Lanes>
  HWY_INLINE void last(Lanes lanes, int64_t o, float *y) const {
    V total = hn::Set(D(), kNeutral);
    for (int64_t r = 0; r < rowCount_; ++r)
      for (const int64_t tap : plan_.taps) total = combine(total, lanes.load(rows_[r] + tap + o));
    finish(lanes, total, o, y);
  }

  const RowPool::Plan &plan_;
  const Pool &p_;
  float *y_;
  pools::StagedRows staged_;
  const float **rows_;
  int64_t plane_ = 0, block_ = 0, first_ = 0, count_ = 0, rowCount_ = 0;
  float perColumn_ = 0;
};

void poolRows(const RowPool::Plan &plan, const float *x, float *y, void *scratch, int64_t begin, int64_t end) {
  if (plan.kind == PoolKind::kMaximum)
    RowPooling<PoolKind::kMaximum>(plan, x, y, scratch).run(begin, end);
  else
    RowPooling<PoolKind::kAverage>(plan, x, y, scratch).run(begin, end);
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
    : plan_(planRows(pool, kind, countPadding, kBlock)) {
  tasks_ = static_cast<int>(
      taskCount(pool.n * pool.channels * pool.outputPixels() * pool.taps(), int64_t{1} << 15, plan_.units));
}

void RowPool::run(const float *x, float *y, void *scratch, int task) const noexcept {
  HWY_DYNAMIC_DISPATCH(poolRows)(plan_, x, y, scratch, plan_.units * task / tasks_, plan_.units * (task + 1) / tasks_);
}

}  // namespace popart::cpu
#endif
