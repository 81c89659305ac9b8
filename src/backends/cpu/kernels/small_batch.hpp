// Products whose weight is large and whose batch is small, where packing the operands would cost more than the product.
// Invariant: ranges may be split anywhere; the order of an element's sum depends on the shapes only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

// out[m, n] = sum over k of a[m, k] * B[n, k] for n in [begin, end), with B packed as the (N x K) matrix of packPanels:
// lanes of k are summed in parallel and added at the end. begin is a multiple of 4, and so is end unless it is n.
struct DotArgs {
  const float *a = nullptr;  // (M, K), contiguous rows aStride apart
  ptrdiff_t aStride = 0;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float *b = nullptr;
  float *out = nullptr;  // (M, N), rows outStride apart
  ptrdiff_t outStride = 0;
};
void dotPackedTransposed(const DotArgs &args, int64_t begin, int64_t end) noexcept;

// w[m, n] = update(w[m, n], sum over k of a[k, m] * b[k, n]) for rows [begin, end) of the panels [firstPanel, endPanel)
// of the packed (M x N) w; sums run over ascending k in one chain, as in Matmul. Columns of b beyond N are not read.
struct OuterUpdateArgs {
  const float *a = nullptr;  // (K, M), contiguous rows aStride apart
  ptrdiff_t aStride = 0;
  const float *b = nullptr;  // (K, N), contiguous rows bStride apart
  ptrdiff_t bStride = 0;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // at most kMaxOuterDepth
  float *w = nullptr;
  const Update *update = nullptr;
};
constexpr int64_t kMaxOuterDepth = 64;
void updateByOuterProducts(const OuterUpdateArgs &args, int64_t begin, int64_t end, int64_t firstPanel,
                           int64_t endPanel) noexcept;

}  // namespace popart::cpu
