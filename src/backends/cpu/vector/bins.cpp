// Axis by axis: the rows of a bin become one row, vector by vector, in `work`; then its columns are added for several
// rows of bins at once, whose sums do not wait for each other.
//
//   plane (H, W)  ──rows──▶  work (kTogether, columns of the box)  ──columns──▶  y (kTogether, bins)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/bins.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/bins.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
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
constexpr int64_t kTogether = 8;  // rows of bins

// Distance of the rows of `work`: a cache line more than they are long, lest they compete for places in caches.
HWY_INLINE int64_t workStride(int64_t length) { return (length + 15) / 16 * 16 + 16; }
int64_t workOf(int64_t width) { return kTogether * workStride(width); }

template <class F>
HWY_INLINE void forColumns(int64_t length, F &&f) {
  int64_t c = 0;
  for (; c + kLanes <= length; c += kLanes) f(AllLanes(), c);
  if (c < length) f(FirstLanes(length - c), c);
}

// f(lanes::Float() or its like, elements) of a plane.
template <class F>
HWY_INLINE void asElements(DataType type, const void *plane, F &&f) {
  if (type == DataType::FLOAT)
    f(lanes::Float(), static_cast<const float *>(plane));
  else if (type == DataType::FLOAT16)
    f(lanes::Float16(), static_cast<const uint16_t *>(plane));
  else
    f(lanes::Bfloat16(), static_cast<const uint16_t *>(plane));
}

// ---- sums

template <class T>
void sumRows(const typename T::Stored *x, int64_t width, const BinTaps &rows, int64_t bin, int64_t length, float *y) {
  forColumns(length, [&](auto lanes, int64_t c) {
    V sum = hn::Zero(D());
    for (int32_t t = rows.begin[bin]; t < rows.begin[bin + 1]; ++t)
      sum = hn::MulAdd(hn::Set(D(), rows.weight[t]), T::load(lanes, x + rows.index[t] * width + c), sum);
    lanes.store(sum, y + c);
  });
}

void sumColumns(const BinTaps &columns, const float *work, int64_t stride, int64_t count, float *y) {
  for (int64_t j = 0; j < columns.bins; ++j) {
    float sums[kTogether] = {};
    for (int32_t t = columns.begin[j]; t < columns.begin[j + 1]; ++t) {
      const float weight = columns.weight[t], *x = work + (columns.index[t] - columns.low);
      for (int64_t r = 0; r < kTogether; ++r) sums[r] += weight * x[r * stride];
    }
    for (int64_t r = 0; r < count; ++r) y[r * columns.bins + j] = sums[r];
  }
}

void sumBinsOf(DataType type, const void *plane, const BinsOfBox<BinTaps> &box, float *work, float *y) {
  const int64_t length = box.columns.high - box.columns.low, stride = workStride(length);
  asElements(type, plane, [&]<class T>(T, const typename T::Stored *x) {
    for (int64_t i = 0; i < box.rows.bins; i += kTogether) {
      const int64_t count = std::min(kTogether, box.rows.bins - i);
      for (int64_t r = 0; r < count; ++r)
        sumRows<T>(x + box.columns.low, box.width, box.rows, i + r, length, work + r * stride);
      for (int64_t r = count; r < kTogether; ++r) std::fill_n(work + r * stride, length, 0.0f);
      sumColumns(box.columns, work, stride, count, y + i * box.columns.bins);
    }
  });
}

void spreadBinsOf(const float *g, const BinsOfBox<BinTaps> &box, float *work, float *plane) {
  const BinTaps &rows = box.rows, &columns = box.columns;
  const int64_t length = columns.high - columns.low, stride = workStride(length);
  for (int64_t i = 0; i < rows.bins; i += kTogether) {
    const int64_t count = std::min(kTogether, rows.bins - i);
    for (int64_t r = 0; r < count; ++r) std::fill_n(work + r * stride, length, 0.0f);
    for (int64_t j = 0; j < columns.bins; ++j)
      for (int32_t t = columns.begin[j]; t < columns.begin[j + 1]; ++t)
        for (int64_t r = 0; r < count; ++r)
          work[r * stride + columns.index[t] - columns.low] += columns.weight[t] * g[(i + r) * columns.bins + j];
    for (int64_t r = 0; r < count; ++r)
      for (int32_t t = rows.begin[i + r]; t < rows.begin[i + r + 1]; ++t) {
        float *to = plane + rows.index[t] * box.width + columns.low;
        const float *from = work + r * stride;
        forColumns(length, [&](auto lanes, int64_t c) {
          lanes.store(hn::MulAdd(hn::Set(D(), rows.weight[t]), lanes.load(from + c), lanes.load(to + c)), to + c);
        });
      }
  }
}

