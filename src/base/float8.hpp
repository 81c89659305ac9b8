// The two 8-bit floating point formats: sign, exponent, mantissa; no infinities, no negative zero, one NaN.
//
//              exponent  mantissa  bias  largest  smallest above 0
//   FLOAT8_143        4         3     8      240             2^-10
//   FLOAT8_152        5         2    16    57344             2^-17
//
// ONNX calls them FLOAT8E4M3FNUZ and FLOAT8E5M2FNUZ.
#pragma once
#include <cstdint>
#include <span>

#include <popart/datatype.hpp>

namespace popart {

inline bool isFloat8(DataType type) { return type == DataType::FLOAT8_143 || type == DataType::FLOAT8_152; }

constexpr uint8_t kFloat8NaN = 0x80;

// The values of all codes of the type, which is one of the two. Static storage.
std::span<const float, 256> float8Values(DataType type);

// Code of the nearest value of the type, ties to the even code. NaN, infinities and what rounds above the largest value
// give NaN.
uint8_t floatToFloat8(DataType type, double value);

}  // namespace popart
