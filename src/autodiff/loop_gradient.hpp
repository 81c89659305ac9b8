// Gradient of a Loop op: one Loop that runs the gradient graph of the body from the last iteration to the first.
//   (h_T, scans) = Loop(T; h_0, w)     (dh_0, dw) = Loop(T; dh_T, 0, stacks of what the body's gradient reads, dscans)
// Values of one iteration are kept as scan outputs of the forward loop. The gradient of a value from outside is the sum
// of its gradients over the iterations.
#pragma once
#include <vector>

#include "autodiff/backward_walk.hpp"

namespace popart::autodiff {

struct LoopRequest {
  Op &op;
  Graph &gradient;                           // receives the new ops
  const std::vector<TensorIndex> &gradOuts;  // by output of the op; invalid if there is none
  const std::vector<bool> &wanted;           // by input of the op
  const VjpBuilder::TensorOf &activation;
  const CalledGradient &calledGradient;
};

// If a loop may end early, `counter` counts its iterations. Its stacks have the size of the trip count, and the
// backward loop runs as often as the loop did.
//
// Gradients by input of the op, invalid if there is none. Throws popart::error if the number of iterations has no bound
// when the graph is built.
std::vector<TensorIndex> differentiateLoop(const LoopRequest &request);

}  // namespace popart::autodiff
