// Copies of elements at equal distances to contiguous memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// y[i] = x[i stride], for i < count; elements of 1, 2, 4, 8 or 16 bytes, stride in bytes, y contiguous. Vectorised for
// 4-byte elements with a stride of two, three or four elements.
void pickStrided(int64_t elementBytes, const void *x, ptrdiff_t stride, int64_t count, void *y) noexcept;

}  // namespace popart::cpu
