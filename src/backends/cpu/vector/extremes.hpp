// Positions of the extremes of float32 numbers, and keys that order numbers; vectorised per instruction set. The order
// is that of comparable.hpp: NaN is equal to NaN and greater than all numbers, -0 is equal to 0.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace popart::cpu {

enum class Extreme : uint8_t { kLargest, kSmallest };
enum class Tie : uint8_t { kFirst, kLast };  // which one of several equal numbers

// Position of the extreme among `count` contiguous numbers; 0 if there are none.
int64_t placeOfExtreme(Extreme extreme, Tie tie, const float *x, int64_t count) noexcept;
// places[c] for columns [0, columns): the row of the extreme among `rows` numbers x[r * stride + c]. rows < 2^31.
void placesOfExtremes(Extreme extreme, Tie tie, const float *x, int64_t stride, int64_t rows, int64_t columns,
                      int32_t *places) noexcept;

// Maps numbers to integers with the same order.
inline uint32_t orderKey(float x) noexcept {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);  // no -0
  return x != x ? 0xffffffffu : bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}
void orderKeys(const float *x, int64_t count, uint32_t *keys) noexcept;
// The same for elements of at most 32 bits.
template <class T>
uint32_t orderKeyOf(T value) noexcept {
  if constexpr (std::is_integral_v<T>)
    return static_cast<uint32_t>(value) ^ (std::is_signed_v<T> ? 0x80000000u : 0u);
  else
    return orderKey(static_cast<float>(value));
}
// Finds the `count` largest of `length` <= 2^32 keys, in decreasing order, equal ones by position. An item is the key
// and, in the low half, the inverted bits of the position. `items` must have room for min(length, 2 * count + 32)
// items.
void largestKeys(const uint32_t *keys, int64_t length, int64_t count, uint64_t *items) noexcept;
// Position of the key with rank `rank` in ascending order, equal ones by position; rank < length < 2^31. `spare` must
// have room for length + kSpareKeys keys.
constexpr int64_t kSpareKeys = 64;
int64_t placeOfRank(const uint32_t *keys, int64_t length, int64_t rank, uint32_t *spare) noexcept;
inline int64_t placeOfItem(uint64_t item) noexcept { return static_cast<int64_t>(~static_cast<uint32_t>(item)); }

}  // namespace popart::cpu
