// 16-bit numbers (FLOAT16, BFLOAT16) of kernels that compute in FLOAT: conversion to floats and back, of arrays and
// while matrices are packed. `type` is one of the two unless a comment allows FLOAT as well.
// Invariant: conversion to 16 bits rounds to nearest even, the same for every lane and instruction set; conversion to
// floats is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include <popart/datatype.hpp>
#include <popart/half.hpp>

#include "base/half_types.hpp"

namespace popart::cpu {

// Element i of an array of FLOAT or 16-bit numbers.
inline const void *elementAt(const void *base, ptrdiff_t i, DataType type) {
  return static_cast<const char *>(base) + i * (isHalf(type) ? ptrdiff_t{2} : ptrdiff_t{4});
}
inline void *elementAt(void *base, ptrdiff_t i, DataType type) {
  return const_cast<void *>(elementAt(static_cast<const void *>(base), i, type));
}

// Reads element i of such an array as a float; the next function rounds a float and stores it.
inline float numberAt(const void *base, ptrdiff_t i, DataType type) {
  const void *element = elementAt(base, i, type);
  if (type == DataType::FLOAT) return *static_cast<const float *>(element);
  const uint16_t bits = *static_cast<const uint16_t *>(element);
  return type == DataType::FLOAT16 ? halfBitsToFloat(bits) : bfloat16BitsToFloat(bits);
}
inline void setNumberAt(void *base, ptrdiff_t i, DataType type, float value) {
  void *element = elementAt(base, i, type);
  if (type == DataType::FLOAT)
    *static_cast<float *>(element) = value;
  else
    *static_cast<uint16_t *>(element) = type == DataType::FLOAT16 ? floatToHalfBits(value) : floatToBFloat16Bits(value);
}

void widen(DataType type, const uint16_t *from, int64_t count, float *to) noexcept;
void narrow(DataType type, const float *from, int64_t count, uint16_t *to) noexcept;
// to[i] = from[i] rounded to the type; both may be the same array.
void roundTo(DataType type, const float *from, int64_t count, float *to) noexcept;

// packPanel (pack.hpp) for 16-bit numbers, which become floats: columns [0, cols) of k rows, element (k, n) at b[k *
// rowStride + n * colStride]. Destination rows are `width` floats apart; columns from `cols` on are zero.
void widenPanel(DataType type, const uint16_t *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols,
                int width, float *panel) noexcept;
// `count` numbers of an array of FLOAT or 16-bit numbers, from element `at` on, as floats: the array itself, or a copy
// in `spare`.
inline const float *floatsAt(const void *base, ptrdiff_t at, int64_t count, DataType type, float *spare) {
  const void *first = elementAt(base, at, type);
  if (type == DataType::FLOAT) return static_cast<const float *>(first);
  widen(type, static_cast<const uint16_t *>(first), count, spare);
  return spare;
}
// Memory for floats that will become elements `at` on of such an array: the array itself, or `spare`, from which
// keepFloats() stores them.
inline float *placeAt(void *base, ptrdiff_t at, DataType type, float *spare) {
  return type == DataType::FLOAT ? static_cast<float *>(elementAt(base, at, type)) : spare;
}
inline void keepFloats(const float *from, void *base, ptrdiff_t at, int64_t count, DataType type) {
  if (isHalf(type)) narrow(type, from, count, static_cast<uint16_t *>(elementAt(base, at, type)));
}

// Widens `count` rows of k numbers, rowStride apart, to rows of floats toStride apart.
void widenRows(DataType type, const uint16_t *a, ptrdiff_t rowStride, int64_t k, int count, ptrdiff_t toStride,
               float *to) noexcept;

}  // namespace popart::cpu
