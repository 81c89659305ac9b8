// Combines axis by axis: the rows of a bin are combined into one row of `work`, vector by vector. `work` interleaves
// the rows of several rows of bins, whose columns are then combined together.
//
//   plane (H, W)  ──rows──▶  work (columns, kTogether)  ──columns──▶  y (kTogether, bins)
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
constexpr int64_t kTogether = 4;  // rows of bins that are interleaved in `work`
using D4 = hn::CappedTag<float, static_cast<size_t>(kTogether)>;
using V4 = hn::Vec<D4>;

// In whole vectors of columns.
int64_t workLength(int64_t length) { return kTogether * ((length + kLanes - 1) / kLanes * kLanes); }

template <class F>
HWY_INLINE void forColumns(int64_t length, F &&f) {
  int64_t c = 0;
  for (; c + kLanes <= length; c += kLanes) f(AllLanes(), c);
  if (c < length) f(FirstLanes(length - c), c);
}

// Calls f(lanes::Float() or the class of the other type, elements) for a plane.
template <class F>
HWY_INLINE void asElements(DataType type, const void *plane, F &&f) {
  if (type == DataType::FLOAT)
    f(lanes::Float(), static_cast<const float *>(plane));
  else if (type == DataType::FLOAT16)
    f(lanes::Float16(), static_cast<const uint16_t *>(plane));
  else
    f(lanes::Bfloat16(), static_cast<const uint16_t *>(plane));
}

// Stores y[r * step] for the first `count` rows of bins.
HWY_INLINE void storeRows(V4 v, int64_t count, int64_t step, float *y) {
  HWY_ALIGN float rows[kTogether];
  hn::Store(v, D4(), rows);
  for (int64_t r = 0; r < count; ++r) y[r * step] = rows[r];
}

// ---- sums

