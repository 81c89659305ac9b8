// How two terms of a reduction over replicas are combined, element by element. For the order see join_tree.hpp.
#pragma once
#include <cstdint>
#include <type_traits>

#include <popart/half.hpp>

#include "base/half_widening.hpp"
#include "executable/collectives.hpp"

namespace popart::executable {

// The type of terms of elements T: 16-bit floats are combined in float and rounded once at the end.
template <class T>
using TermOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Converts an element to a term, for loops over many elements.
template <class T>
TermOf<T> termOf(T value) {
  if constexpr (std::is_same_v<T, Half>)
    return widenHalfBits(value.bits());
  else
    return static_cast<TermOf<T>>(value);
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
