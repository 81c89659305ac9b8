// Reverse-mode differentiation over the gradient rows of the catalog.
// growBackward is the engine; differentiate() uses it to make a gradient graph of a subgraph (popxl autodiff), the
// training pipeline uses it to grow the backward pass of the main graph in place.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart::autodiff {

enum class ConnectionType { Fwd, FwdGrad };
struct ExpectedConnection {
  TensorId fwdId;  // tensor of the forward graph
  ConnectionType type;
  bool operator==(const ExpectedConnection &) const = default;
};

// The meaning of the inputs and outputs of a gradient graph, in their order.
struct GradInfo {
  GraphId forward;
  GraphId gradient;
  std::vector<ExpectedConnection> expectedInputs;
  std::vector<ExpectedConnection> expectedOutputs;
};
using GradInfos = std::map<GraphId, GradInfo>;

// Differentiates subgraph `forward` (docs/compat/autodiff.md): makes the graph "<id>_bwd". Its inputs are the provided
// gradients, then the forward tensors that it reads, sorted by id; its outputs are the gradients of `gradsRequired`.
// Null: gradients of all outputs are provided, those of all inputs required. Called graphs without an entry in `known`
// are differentiated first. Missing activations become extra outputs of `forward` and of its call sites. Returns the
// infos of every graph differentiated. Throws popart::error: modifying ops, a required gradient that does not exist,
// unknown ids.
GradInfos differentiate(Ir &ir, const GraphId &forward, const std::vector<TensorId> *gradsProvided,
                        const std::vector<TensorId> *gradsRequired, const GradInfos &known = {});

// Adds gradient ops for `targets`, starting at `lossId`, to the same graph; the gradient of x is named Gradient___x.
// `lossGradient` is the tensor that starts the backward pass. Returns target → gradient, without targets that have
// none.
std::map<TensorId, TensorId> growBackward(Graph &graph, const TensorId &lossId, TensorIndex lossGradient,
                                          const std::vector<TensorId> &targets);

}  // namespace popart::autodiff
