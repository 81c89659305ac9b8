// Element-wise combination of two rows, vectorised per instruction set.
#pragma once
#include <cstdint>

namespace popart::cpu {

enum class RowCombine : uint8_t { kAdd, kMultiply, kMax, kMin };  // for kMax and kMin, NaN wins

// to[i] = to[i] combined with from[i], for i < count. No overlap.
void combineRow(RowCombine how, const float *from, int64_t count, float *to) noexcept;

}  // namespace popart::cpu
