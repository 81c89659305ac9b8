// Zero-filled host values: large ones are pages without memory until something writes them; copies stay apart.
#include <gtest/gtest.h>

#include <algorithm>

#include <popart/tensordata.hpp>

namespace popart {
namespace {

bool allZero(const TensorData &data) {
  const auto *bytes = static_cast<const char *>(data.data());
  return std::all_of(bytes, bytes + data.nbytes(), [](char c) { return c == 0; });
}

TEST(TensorData, zero_filled_values_are_zero_whatever_their_size) {
  for (const int64_t elements : {0, 1, 1000, 100000, 3000001}) {
    const TensorData data(TensorInfo(DataType::FLOAT, {elements}));
    EXPECT_NE(data.data(), nullptr);
    EXPECT_TRUE(allZero(data)) << elements;
  }
}

TEST(TensorData, large_zeros_take_no_memory_until_written) {
  TensorData data(TensorInfo(DataType::FLOAT, {1 << 20}));
  EXPECT_TRUE(data.isUntouchedZeros());
  const TensorData copy = data;
  static_cast<float *>(data.mutableData())[7] = 1.0f;
  EXPECT_FALSE(data.isUntouchedZeros());
  EXPECT_TRUE(copy.isUntouchedZeros());
  EXPECT_TRUE(allZero(copy));
  EXPECT_EQ(static_cast<const float *>(data.data())[7], 1.0f);
}

TEST(TensorData, small_zeros_and_given_values_take_memory) {
  EXPECT_FALSE(TensorData(TensorInfo(DataType::FLOAT, {4})).isUntouchedZeros());
  const std::vector<float> values(1 << 20, 0.0f);
  EXPECT_FALSE(TensorData(TensorInfo(DataType::FLOAT, {1 << 20}), values.data()).isUntouchedZeros());
}

}  // namespace
}  // namespace popart
