// The reverse walk of both entry points of autodiff: visits the ops of a forward graph from its end to its start and
// adds the gradient ops of every op between the targets and the tensors whose gradients are given. The gradient ops may
// be added to the forward graph or to another graph. Invariant: a gradient has the type and shape of its forward
// tensor, and the order of new ops depends only on the graph.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "autodiff/autodiff.hpp"

namespace popart::autodiff {

// What the gradient graph of a called graph must cover.
struct CalledRequest {
  std::vector<bool> given;   // outputs whose gradients exist
  std::vector<bool> wanted;  // inputs whose gradients are requested; empty: all
};
using CalledGradient = std::function<GradInfo(Graph &called, const CalledRequest &request)>;

struct BackwardWalk {
  Graph &forward;
  Graph &gradient;
  // Forward tensor → tensor of the gradient graph that is its gradient, or a part of it.
  std::vector<std::pair<TensorIndex, TensorIndex>> starts;
  std::vector<TensorIndex> targets;  // forward tensors whose gradients are requested
  // Returns the tensor of the gradient graph that represents a forward tensor.
  VjpBuilder::TensorOf activation;
  CalledGradient calledGradient;
};

// Gradients in the order of `targets`; an invalid index if there is no path. Gradients of x are named "Gradient___x",
// contributions "Gradient___<op id>_<input>". Throws popart::error for an op on the path that has no gradient.
std::vector<TensorIndex> walkBackward(const BackwardWalk &walk);

// Name of the gradient of `forwardId` (an id of `forward`) as an id of `gradient`.
TensorId gradientId(const Graph &forward, const Graph &gradient, const TensorId &forwardId);

// A constant of zeros with this info in `graph`.
TensorIndex addZeros(Graph &graph, const TensorInfo &info);

// Adds the sum of the gradients `parts` (at least one) to `graph`, with the settings of `origin`.
TensorIndex addSum(Graph &graph, const std::vector<TensorIndex> &parts, const Op &origin);

}  // namespace popart::autodiff
