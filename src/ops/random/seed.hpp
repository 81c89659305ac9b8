// The seed operand of random ops.
#pragma once
#include <popart/opdef.hpp>

namespace popart::ops {

constexpr TypeSet kSeedType = typeBit(DataType::UINT32);

// Fails unless input `input` is UINT32[2].
void requireSeed(const InferContext &c, int input);

}  // namespace popart::ops
