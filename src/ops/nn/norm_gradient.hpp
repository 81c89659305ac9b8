// Gradients of normalisations as formulas, for rows whose gradient op has kernels but whose second derivatives have
// none.
#pragma once
#include <vector>

#include <popart/opdef.hpp>

namespace popart::ops {

// How a normalisation reads its operands.
struct NormView {
  Shape data;                 // of x, with the same elements in the same order
  std::vector<int64_t> axes;  // of `data`, over which x is normalised
  Shape scale;                // of scale and bias; broadcasts to `data`
};

// Decomposition of a gradient row (grad_out, x, scale[, mean, inv_std]) → (grad_x[, grad_scale[, grad_bias]]) with the
// attribute epsilon: with xhat = (x - mean(x)) r, r = 1 / sqrt(mean((x - mean(x))²) + epsilon) and h = grad_out scale,
//   grad_x = r (h - mean(h) - xhat mean(h xhat)), grad_scale = sum(grad_out xhat), grad_bias = sum(grad_out).
// Statistics are computed from x, so that further derivatives pass through them. Computes in the type of x.
void decomposeNormGradient(DecomposeBuilder &b, const NormView &view);

}  // namespace popart::ops