// Rows [bin, bin + count) of bins.
template <class T>
void sumRows(const typename T::Stored *x, int64_t width, const BinTaps &rows, int64_t bin, int64_t count,
             int64_t length, float *work) {
  forColumns(length, [&](auto lanes, int64_t c) {
    V sums[kTogether] = {hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
    for (int64_t r = 0; r < count; ++r) {
      V sum = hn::Zero(D());
      for (int32_t t = rows.begin[bin + r]; t < rows.begin[bin + r + 1]; ++t)
        sum = hn::MulAdd(hn::Set(D(), rows.weight[t]), T::load(lanes, x + rows.index[t] * width + c), sum);
      sums[r] = sum;
    }
    hn::StoreInterleaved4(sums[0], sums[1], sums[2], sums[3], D(), work + kTogether * c);
  });
}

void sumColumns(const BinTaps &columns, const float *work, int64_t count, float *y) {
  for (int64_t j = 0; j < columns.bins; ++j) {
    V4 sum = hn::Zero(D4());
    for (int32_t t = columns.begin[j]; t < columns.begin[j + 1]; ++t)
      sum = hn::MulAdd(hn::Set(D4(), columns.weight[t]),
                       hn::Load(D4(), work + kTogether * (columns.index[t] - columns.low)), sum);
    storeRows(sum, count, columns.bins, y + j);
  }
}

void sumBinsOf(DataType type, const void *plane, const BinsOfBox<BinTaps> &box, float *work, float *y) {
  const int64_t length = box.columns.high - box.columns.low;
  asElements(type, plane, [&]<class T>(T, const typename T::Stored *x) {
    for (int64_t i = 0; i < box.rows.bins; i += kTogether) {
      const int64_t count = std::min(kTogether, box.rows.bins - i);
      sumRows<T>(x + box.columns.low, box.width, box.rows, i, count, length, work);
      sumColumns(box.columns, work, count, y + i * box.columns.bins);
    }
  });
}

void spreadBinsOf(const float *g, const BinsOfBox<BinTaps> &box, float *work, float *plane) {
  const BinTaps &rows = box.rows, &columns = box.columns;
  const int64_t length = columns.high - columns.low;
  for (int64_t i = 0; i < rows.bins; i += kTogether) {
    const int64_t count = std::min(kTogether, rows.bins - i);
    std::fill_n(work, workLength(length), 0.0f);
    for (int64_t j = 0; j < columns.bins; ++j) {
      HWY_ALIGN float ofRows[kTogether] = {};
      for (int64_t r = 0; r < count; ++r) ofRows[r] = g[(i + r) * columns.bins + j];
      const V4 gradients = hn::Load(D4(), ofRows);
      for (int32_t t = columns.begin[j]; t < columns.begin[j + 1]; ++t) {
        float *to = work + kTogether * (columns.index[t] - columns.low);
        hn::Store(hn::MulAdd(hn::Set(D4(), columns.weight[t]), gradients, hn::Load(D4(), to)), D4(), to);
      }
    }
    forColumns(length, [&](auto lanes, int64_t c) {
      V v[kTogether];
      hn::LoadInterleaved4(D(), work + kTogether * c, v[0], v[1], v[2], v[3]);
      for (int64_t r = 0; r < count; ++r)
        for (int32_t t = rows.begin[i + r]; t < rows.begin[i + r + 1]; ++t) {
          float *to = plane + rows.index[t] * box.width + columns.low + c;
          lanes.store(hn::MulAdd(hn::Set(D(), rows.weight[t]), v[r], lanes.load(to)), to);
        }
    });
  }
}

// ---- maxima

// Rows [bin, bin + count) of bins; empty ones are 0. Bit r of the result: row r has a NaN, and its maxima are invalid.
template <class T>
unsigned maximaOfRows(const typename T::Stored *x, int64_t width, const BinRanges &rows, int64_t bin, int64_t count,
                      int64_t length, float *work) {
  unsigned found = 0;
  forColumns(length, [&](auto lanes, int64_t c) {
    V best[kTogether] = {hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
    for (int64_t r = 0; r < count; ++r) {
      const int64_t begin = rows.begin[bin + r], end = rows.end[bin + r];
      if (begin >= end) continue;
      V largest = T::load(lanes, x + begin * width + c);
      auto nans = hn::IsNaN(largest);
      for (int64_t row = begin + 1; row < end; ++row) {
        const V v = T::load(lanes, x + row * width + c);
        nans = hn::Or(nans, hn::IsNaN(v));
        largest = hn::Max(largest, v);
      }
      best[r] = largest;
      if (!hn::AllFalse(D(), nans)) found |= 1u << r;
    }
    hn::StoreInterleaved4(best[0], best[1], best[2], best[3], D(), work + kTogether * c);
  });
  return found;
}

void maximaOfColumns(const BinRanges &columns, const float *work, int64_t count, float *y) {
  for (int64_t j = 0; j < columns.bins; ++j) {
    const bool isEmpty = columns.begin[j] >= columns.end[j];
    V4 best = hn::Set(D4(), isEmpty ? 0.0f : -std::numeric_limits<float>::infinity());
    for (int64_t c = columns.begin[j]; c < columns.end[j]; ++c)
      best = hn::Max(best, hn::Load(D4(), work + kTogether * (c - columns.low)));
    storeRows(best, count, columns.bins, y + j);
  }
}

// One row of bins that may have a NaN.
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
  const int64_t length = box.columns.high - box.columns.low;
  asElements(type, plane, [&]<class T>(T, const typename T::Stored *x) {
    for (int64_t i = 0; i < rows.bins; i += kTogether) {
      const int64_t count = std::min(kTogether, rows.bins - i);
      const unsigned nans = maximaOfRows<T>(x + box.columns.low, box.width, rows, i, count, length, work);
      maximaOfColumns(box.columns, work, count, y + i * box.columns.bins);
      for (int64_t r = 0; nans >> r != 0; ++r)
        if ((nans >> r & 1) != 0) maximaWithNan<T>(x, box, i + r, y + (i + r) * box.columns.bins);
    }
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(workLength);
HWY_EXPORT(sumBinsOf);
HWY_EXPORT(spreadBinsOf);
HWY_EXPORT(maximaOfBinsOf);

int64_t workOfBins(int64_t width) { return HWY_DYNAMIC_DISPATCH(workLength)(width); }

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
