// The two floating point types of 16 bits that operators compute in FLOAT.
#pragma once
#include <popart/datatype.hpp>

namespace popart {

constexpr bool isHalf(DataType type) { return type == DataType::FLOAT16 || type == DataType::BFLOAT16; }

}  // namespace popart
