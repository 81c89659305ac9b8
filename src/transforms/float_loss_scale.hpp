// Keeps the loss scale in FLOAT where the loss is FLOAT16: a scale above 65504 is no FLOAT16 number.
//
//   g16 = Cast(scale);  d = NllGrad(g16, p)   becomes   d = Cast(NllGrad(scale, Cast(p, FLOAT)), FLOAT16)
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

// `narrow`: the FLOAT16 tensor that the backward pass starts from; `wide`: the same value in FLOAT. What has one
// element and depends on the scale alone is computed in FLOAT; the first gradients of activations are rounded to
// FLOAT16. Throws popart::error when `narrow` is not FLOAT16, or a subgraph takes the scale.
void ensureFp32LossScale(Graph &main, TensorIndex narrow, TensorIndex wide);

}  // namespace popart::transforms
