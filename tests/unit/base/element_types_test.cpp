// Lists of element types: each type meets its own C++ type, and values convert as the contract says.
#include "base/element_types.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <popart/error.hpp>
#include <popart/tensordata.hpp>

#include "base/half_bits.hpp"

namespace popart {
namespace {

constexpr DataType kReal[] = {DataType::FLOAT, DataType::DOUBLE, DataType::FLOAT16, DataType::BFLOAT16,
                              DataType::INT8,  DataType::INT16,  DataType::INT32,   DataType::INT64,
                              DataType::UINT8, DataType::UINT16, DataType::UINT32,  DataType::UINT64,
                              DataType::BOOL};

TEST(ElementTypes, every_real_type_meets_its_own_type_once) {
  for (DataType type : kReal) {
    std::vector<DataType> met;
    EXPECT_TRUE(forElement(kRealElements, type, [&](auto zero) { met.push_back(getDataType<decltype(zero)>()); }));
    EXPECT_EQ(met, std::vector<DataType>{type});
  }
}

TEST(ElementTypes, halves_are_widened_exactly) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = static_cast<int>(half >> 10 & 31), mantissa = half & 1023;
    const float got = widenHalfBits(half);
    ASSERT_EQ(std::signbit(got), half >= 0x8000) << bits;
    if (exponent == 31) {
      ASSERT_EQ(std::isinf(got), mantissa == 0) << bits;
      ASSERT_EQ(std::bit_cast<uint32_t>(got) & 0x7fffff, static_cast<uint32_t>(mantissa) << 13) << bits;
    } else {
      const double value = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
      ASSERT_EQ(std::abs(got), value) << bits;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(halfBitsToFloat(half)), std::bit_cast<uint32_t>(got)) << bits;
  }
}

TEST(ElementTypes, types_outside_a_list_are_not_called) {
  const auto fail = [](auto) { FAIL(); };
  for (DataType type : {DataType::STRING, DataType::UNDEFINED, DataType::FLOAT8_143, DataType::COMPLEX64})
    EXPECT_FALSE(forElement(kRealElements, type, fail));
  EXPECT_FALSE(forElement(kIntegerElements, DataType::BOOL, fail));
  EXPECT_FALSE(forElement(kNumericElements, DataType::BOOL, fail));
  EXPECT_FALSE(forElement(kFloatElements, DataType::INT32, fail));
}

TEST(ElementTypes, widths_meet_the_integer_of_that_size) {
  for (int64_t bytes : {1, 2, 4, 8}) {
    size_t met = 0;
    EXPECT_TRUE(forWidth(bytes, [&](auto zero) { met += sizeof(zero); }));
    EXPECT_EQ(met, static_cast<size_t>(bytes));
  }
  for (int64_t bytes : {-1, 0, 3, 16}) EXPECT_FALSE(forWidth(bytes, [](auto) { FAIL(); }));
}

TEST(ElementTypes, sums_keep_the_sign_and_all_bits) {
  EXPECT_TRUE((std::is_same_v<SumOf<int8_t>, int64_t>));
  EXPECT_TRUE((std::is_same_v<SumOf<uint8_t>, uint64_t>));
  EXPECT_TRUE((std::is_same_v<SumOf<bool>, int64_t>));
  EXPECT_TRUE((std::is_same_v<SumOf<Half>, double>));
  EXPECT_TRUE((std::is_same_v<SumOf<float>, double>));
}

TEST(TensorData, numbers_of_every_real_type_come_back) {
  const std::vector<double> numbers = {0, 1, 3, 100};
  for (DataType type : kReal) {
    const TensorData data = TensorData::fromDoubles(TensorInfo(type, {2, 2}), numbers);
    EXPECT_EQ(data.info(), TensorInfo(type, {2, 2}));
    const std::vector<double> expected = type == DataType::BOOL ? std::vector<double>{0, 1, 1, 1} : numbers;
    EXPECT_EQ(data.asDoubles(), expected) << toText(type);
  }
}

TEST(TensorData, numbers_truncate_or_round) {
  const std::vector<double> numbers = {2.75, -2.75};
  EXPECT_EQ(TensorData::fromDoubles(TensorInfo(DataType::INT32, {2}), numbers).asInts(), (std::vector<int64_t>{2, -2}));
  const std::vector<double> fine = {1.0 + 1.0 / 4096};
  EXPECT_EQ(TensorData::fromDoubles(TensorInfo(DataType::FLOAT16, {1}), fine).asDoubles()[0], 1.0);
}

TEST(TensorData, numbers_that_do_not_fit_are_refused) {
  const std::vector<double> numbers = {1, 2};
  EXPECT_THROW(TensorData::fromDoubles(TensorInfo(DataType::FLOAT, {3}), numbers), error);
  EXPECT_THROW(TensorData::fromDoubles(TensorInfo(DataType::STRING, {2}), numbers), error);
}

}  // namespace
}  // namespace popart
