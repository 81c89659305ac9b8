// Vectorised transposition of matrices of any element type.
// Invariant: a pure permutation; every bit pattern, including NaN payloads, is preserved. Only the elements of x, and
// memory between its rows, are read; only the elements of y are written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// A matrix whose rows of contiguous elements are `stride` bytes apart.
struct ByteMatrix {
  const char *data;
  ptrdiff_t stride;
  int64_t rows, cols;
};
// The memory of its transpose: rows of contiguous elements, `stride` bytes apart.
struct ByteTarget {
  char *data;
  ptrdiff_t stride;
};
// Whether a transposition prefetches the next elements. This pays off if x and y come from beyond the second level
// cache, and costs time if that cache holds them.
enum class Prefetch : uint8_t { kNone, kNext };
// For parts of a tensor of `bytes` bytes.
Prefetch prefetchFor(int64_t bytes);

// y[c, r] = x[r, c], for elements of 1, 2, 4, 8 or 16 bytes at any address. No overlap.
void transpose(int64_t elementBytes, const ByteMatrix &x, const ByteTarget &y,
               Prefetch prefetch = Prefetch::kNone) noexcept;

// The same; strides in elements.
template <class T>
void transpose(const T *x, ptrdiff_t xStride, T *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept {
  constexpr auto kBytes = static_cast<ptrdiff_t>(sizeof(T));
  transpose(kBytes, {reinterpret_cast<const char *>(x), xStride * kBytes, rows, cols},
            {reinterpret_cast<char *>(y), yStride * kBytes});
}

}  // namespace popart::cpu
