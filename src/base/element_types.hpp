// Lists of element types as C++ types, from which a kernel is made for each type that a tensor may have. They replace
// a switch over DataType in each file: the relation between types and enumerators is written once, here.
//
//   if (!forElement(kNumericElements, type, [&](auto zero) { fill<decltype(zero)>(data); })) throw …;
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include <popart/datatype.hpp>
#include <popart/half.hpp>

namespace popart {

template <class... Ts>
struct Elements {};
template <class... A, class... B>
constexpr Elements<A..., B...> operator+(Elements<A...>, Elements<B...>) {
  return {};
}

constexpr Elements<float, double, Half, BFloat16> kFloatElements;
constexpr Elements<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t> kIntegerElements;
constexpr auto kNumericElements = kFloatElements + kIntegerElements;
constexpr auto kRealElements = kNumericElements + Elements<bool>();

// Calls f(T{}) with the C++ type of `type`. Returns false, without a call, if the list does not contain it.
template <class F, class... Ts>
bool forElement(Elements<Ts...>, DataType type, F &&f) {
  return ((type == getDataType<Ts>() && (f(Ts{}), true)) || ...);
}

// Calls f(T{}) with the unsigned integer of `bytes` bytes, for kernels that copy elements. Returns false, without a
// call, if there is no such integer.
template <class F>
bool forWidth(int64_t bytes, F &&f) {
  const auto tried = [&]<class... Ts>(Elements<Ts...>) {
    return ((bytes == static_cast<int64_t>(sizeof(Ts)) && (f(Ts{}), true)) || ...);
  };
  return tried(Elements<uint8_t, uint16_t, uint32_t, uint64_t>());
}

// The type in which elements are summed: 64-bit integers of the same sign, double for floats; bool is counted.
template <class T>
using SumOf =
    std::conditional_t<!std::is_integral_v<T>, double,
                       std::conditional_t<std::is_unsigned_v<T> && !std::is_same_v<T, bool>, uint64_t, int64_t>>;

// Converts a value to an element: integers wrap, 16-bit floats are rounded from float, bool is "is not 0". Floats to
// integers must be in range.
template <class T, class V>
T asElement(V value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != V(0);
  else if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

// Converts a value to an element: floats to integers truncate toward zero and wrap modulo 2^bits (NaN and values beyond
// 64 bits: 0 and the nearest 64-bit integer); anything to bool is "is not 0".
template <class T, class V>
T toElement(V value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != V(0);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
    if (!(value == value)) return 0;
    if (value >= 9223372036854775808.0) {
      return static_cast<T>(value >= 18446744073709551616.0 ? std::numeric_limits<uint64_t>::max()
                                                            : static_cast<uint64_t>(value));
    }
    if (value < -9223372036854775808.0) return static_cast<T>(std::numeric_limits<int64_t>::min());
    return static_cast<T>(static_cast<int64_t>(value));
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace popart