// ---- maxima

// The maxima of rows [begin, end), one at least, and whether a NaN is among them, of which they then show nothing.
template <class T>
bool maximaOfRows(const typename T::Stored *x, int64_t width, int64_t begin, int64_t end, int64_t length, float *y) {
  bool hasNan = false;
  forColumns(length, [&](auto lanes, int64_t c) {
    V best = T::load(lanes, x + begin * width + c);
    auto nans = hn::IsNaN(best);
    for (int64_t row = begin + 1; row < end; ++row) {
      const V v = T::load(lanes, x + row * width + c);
      nans = hn::Or(nans, hn::IsNaN(v));
      best = hn::Max(best, v);
    }
    lanes.store(best, y + c);
    hasNan |= !hn::AllFalse(D(), nans);
  });
  return hasNan;
}

void maximaOfColumns(const BinRanges &columns, const float *work, int64_t stride, int64_t count, float *y) {
  for (int64_t j = 0; j < columns.bins; ++j) {
    float best[kTogether];
    const bool isEmpty = columns.begin[j] >= columns.end[j];
    std::fill_n(best, kTogether, isEmpty ? 0.0f : -std::numeric_limits<float>::infinity());
    for (int64_t c = columns.begin[j]; c < columns.end[j]; ++c) {
      const float *x = work + (c - columns.low);
      for (int64_t r = 0; r < kTogether; ++r) best[r] = x[r * stride] > best[r] ? x[r * stride] : best[r];
    }
    for (int64_t r = 0; r < count; ++r) y[r * columns.bins + j] = best[r];
  }
}

// One row of bins in which a NaN may be.
template <class T>
void maximaWithNan(const typename T::Stored *x, const BinsOfBox<BinRanges> &box, int64_t i, float *y) {
  for (int64_t j = 0; j < box.columns.bins; ++j) {
    float best = 0;
    bool isFirst = true;
    for (int64_t row = box.rows.begin[i]; row < box.rows.end[i]; ++row)
      for (int64_t c = box.columns.begin[j]; c < box.columns.end[j]; ++c, isFirst = false) {
        const float v = numberAt(x, row * box.width + c, T::kType);
        if (isFirst || v > best || v != v) best = v;
      }
    y[j] = best;
  }
}

void maximaOfBinsOf(DataType type, const void *plane, const BinsOfBox<BinRanges> &box, float *work, float *y) {
  const BinRanges &rows = box.rows;
  const int64_t length = std::max<int64_t>(0, box.columns.high - box.columns.low), stride = workStride(length);
  asElements(type, plane, [&]<class T>(T, const typename T::Stored *x) {
    for (int64_t i = 0; i < rows.bins; i += kTogether) {
      const int64_t count = std::min(kTogether, rows.bins - i);
      unsigned nans = 0;
      for (int64_t r = 0; r < kTogether; ++r) {
        float *to = work + r * stride;
        if (r >= count || rows.begin[i + r] >= rows.end[i + r])
          std::fill_n(to, length, 0.0f);
        else if (maximaOfRows<T>(x + box.columns.low, box.width, rows.begin[i + r], rows.end[i + r], length, to))
          nans |= 1u << r;
      }
      maximaOfColumns(box.columns, work, stride, count, y + i * box.columns.bins);
      for (int64_t r = 0; nans >> r != 0; ++r)
        if ((nans >> r & 1) != 0) maximaWithNan<T>(x, box, i + r, y + (i + r) * box.columns.bins);
    }
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(workOf);
HWY_EXPORT(sumBinsOf);
HWY_EXPORT(spreadBinsOf);
HWY_EXPORT(maximaOfBinsOf);

int64_t workOfBins(int64_t width) { return HWY_DYNAMIC_DISPATCH(workOf)(width); }

void sumBins(DataType type, const void *plane, const BinsOfBox<BinTaps> &box, float *work, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(sumBinsOf)(type, plane, box, work, y);
}
void spreadBins(const float *g, const BinsOfBox<BinTaps> &box, float *work, float *plane) noexcept {
  HWY_DYNAMIC_DISPATCH(spreadBinsOf)(g, box, work, plane);
}
void maximaOfBins(DataType type, const void *plane, const BinsOfBox<BinRanges> &box, float *work, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(maximaOfBinsOf)(type, plane, box, work, y);
}
}  // namespace popart::cpu
#endif
