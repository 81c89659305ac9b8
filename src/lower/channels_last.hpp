// Memory layouts around convolutions and their relatives. Spatial kernels read activations (N, C, spatial…) with the
// channels innermost and convolution weights in panels; this pass decides for every tensor of rank >= 3 how it lies in
// memory and puts a Reorder op where two neighbours disagree. Invariants: host streams, loop and branch borders stay
// plain; an op sees a layout only when the backend has a kernel for it; a tensor whose elements lie alike in both
// layouts (one channel, or one place) is always called plain.
#pragma once
#include "lower/emit.hpp"

namespace popart::lower {

// Adds the layouts it chose to `layouts` and Reorder ops to `flat`.
void assignChannelsLast(Ir &flat, const executable::Backend &backend, Layouts &layouts);

// Whether the op is a convolution, pool or normalisation: one whose kernels read channels last.
bool isSpatial(const Op &op);

// Whether the backend has a kernel for a convolution (or its gradients) in the layouts this pass would give its
// operands.
bool supportsConvolution(const Graph &graph, const Op &op, const executable::Backend &backend, std::string &reason);

}  // namespace popart::lower
