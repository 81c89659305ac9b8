// The order in which kernels compare elements: NaN is equal to NaN and greater than all numbers, so that the order is
// total. 16-bit floats are compared in float.
#pragma once
#include <type_traits>

namespace popart::cpu {

template <class T>
using Comparable = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
bool isLess(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return a == a;
  }
  return a < b;
}

}  // namespace popart::cpu
