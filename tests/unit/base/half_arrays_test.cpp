// Arrays of 16-bit floats against the conversions of single ones, to the bit.
#include "base/half_arrays.hpp"

#include <bit>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace popart {
namespace {

// A float of these bits; a NaN is quiet.
float quiet(uint32_t bits) {
  const bool isNan = (bits & 0x7fffffffu) > 0x7f800000u;
  return std::bit_cast<float>(isNan ? bits | 0x400000u : bits);
}

template <class T>
void expectWidened() {
  std::vector<T> from;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) from.push_back(T::fromBits(static_cast<uint16_t>(bits)));
  std::vector<float> to(from.size());
  widen(from.data(), static_cast<int64_t>(from.size()), to.data());
  for (size_t i = 0; i < from.size(); ++i) {
    const uint32_t expected = std::bit_cast<uint32_t>(static_cast<float>(from[i]));
    ASSERT_EQ(std::bit_cast<uint32_t>(quiet(std::bit_cast<uint32_t>(to[i]))), std::bit_cast<uint32_t>(quiet(expected)))
        << i;
  }
}

TEST(HalfArrays, widen_every_value) {
  expectWidened<Half>();
  expectWidened<BFloat16>();
}

// Around all values of 16 bits and the numbers half way between them, and any others.
template <class T>
void expectNarrowed() {
  std::vector<float> from;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const uint32_t near = std::bit_cast<uint32_t>(static_cast<float>(T::fromBits(static_cast<uint16_t>(bits))));
    const uint32_t half = std::is_same_v<T, Half> ? 0x1000u : 0x8000u;
    for (const uint32_t distance : {0u, 1u, half - 1, half, half + 1}) from.push_back(quiet(near + distance));
  }
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) from.push_back(quiet(static_cast<uint32_t>(random())));
  std::vector<T> to(from.size());
  narrow(from.data(), static_cast<int64_t>(from.size()), to.data());
  for (size_t i = 0; i < from.size(); ++i)
    ASSERT_EQ(to[i].bits(), T(from[i]).bits()) << std::bit_cast<uint32_t>(from[i]);
}

TEST(HalfArrays, narrow_as_single_values) {
  expectNarrowed<Half>();
  expectNarrowed<BFloat16>();
}

TEST(HalfArrays, write_what_they_are_asked_for) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> floats(80, 1.5f), widened(80, -1.0f);
    std::vector<Half> halves(80, Half(-1.0f));
    narrow(floats.data(), count, halves.data());
    widen(halves.data(), count, widened.data());
    for (size_t i = 0; i < 80; ++i) {
      const float expected = i < static_cast<size_t>(count) ? 1.5f : -1.0f;
      EXPECT_EQ(static_cast<float>(halves[i]), expected);
      EXPECT_EQ(widened[i], expected);
    }
  }
}

}  // namespace
}  // namespace popart
