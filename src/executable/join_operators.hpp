// How two terms of a reduction over replicas are joined, element by element. In which order: join_tree.hpp.
#pragma once
#include <cstdint>
#include <type_traits>

#include <popart/half.hpp>

#include "base/half_widening.hpp"
#include "executable/collectives.hpp"

namespace popart::executable {

// The type of terms of elements T: 16-bit floats are joined in float and rounded once, when all terms are joined.
template <class T>
using TermOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// An element as a term, for loops over many.
template <class T>
TermOf<T> termOf(T value) {
  if constexpr (std::is_same_v<T, Half>)
    return widenHalfBits(value.bits());
  else
    return static_cast<TermOf<T>>(value);
}

// Calls f with the operator of `how` on two terms: one call for a whole loop, so that the loop vectorises. Integers
// wrap. Keep takes the left term.
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
