// What reductions over members have to give: the tree over single members, written as its definition reads.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace popart::exchange {

// Joins members [index 2^level, (index + 1) 2^level), as far as there are so many; `joined(a, b)` joins two values.
template <class T, class Join>
T flatTree(const std::vector<T> &members, int level, int index, const Join &joined) {
  const int64_t half = level == 0 ? 0 : int64_t{1} << (level - 1);
  if (level == 0) return members[static_cast<size_t>(index)];
  const T left = flatTree(members, level - 1, 2 * index, joined);
  if ((2 * int64_t{index} + 1) * half >= static_cast<int64_t>(members.size())) return left;
  return joined(left, flatTree(members, level - 1, 2 * index + 1, joined));
}

template <class T, class Join>
T flatTree(const std::vector<T> &members, const Join &joined) {
  int level = 0;
  while (size_t{1} << level < members.size()) ++level;
  return flatTree(members, level, 0, joined);
}

// A float of a magnitude between 2^-20 and 2^20 and either sign: sums of them depend on the order.
inline float mixedFloat(std::mt19937 &random) {
  // Statements of their own, as compilers evaluate arguments of a call in different orders.
  const int exponent = std::uniform_int_distribution<int>(-20, 20)(random);
  const float fraction = std::uniform_real_distribution<float>(0, 1)(random);
  const float magnitude = std::ldexp(1.0f + fraction, exponent);
  return random() % 2 ? magnitude : -magnitude;
}

}  // namespace popart::exchange
