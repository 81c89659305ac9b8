// See halves.hpp. Compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/halves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on
#include <algorithm>

#include "backends/cpu/kernels/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using lanes::AllLanes;
using lanes::Bfloat16;
using lanes::FirstLanes;
using lanes::Float16;

// Calls move(lanes, i) for every vector of `count` elements.
template <class Move>
HWY_INLINE void forVectors(int64_t count, Move &&move) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(lanes::D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) move(AllLanes(), i);
  if (i < count) move(FirstLanes(count - i), i);
}

template <class Type>
HWY_INLINE void widenAll(const uint16_t *from, int64_t count, float *to) {
  forVectors(count, [&](auto some, int64_t i) { some.store(Type::load(some, from + i), to + i); });
}

void widenAs(DataType type, const uint16_t *from, int64_t count, float *to) {
  type == DataType::FLOAT16 ? widenAll<Float16>(from, count, to) : widenAll<Bfloat16>(from, count, to);
}

template <class Type>
void narrowAll(const float *from, int64_t count, uint16_t *to) {
  forVectors(count, [&](auto some, int64_t i) { Type::store(some, some.load(from + i), to + i); });
}
void narrowAs(DataType type, const float *from, int64_t count, uint16_t *to) {
  type == DataType::FLOAT16 ? narrowAll<Float16>(from, count, to) : narrowAll<Bfloat16>(from, count, to);
}

template <class Type>
void roundAll(const float *from, int64_t count, float *to) {
  forVectors(count, [&](auto some, int64_t i) { some.store(Type::round(some.load(from + i)), to + i); });
}
void roundAs(DataType type, const float *from, int64_t count, float *to) {
  type == DataType::FLOAT16 ? roundAll<Float16>(from, count, to) : roundAll<Bfloat16>(from, count, to);
}

// Widens rows of `cols` contiguous numbers.
template <class Type>
void widenMatrix(const uint16_t *from, ptrdiff_t rowStride, int64_t rows, int64_t cols, ptrdiff_t width, float *to) {
  for (int64_t r = 0; r < rows; ++r) widenAll<Type>(from + r * rowStride, cols, to + r * width);
}
void widenMatrixAs(DataType type, const uint16_t *from, ptrdiff_t rowStride, int64_t rows, int64_t cols,
                   ptrdiff_t width, float *to) {
  type == DataType::FLOAT16 ? widenMatrix<Float16>(from, rowStride, rows, cols, width, to)
                            : widenMatrix<Bfloat16>(from, rowStride, rows, cols, width, to);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(widenAs);
HWY_EXPORT(narrowAs);
HWY_EXPORT(roundAs);
HWY_EXPORT(widenMatrixAs);

void widen(DataType type, const uint16_t *from, int64_t count, float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(widenAs)(type, from, count, to);
}
void narrow(DataType type, const float *from, int64_t count, uint16_t *to) noexcept {
  HWY_DYNAMIC_DISPATCH(narrowAs)(type, from, count, to);
}
void roundTo(DataType type, const float *from, int64_t count, float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(roundAs)(type, from, count, to);
}

void widenRows(DataType type, const uint16_t *a, ptrdiff_t rowStride, int64_t k, int count, ptrdiff_t toStride,
               float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(widenMatrixAs)(type, a, rowStride, count, k, toStride, to);
}

void widenPanel(DataType type, const uint16_t *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols,
                int width, float *panel) noexcept {
  if (colStride == 1) {
    if (rowStride == cols && cols == width) return widen(type, b, k * cols, panel);
    HWY_DYNAMIC_DISPATCH(widenMatrixAs)(type, b, rowStride, k, cols, width, panel);
  } else if (rowStride == 1) {  // columns are contiguous: widens a few rows at a time, then transposes them
    constexpr int64_t kRows = 64, kColumns = 32;
    alignas(64) float block[kColumns * kRows];
    for (int64_t row = 0; row < k; row += kRows)
      for (int first = 0; first < cols; first += kColumns) {
        const int64_t rows = std::min(kRows, k - row), columns = std::min<int64_t>(kColumns, cols - first);
        widenRows(type, b + first * colStride + row, colStride, rows, static_cast<int>(columns), kRows, block);
        transpose(block, kRows, panel + row * width + first, width, columns, rows);
      }
  } else {
    for (int64_t row = 0; row < k; ++row)
      for (int n = 0; n < cols; ++n) widen(type, b + row * rowStride + n * colStride, 1, panel + row * width + n);
  }
  for (int64_t row = 0; row < k && cols < width; ++row)
    std::fill(panel + row * width + cols, panel + (row + 1) * width, 0.0f);
}

}  // namespace popart::cpu
#endif
