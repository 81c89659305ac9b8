// Memory layouts around convolutions and their relatives. Spatial kernels read activations (N, C, spatial…) with the
// channels innermost and convolution weights in panels; this pass decides for every tensor of rank >= 3 how it lies in
// memory and puts a Reorder op where two neighbours disagree. Invariants: host streams, branches' borders and what loops
// collect stay plain, a value that a loop carries has one layout outside and inside; an op sees a layout only when the backend has a kernel for it; a tensor whose elements lie alike in both
// layouts (one channel, or one place) is always called plain.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Sets Tensor::layout and adds Reorder ops.
void assignChannelsLast(Ir &flat, const executable::Backend &backend);

// Whether the op is a convolution, pool or normalisation: one whose kernels read channels last.
bool isSpatial(const Op &op);

// Whether the backend has a kernel for a convolution (or its gradients) in the layouts this pass would give its
// operands.
bool supportsConvolution(const Op &op, const executable::Backend &backend, std::string &reason);

}  // namespace popart::lower
