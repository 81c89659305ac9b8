// How two terms of a reduction over replicas are combined, element by element. For the order see join_tree.hpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/half_arrays.hpp"
#include "executable/collectives.hpp"

namespace popart::executable {

// The type of terms of elements T: 16-bit floats are combined in float and rounded once at the end.
template <class T>
using TermOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Elements that are joined at a time: their terms stay in the first level cache.
constexpr int64_t kJoinedBlock = 512;

// to[i] = the term of elements[i].
template <class T>
void takeTerms(const T *elements, int64_t count, TermOf<T> *to) {
  if constexpr (std::is_same_v<TermOf<T>, T>)
    std::copy_n(elements, count, to);
  else
    widen(elements, count, to);
}
// Terms of at most kJoinedBlock elements: where they are, or in `spare`.
template <class T>
const TermOf<T> *asTerms(const T *elements, int64_t count, TermOf<T> *spare) {
  if constexpr (std::is_same_v<TermOf<T>, T>) return elements;
  takeTerms(elements, count, spare);
  return spare;
}

// Calls f with the operator of `how` for two terms: one call for a whole loop, so that the loop is vectorised. Integers
// wrap. Keep returns the left term.
template <class A, class F>
void withOperator(Join how, F &&f) {
  using Wrapping = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;
  switch (how) {
    case Join::Add:
      return f([](A a, A b) { return static_cast<A>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)); });
    case Join::Mul:
      return f([](A a, A b) { return static_cast<A>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b)); });
    case Join::Min:
      return f([](A a, A b) { return b < a || b != b ? b : a; });
    case Join::Max:
      return f([](A a, A b) { return a < b || b != b ? b : a; });
    case Join::And:
      return f([](A a, A b) { return static_cast<A>(a != A(0) && b != A(0)); });
    case Join::Or:
      return f([](A a, A b) { return static_cast<A>(a != A(0) || b != A(0)); });
    case Join::Keep:
      return f([](A a, A) { return a; });
  }
}

}  // namespace popart::executable
