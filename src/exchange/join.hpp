// How two terms of a reduction are joined, element by element.
#pragma once
#include <cstdint>

#include <popart/datatype.hpp>

#include "executable/collectives.hpp"

namespace popart::exchange {

// The type of terms of elements of `type` (executable/join_operators.hpp).
DataType termType(DataType type);

// into[i] = left[i] op right[i] for `count` terms. `into` may be `left` or `right`.
using JoinTerms = void (*)(executable::Join how, const void *left, const void *right, void *into, int64_t count);
// into[i] = the element of a complete sum: terms of 16-bit types are rounded, others copied.
using StoreTerms = void (*)(const void *terms, void *into, int64_t count);

// For elements of `type`. Throw internal_error for a type that replicas do not join.
JoinTerms joinFunction(DataType type);
StoreTerms storeFunction(DataType type);

}  // namespace popart::exchange
