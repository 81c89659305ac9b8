// Memory layouts around convolutions, pools and normalisations. Spatial kernels read activations (N, C, spatial…) with
// the channels innermost, and convolution weights in panels. This pass assigns a layout to every tensor of rank >= 3
// and inserts a Reorder op where producer and reader disagree. Activations stay plain in a program whose convolutions
// all have kernels for plain memory. Invariants: host streams, inputs and outputs of branches and scan outputs of loops
// stay plain; a loop-carried value has the same layout outside and inside; an op gets a layout only if the backend has
// a kernel for it; a tensor with singleton channels or spatial dimensions always counts as plain.
#pragma once
#include <popart/ir.hpp>

#include "lower/kernel_cache.hpp"

namespace popart::lower {

// Sets Tensor::layout and adds Reorder ops.
void assignChannelsLast(Ir &flat, const Backends &backends);

// Whether the op is a convolution, pool or normalisation, whose kernels read channels last.
bool isSpatial(const Op &op);

// Whether the backend has a kernel for a convolution (or its gradients) in the layouts that this pass assigns to its
// operands.
bool supportsConvolution(const Op &op, const executable::Backend &backend, std::string &reason);

// Whether the backend has a kernel for an op in plain memory, or in the layouts that this pass can give it.
bool hasKernel(const Op &op, const executable::Backend &backend);

}  // namespace popart::lower
