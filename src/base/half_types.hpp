// The two 16-bit floating-point types; operators compute them in FLOAT.
#pragma once
#include <popart/datatype.hpp>

namespace popart {

constexpr bool isHalf(DataType type) { return type == DataType::FLOAT16 || type == DataType::BFLOAT16; }

}  // namespace popart
