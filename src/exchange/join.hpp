// How two terms of a reduction are joined, element by element.
#pragma once
#include <cstdint>

#include <popart/datatype.hpp>

#include "executable/collectives.hpp"

namespace popart::exchange {

// The type of terms of elements of `type` (executable/join_operators.hpp).
DataType termType(DataType type);

// Whether a term has the type of the elements, or termType of it.
enum class Width : uint8_t { Element, Term };

// into[i] = left[i] op right[i] for `count` terms, which are first widened. `into` may be `left` or `right` if its
// width is the same.
using JoinTerms = void (*)(executable::Join how, const void *left, const void *right, void *into, int64_t count);
// into[i] = the element of a complete sum: terms of 16-bit types are rounded, others copied.
using StoreTerms = void (*)(const void *terms, void *into, int64_t count);

// For elements of `type`, and widths of `left` and `right`. Throw internal_error for a type without collectives.
JoinTerms joinFunction(DataType type, Width left, Width right);
StoreTerms storeFunction(DataType type);

}  // namespace popart::exchange
