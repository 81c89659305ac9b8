// Keeps the loss scale in FLOAT if the loss is FLOAT16, because FLOAT16 has no numbers above 65504.
//
//   g16 = Cast(scale);  d = NllGrad(g16, p)   becomes   d = Cast(NllGrad(scale, Cast(p, FLOAT)), FLOAT16)
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

// `narrow`: the FLOAT16 tensor that the backward pass starts from; `wide`: the same value in FLOAT. Tensors of one
// element that depend only on the scale are computed in FLOAT; the first gradients of activations are rounded to
// FLOAT16. Throws popart::error if `narrow` is not FLOAT16, or if a subgraph reads the scale.
void ensureFp32LossScale(Graph &main, TensorIndex narrow, TensorIndex wide);

}  // namespace popart::transforms
