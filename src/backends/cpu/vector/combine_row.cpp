// Rows combined element by element, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/combine_row.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/combine_row.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

template <class F>
HWY_INLINE void combineWith(const float *from, int64_t count, float *to, F &&f) {
  const auto at = [&](auto lanes, int64_t i) { lanes.store(f(lanes.load(to + i), lanes.load(from + i)), to + i); };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) at(lanes::AllLanes(), i);
  if (i < count) at(lanes::FirstLanes(count - i), i);
}

void combineNumbers(RowCombine how, const float *from, int64_t count, float *to) {
  switch (how) {
    case RowCombine::kAdd:
      return combineWith(from, count, to, [](V old, V update) HWY_ATTR { return hn::Add(old, update); });
    case RowCombine::kMultiply:
      return combineWith(from, count, to, [](V old, V update) HWY_ATTR { return hn::Mul(old, update); });
    case RowCombine::kMax:
      return combineWith(from, count, to, [](V old, V update) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::IsNaN(old), hn::Gt(old, update)), old, update);
      });
    case RowCombine::kMin:
      return combineWith(from, count, to, [](V old, V update) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::IsNaN(old), hn::Lt(old, update)), old, update);
      });
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(combineNumbers);

void combineRow(RowCombine how, const float *from, int64_t count, float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(combineNumbers)(how, from, count, to);
}

}  // namespace popart::cpu
#endif
