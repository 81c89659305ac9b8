// How two terms of a reduction are joined, element by element.
#pragma once
#include <cstdint>
#include <type_traits>

#include <popart/datatype.hpp>
#include <popart/half.hpp>

#include "executable/collectives.hpp"

namespace popart::exchange {

// The type of terms of elements T: 16-bit floats are joined in float and rounded once, when all terms are joined.
template <class T>
using TermOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
DataType termType(DataType type);

// Calls f with the operator of `how` on two terms: one call for a whole loop, so that the loop vectorises. Integers
// wrap. Keep takes the left term.
template <class A, class F>
void withOperator(executable::Join how, F &&f) {
  using executable::Join;
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

// into[i] = left[i] op right[i] for `count` terms. `into` may be `left` or `right`.
using JoinTerms = void (*)(executable::Join how, const void *left, const void *right, void *into, int64_t count);
// into[i] = the element of a complete sum: terms of 16-bit types are rounded, others copied.
using StoreTerms = void (*)(const void *terms, void *into, int64_t count);

// For elements of `type`. Throw internal_error for a type that replicas do not join.
JoinTerms joinFunction(DataType type);
StoreTerms storeFunction(DataType type);

}  // namespace popart::exchange
