// The seed operand of random ops.
#pragma once
#include <string_view>

#include <popart/opdef.hpp>

namespace popart::ops {

constexpr TypeSet kSeedType = typeBit(DataType::UINT32);

// Variables of the main graph: the seed of all random ops, and the seeds of single ops that have separate ones.
inline constexpr const char *kRandomSeedId = "randomSeed___fromHost";
inline constexpr const char *kOwnRandomSeedPrefix = "randomSeed___own___";
inline bool isRandomSeed(std::string_view id) { return id == kRandomSeedId || id.starts_with(kOwnRandomSeedPrefix); }

// The index of the seed input of an op that draws numbers; -1 for other ops, for example Dropout without training.
int seedInput(const Op &op);

// Fails unless input `input` is UINT32[2].
void requireSeed(const InferContext &c, int input);

}  // namespace popart::ops
