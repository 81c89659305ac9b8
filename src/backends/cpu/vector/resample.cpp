// Weighted sums of rows and of gathered elements, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/resample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/resample.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

void sumOfRowsOf(const float *x, const RowTaps &taps, int64_t length, float *y) {
  const D d;
  auto sum = [&](auto lanes, int64_t i) {
    V total = hn::Set(d, taps.offset);
    for (size_t t = 0; t < taps.index.size(); ++t)
      total = hn::MulAdd(hn::Set(d, taps.weight[t]), lanes.load(x + taps.index[t] * length + i), total);
    lanes.store(total, y + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) sum(lanes::AllLanes(), i);
  if (i < length) sum(lanes::FirstLanes(length - i), i);
}

// Calls f(first result of a whole vector, reader of x there) for whole vectors, then g(result) for each remaining
// result.
template <class T, class F, class G>
HWY_INLINE void forElements(const T *x, const ElementTaps &taps, F &&f, G &&g) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  int64_t o = 0;
  for (; o + kLanes <= taps.rows; o += kLanes) {
    const int32_t base = taps.window[o / kLanes];
    if (base >= 0) {
      const auto window = hn::LoadU(d, x + base);
      const auto first = hn::Set(di, base);
      f(o, [&](const int32_t *index) {
        return hn::TableLookupLanes(window, hn::IndicesFromVec(d, hn::Sub(hn::LoadU(di, index), first)));
      });
    } else {
      f(o, [&](const int32_t *index) { return hn::GatherIndex(d, x, hn::LoadU(di, index)); });
    }
  }
  for (; o < taps.rows; ++o) g(o);
}

void sumOfElementsOf(const float *x, const ElementTaps &taps, float *y) {
  const D d;
  const hn::CappedTag<float, 1> one;
  const int64_t end = taps.count * taps.rows;
  forElements(
      x, taps,
      [&](int64_t o, auto read) {
        V total = taps.offset ? hn::LoadU(d, taps.offset + o) : hn::Zero(d);
        for (int64_t k = o; k < end; k += taps.rows)
          total = hn::MulAdd(hn::LoadU(d, taps.weight + k), read(taps.index + k), total);
        hn::StoreU(total, d, y + o);
      },
      [&](int64_t o) {
        auto total = hn::Set(one, taps.offset ? taps.offset[o] : 0.0f);
        for (int64_t k = o; k < end; k += taps.rows)
          total = hn::MulAdd(hn::Set(one, taps.weight[k]), hn::Set(one, x[taps.index[k]]), total);
        hn::StoreU(total, one, y + o);
      });
}

void pickElementsOf(const uint32_t *x, const ElementTaps &taps, uint32_t *y) {
  forElements(
      x, taps, [&](int64_t o, auto read) { hn::StoreU(read(taps.index + o), hn::ScalableTag<uint32_t>(), y + o); },
      [&](int64_t o) { y[o] = x[taps.index[o]]; });
}

int64_t lanesOf() { return kLanes; }

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(sumOfRowsOf);
HWY_EXPORT(sumOfElementsOf);
HWY_EXPORT(pickElementsOf);
HWY_EXPORT(lanesOf);

void sumOfRows(const float *x, const RowTaps &taps, int64_t length, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(sumOfRowsOf)(x, taps, length, y);
}
void sumOfElements(const float *x, const ElementTaps &taps, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(sumOfElementsOf)(x, taps, y);
}
void pickElements(const uint32_t *x, const ElementTaps &taps, uint32_t *y) noexcept {
  HWY_DYNAMIC_DISPATCH(pickElementsOf)(x, taps, y);
}
std::vector<int32_t> windowsOf(std::span<const int32_t> index, int64_t rows, int64_t length) {
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(lanesOf)();
  std::vector<int32_t> windows;
  for (int64_t o = 0; o + lanes <= rows; o += lanes) {
    int64_t least = length, most = -1;
    for (size_t k = static_cast<size_t>(o); k < index.size(); k += static_cast<size_t>(rows))
      for (const int32_t i : index.subspan(k, static_cast<size_t>(lanes)))
        least = std::min<int64_t>(least, i), most = std::max<int64_t>(most, i);
    const int64_t base = std::min(least, length - lanes);
    windows.push_back(base >= 0 && most < base + lanes ? static_cast<int32_t>(base) : -1);
  }
  return windows;
}
}  // namespace popart::cpu
#endif
