// Gradient of a Loop op: one Loop that runs the gradient graph of the body from the last iteration to the first.
//   (h_T, scans) = Loop(T; h_0, w)     (dh_0, dw) = Loop(T; dh_T, 0, stacks of what the body's gradient reads, dscans)
// Values of one iteration are kept as scan outputs of the forward loop; a value captured from outside gets the sum of
// its gradients over the iterations.
#pragma once
#include <vector>

#include "autodiff/backward_walk.hpp"

namespace popart::autodiff {

struct LoopRequest {
  Op &op;
  Graph &gradient;                           // receives the new ops
  const std::vector<TensorIndex> &gradOuts;  // by output of the op; invalid where there is none
  const std::vector<bool> &wanted;           // by input of the op
  const VjpBuilder::TensorOf &activation;
  const CalledGradient &calledGradient;
};

// A loop that may end early counts its iterations (`counter`); its stacks have the size of its trip count, and the
// backward loop runs as often as it did.
//
// Gradients by input of the op, invalid where there is none. Throws popart::error when the number of iterations has no
// bound when the graph is built.
std::vector<TensorIndex> differentiateLoop(const LoopRequest &request);

}  // namespace popart::autodiff
