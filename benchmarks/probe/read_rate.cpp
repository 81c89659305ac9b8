#include "read_rate.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "read_rate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float sum(const float *data, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t n = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a, f = a, g = a, h = a, k = a;
  for (size_t i = 0; i < count; i += 8 * n) {
    const float *p = data + i;
    a = hn::Add(a, hn::Load(d, p));
    b = hn::Add(b, hn::Load(d, p + n));
    c = hn::Add(c, hn::Load(d, p + 2 * n));
    e = hn::Add(e, hn::Load(d, p + 3 * n));
    f = hn::Add(f, hn::Load(d, p + 4 * n));
    g = hn::Add(g, hn::Load(d, p + 5 * n));
    h = hn::Add(h, hn::Load(d, p + 6 * n));
    k = hn::Add(k, hn::Load(d, p + 7 * n));
  }
  const auto all = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, k)));
  return hn::GetLane(hn::SumOfLanes(d, all));
}

}  // namespace HWY_NAMESPACE
}  // namespace popart::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::bench {

HWY_EXPORT(sum);

float sumOf(const float *data, size_t count) { return HWY_DYNAMIC_DISPATCH(sum)(data, count); }

}  // namespace popart::bench
#endif
