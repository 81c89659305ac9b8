// The reverse walk that both entry points of autodiff share: visits the ops of a forward graph from its end to its
// start and adds the gradient ops of every op that lies between the targets and the tensors whose gradient is given.
// The forward graph and the graph that receives the gradient ops may be the same one.
// Invariant: a gradient has the type and shape of its forward tensor, and the order of new ops depends on the graph
// alone.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "autodiff/autodiff.hpp"

namespace popart::autodiff {

// What the gradient graph of a called graph must cover.
struct CalledRequest {
  std::vector<bool> given;   // outputs whose gradients exist
  std::vector<bool> wanted;  // inputs whose gradients are asked for; empty: all
};
using CalledGradient = std::function<GradInfo(Graph &called, const CalledRequest &request)>;

struct BackwardWalk {
  Graph &forward;
  Graph &gradient;
  // Forward tensor -> tensor of the gradient graph that is (a part of) its gradient.
  std::vector<std::pair<TensorIndex, TensorIndex>> starts;
  std::vector<TensorIndex> targets;  // forward tensors whose gradients are asked for
  // The forward tensor as seen from the gradient graph.
  VjpBuilder::TensorOf activation;
  CalledGradient calledGradient;
};

// Gradients aligned with `targets`; an invalid index where there is no path. Gradients of x are named "Gradient___x",
// contributions "Gradient___<op id>_<input>". Throws popart::error for an op on the path that has no gradient.
std::vector<TensorIndex> walkBackward(const BackwardWalk &walk);

// Name of the gradient of `forwardId` (an id of `forward`) as an id of `gradient`.
TensorId gradientId(const Graph &forward, const Graph &gradient, const TensorId &forwardId);

// A constant of zeros with this info in `graph`.
TensorIndex addZeros(Graph &graph, const TensorInfo &info);

// The sum of the gradients `parts` (at least one) in `graph`, with the settings of the op they belong to.
TensorIndex addSum(Graph &graph, const std::vector<TensorIndex> &parts, const Op &origin);

}  // namespace popart::autodiff
