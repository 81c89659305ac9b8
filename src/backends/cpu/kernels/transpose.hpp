// Vectorised transposition of matrices of any element type.
// Invariant: a pure permutation; every bit pattern, NaN payloads included, arrives unchanged. Nothing but the elements
// of x is read (and what lies between its rows), nothing but those of y is written.
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
// Where its transpose goes: rows of contiguous elements, `stride` bytes apart.
struct ByteTarget {
  char *data;
  ptrdiff_t stride;
};
// Whether a transposition prefetches what it moves next. It pays where x and y come from beyond the second level cache,
// and costs time where that cache holds them.
enum class Prefetch : uint8_t { kNone, kNext };
// For parts of a tensor of so many bytes.
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
