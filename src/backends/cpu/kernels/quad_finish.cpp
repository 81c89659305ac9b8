// The last operations of integer products, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quad_finish.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/quad_finish.hpp"
// clang-format on
#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace finish {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<int32_t, 16>;
using DF = hn::RebindToFloat<D32>;
using V32 = hn::Vec<D32>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D32()));

// Operands for one vector of columns.
struct Columns {
  V32 bias;
  hn::Vec<DF> scale;
};

template <class T>
HWY_INLINE T one(const T *from, bool isEach, int64_t column, T none) {
  return from ? from[isEach ? column : 0] : none;
}

HWY_INLINE Columns columnsAt(const QuadFinish &f, int64_t column, int64_t count) {
  HWY_ALIGN int32_t bias[kLanes] = {};
  HWY_ALIGN float scale[kLanes] = {};
  for (int64_t c = 0; c < count; ++c) {
    bias[c] = one(f.bias, f.biasIsEach, column + c, int32_t{0});
    scale[c] = one(f.scale, f.scaleIsEach, column + c, 1.0f);
  }
  return {hn::Load(D32(), bias), hn::Load(DF(), scale)};
}

template <QuadResult kResult>
struct Element {
  using Type = int8_t;
  static constexpr float kLeast = -128;
};
template <>
struct Element<QuadResult::kUint8> {
  using Type = uint8_t;
  static constexpr float kLeast = 0;
};
template <>
struct Element<QuadResult::kFloat> {
  using Type = float;
};
template <>
struct Element<QuadResult::kInt32> {
  using Type = int32_t;
};

template <QuadResult kResult>
HWY_INLINE auto finished(V32 sum, const Columns &columns, float zero) {
  const DF d;
  sum = hn::Add(sum, columns.bias);
  if constexpr (kResult == QuadResult::kInt32) {
    return sum;
  } else {
    auto v = hn::Mul(hn::ConvertTo(d, sum), columns.scale);
    if constexpr (kResult == QuadResult::kFloat) {
      return v;
    } else {
      const auto least = hn::Set(d, Element<kResult>::kLeast);
      v = hn::Add(hn::Round(v), hn::Set(d, zero));
      v = hn::IfThenElse(hn::Gt(v, least), v, least);  // NaN becomes `least` as well
      v = hn::Min(v, hn::Set(d, Element<kResult>::kLeast + 255));
      const hn::Rebind<typename Element<kResult>::Type, D32> narrow;
      return hn::DemoteTo(narrow, hn::ConvertTo(D32(), v));
    }
  }
}

template <QuadResult kResult>
void finishAs(const QuadFinish &f, const int32_t *sums, ptrdiff_t sumStride, int64_t rows, int64_t columns, void *to,
              ptrdiff_t outStride) {
  using T = typename Element<kResult>::Type;
  const hn::Rebind<T, D32> d;
  auto *out = static_cast<T *>(to);
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t count = std::min(kLanes, columns - c);
    const Columns at = columnsAt(f, c, count);
    for (int64_t r = 0; r < rows; ++r) {
      const auto v = finished<kResult>(hn::LoadU(D32(), sums + r * sumStride + c), at, f.zero);
      if (count == kLanes) {
        hn::StoreU(v, d, out + r * outStride + c);
        continue;
      }
      HWY_ALIGN T some[kLanes];
      hn::Store(v, d, some);
      std::copy_n(some, count, out + r * outStride + c);
    }
  }
}

}  // namespace finish

void finishQuads(const QuadFinish &f, const int32_t *sums, ptrdiff_t sumStride, int64_t rows, int64_t columns,
                 void *out, ptrdiff_t outStride) {
  switch (f.result) {
    case QuadResult::kInt32:
      return finish::finishAs<QuadResult::kInt32>(f, sums, sumStride, rows, columns, out, outStride);
    case QuadResult::kFloat:
      return finish::finishAs<QuadResult::kFloat>(f, sums, sumStride, rows, columns, out, outStride);
    case QuadResult::kUint8:
      return finish::finishAs<QuadResult::kUint8>(f, sums, sumStride, rows, columns, out, outStride);
    case QuadResult::kInt8:
      return finish::finishAs<QuadResult::kInt8>(f, sums, sumStride, rows, columns, out, outStride);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {

HWY_EXPORT(finishQuads);

void finishSums(const QuadFinish &finish, const int32_t *sums, ptrdiff_t sumStride, int64_t rows, int64_t columns,
                void *out, ptrdiff_t outStride) noexcept {
  HWY_DYNAMIC_DISPATCH(finishQuads)(finish, sums, sumStride, rows, columns, out, outStride);
}

}  // namespace popart::cpu
#endif
