// Results that are written past the caches: copies of any length and alignment, and operators on tensors that no cache
// holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "../support/random_floats.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/stream_copy.hpp"
#include "support/run_op.hpp"

namespace popart {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

TEST(StreamCopy, writes_its_bytes_and_no_others) {
  constexpr int64_t kMost = 300, kAround = 80;
  std::vector<char> from(kMost + kAround), expected, to;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + 1);
  for (int64_t offset = 0; offset < 70; ++offset)
    for (const int64_t bytes : {0, 1, 3, 63, 64, 65, 127, 200, 300})
      for (const int64_t start : {int64_t{0}, int64_t{5}, offset}) {
        to.assign(kMost + 2 * kAround, 'x');
        expected = to;
        std::memcpy(expected.data() + offset, from.data() + start, static_cast<size_t>(bytes));
        cpu::streamBytes(to.data() + offset, from.data() + start, bytes);
        cpu::flushStreams();
        ASSERT_EQ(to, expected) << bytes << " bytes to " << offset;
      }
}

// Rows and columns of a matrix of floats that fills the last cache; odd, so that rows begin anywhere. Takes five times
// the memory of that cache.
class LargerThanCaches : public testing::Test {
 protected:
  void SetUp() override {
    rows_ = cpu::lastLevelCacheBytes() / 4 / kColumns + 1;
    x_ = test::randomFloats(rows_ * kColumns, 3);
    ASSERT_TRUE(cpu::exceedsCaches(bytes(), bytes() / 2));
  }
  int64_t bytes() const { return static_cast<int64_t>(x_.size() * sizeof(float)); }
  TensorData matrix() const { return TensorData::of<float>({rows_, kColumns}, x_); }
  // Element (row, column) of the result is f of those.
  template <class F>
  void expectResult(const SingleOp &op, int64_t rows, int64_t columns, F &&f) const {
    for (const int threads : {1, 3}) {
      const TensorData got = runOp(op, {OpBackend::Best, OpOperands::Plain, threads, 1})[0];
      ASSERT_EQ(got.info().shape(), (Shape{rows, columns}));
      const auto *y = static_cast<const float *>(got.data());
      int64_t wrong = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) wrong += y[r * columns + c] != f(r, c);
      EXPECT_EQ(wrong, 0) << op.type << ", " << threads << " threads";
    }
  }
  float x(int64_t row, int64_t column) const { return x_[static_cast<size_t>(row * kColumns + column)]; }

  static constexpr int64_t kColumns = 1001;
  int64_t rows_ = 0;
  Floats x_;
};

TEST_F(LargerThanCaches, slices_and_concatenations) {
  expectResult({"Slice",
                {{"axes", Ints{0, 1}}, {"starts", Ints{1, 0}}, {"ends", Ints{rows_, kColumns}}, {"steps", Ints{1, 2}}},
                {matrix()},
                1},
               rows_ - 1, (kColumns + 1) / 2, [&](int64_t r, int64_t c) { return x(r + 1, 2 * c); });
  expectResult({"Concat", {{"axis", int64_t{1}}}, {matrix(), matrix()}, 1}, rows_, 2 * kColumns,
               [&](int64_t r, int64_t c) { return x(r, c % kColumns); });
}

}  // namespace
}  // namespace popart
