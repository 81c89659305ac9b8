// Transposition moves every element of odd-sized and strided matrices and touches nothing else.
#include "backends/cpu/kernels/transpose.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cpu/kernels/pick_strided.hpp"

namespace popart::cpu {
namespace {

// Different bytes at all places that a short distance separates.
std::vector<char> bytes(int64_t count) {
  std::vector<char> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * 7 + i / 251);
  return all;
}

struct Gaps {
  int64_t x, y;  // bytes behind each row
};

void check(int64_t element, int64_t rows, int64_t cols, const Gaps &gaps, Prefetch prefetch) {
  const int64_t xStride = cols * element + gaps.x, yStride = rows * element + gaps.y;
  // Just the elements: what is behind the last row belongs to others, as the sanitizers see.
  const std::vector<char> x = bytes(rows == 0 ? 0 : (rows - 1) * xStride + cols * element);
  std::vector<char> y(static_cast<size_t>(cols == 0 ? 0 : (cols - 1) * yStride + rows * element), '#');
  transpose(element, {x.data(), xStride, rows, cols}, {y.data(), yStride}, prefetch);
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    const int64_t c = i / yStride, r = i % yStride / element, byte = i % yStride % element;
    const char expected = r < rows ? x[static_cast<size_t>(r * xStride + c * element + byte)] : '#';
    ASSERT_EQ(y[static_cast<size_t>(i)], expected) << element << " bytes, " << rows << "x" << cols << " gaps " << gaps.x
                                                   << "," << gaps.y << " at " << r << "," << c;
  }
}

TEST(Transpose, moves_every_element_and_leaves_gaps_alone) {
  for (int64_t element : {1, 2, 4, 8, 16})
    for (int64_t rows : {0, 1, 2, 3, 4, 7, 9, 16, 33, 64, 130})
      for (int64_t cols : {0, 1, 2, 3, 4, 6, 15, 17, 67, 129, 300})
        for (const Gaps &gaps : {Gaps{0, 0}, Gaps{8, 12}, Gaps{1, 0}, Gaps{0, 3}})
          for (Prefetch prefetch : {Prefetch::kNone, Prefetch::kNext}) check(element, rows, cols, gaps, prefetch);
}

TEST(Transpose, of_floats) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(7, -1.0f);
  transpose(x.data(), 3, y.data(), 2, 2, 3);
  EXPECT_EQ(y, (std::vector<float>{1, 4, 2, 5, 3, 6, -1}));
}

TEST(Transpose, picks_elements_at_equal_distances) {
  for (int64_t element : {1, 2, 4, 8, 16})
    for (int64_t count : {0, 1, 5, 16, 17, 33, 100})
      for (int64_t distance : {-3, 0, 1, 2, 3, 4, 5}) {
        const int64_t reach = std::abs(distance) * std::max<int64_t>(0, count - 1) + 1;
        const std::vector<char> x = bytes(reach * element);
        const int64_t start = distance < 0 ? reach - 1 : 0;
        std::vector<char> y(static_cast<size_t>(count * element), '#');
        pickStrided(element, x.data() + start * element, distance * element, count, y.data());
        for (int64_t i = 0; i < count * element; ++i)
          ASSERT_EQ(y[static_cast<size_t>(i)],
                    x[static_cast<size_t>((start + i / element * distance) * element + i % element)])
              << element << " bytes, distance " << distance << " at " << i;
      }
}

}  // namespace
}  // namespace popart::cpu
