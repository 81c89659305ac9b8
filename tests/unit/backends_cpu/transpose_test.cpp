// Transposition moves every element of odd-sized and strided matrices and touches nothing else.
#include "backends/cpu/kernels/transpose.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace popart::cpu {
namespace {

// Element `i` of the source is number(i); what is not written stays `untouched`.
template <class T, class Number>
void expectTransposed(T untouched, Number &&number) {
  for (int64_t rows : {0, 1, 3, 4, 9, 16, 17, 64, 130}) {
    for (int64_t cols : {0, 1, 4, 6, 16, 31, 67, 129}) {
      const int64_t xStride = cols + 2, yStride = rows + 3;
      std::vector<T> x(static_cast<size_t>(rows * xStride + 1)), y(static_cast<size_t>(cols * yStride + 1), untouched);
      for (size_t i = 0; i < x.size(); ++i) x[i] = number(i);
      transpose(x.data(), xStride, y.data(), yStride, rows, cols);
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r < yStride; ++r) {
          const T expected = r < rows ? x[static_cast<size_t>(r * xStride + c)] : untouched;
          ASSERT_EQ(y[static_cast<size_t>(c * yStride + r)], expected)
              << rows << "x" << cols << " at " << r << "," << c;
        }
      }
    }
  }
}

TEST(Transpose, moves_every_element_and_leaves_gaps_alone) {
  expectTransposed(-1.0f, [](size_t i) { return static_cast<float>(i); });
  expectTransposed(uint8_t{255}, [](size_t i) { return static_cast<uint8_t>(i * 7 % 251); });
}

}  // namespace
}  // namespace popart::cpu
