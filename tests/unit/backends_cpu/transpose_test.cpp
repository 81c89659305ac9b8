// Transposition moves every element of odd-sized and strided matrices and touches nothing else.
#include "backends/cpu/kernels/transpose.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace popart::cpu {
namespace {

TEST(Transpose, moves_every_element_and_leaves_gaps_alone) {
  for (int64_t rows : {0, 1, 3, 4, 9, 64, 130}) {
    for (int64_t cols : {0, 1, 4, 6, 67, 129}) {
      const int64_t xStride = cols + 2, yStride = rows + 3;
      std::vector<float> x(static_cast<size_t>(rows * xStride + 1)), y(static_cast<size_t>(cols * yStride + 1), -1.0f);
      std::iota(x.begin(), x.end(), 0.0f);
      transpose(x.data(), xStride, y.data(), yStride, rows, cols);
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r < yStride; ++r) {
          const float expected = r < rows ? x[static_cast<size_t>(r * xStride + c)] : -1.0f;
          ASSERT_EQ(y[static_cast<size_t>(c * yStride + r)], expected)
              << rows << "x" << cols << " at " << r << "," << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace popart::cpu
