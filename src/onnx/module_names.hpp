// Names of nodes by the modules of the program that was exported. PyTorch's exporter gives nodes such names itself
// ("/layer1/layer1.0/conv1/Conv"); with dynamo=True it numbers them ("node_conv2d_3"), and writes the modules into the
// metadata of the node, under "pkg.torch.onnx.name_scopes":
//
//   ['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_3']   the model, modules from outside to inside, the operation
#pragma once
#include <string>
#include <unordered_map>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// For each node of the graph whose modules the file says: its name in the form of the older exporter. A module that is
// called again, and a node of the same type in the same module, get numbers: "/relu_1/Relu", "/Add_1". A call ends with
// the first node that is not in the module, so that two calls in a row count as one. Nodes of bodies are left out.
std::unordered_map<const onnx_proto::NodeProto *, std::string> moduleNames(const onnx_proto::GraphProto &graph);

}  // namespace popart::onnx
