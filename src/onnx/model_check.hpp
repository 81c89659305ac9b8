// Structural checks of ONNX messages and the order of nodes. Private to this room.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Names of tensors that a subgraph may read from the graphs around it.
using OuterNames = std::vector<const std::set<std::string> *>;

// Indices of the nodes in an order where each node comes after the nodes whose outputs it, or a subgraph in it, reads.
// If the file is in order already, the order stays the same. Throws popart::error for duplicate outputs, undefined
// inputs and cycles.
std::vector<int> nodeOrder(const onnx_proto::GraphProto &graph, const OuterNames &outer);
std::vector<int> nodeOrder(const onnx_proto::FunctionProto &function);

// "Conv 'name'" or, without a name, "Conv (output 'y')".
std::string nodeText(const onnx_proto::NodeProto &node);

// Names of the initializers of `graph`, including sparse ones.
std::set<std::string> initializerNames(const onnx_proto::GraphProto &graph);
// Whether an initializer is text: it has no tensor here, and nodes that read it are refused.
bool holdsText(const onnx_proto::TensorProto &initializer);
// Every name that `graph` itself defines: inputs, initializers, node outputs.
std::set<std::string> definedNames(const onnx_proto::GraphProto &graph);
// Names that the subgraphs of `node` read from outside.
std::set<std::string> namesReadBySubgraphs(const onnx_proto::NodeProto &node);

}  // namespace popart::onnx
