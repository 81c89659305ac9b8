// The seed operand of random ops.
#pragma once
#include <string_view>

#include <popart/opdef.hpp>

namespace popart::ops {

constexpr TypeSet kSeedType = typeBit(DataType::UINT32);

// Variables of the main graph: the seed of all random ops, and those of single ops that have a seed of their own.
inline constexpr const char *kRandomSeedId = "randomSeed___fromHost";
inline constexpr const char *kOwnRandomSeedPrefix = "randomSeed___own___";
inline bool isRandomSeed(std::string_view id) { return id == kRandomSeedId || id.starts_with(kOwnRandomSeedPrefix); }

// Index of the input that is the seed of an op that draws; -1 for others (Dropout without training among them).
int seedInput(const Op &op);

// Fails unless input `input` is UINT32[2].
void requireSeed(const InferContext &c, int input);

}  // namespace popart::ops
