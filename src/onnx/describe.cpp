#include "onnx/describe.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "onnx/data_files.hpp"
#include "onnx/importer.hpp"
#include "onnx/model_check.hpp"
#include "onnx/model_content.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Json = nlohmann::ordered_json;

Json shapeJson(const onnx_proto::TypeProto::Tensor &type) {
  if (!type.has_shape()) return nullptr;
  Json shape = Json::array();
  for (const auto &dim : type.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      shape.push_back(dim.dim_value());
    else
      shape.push_back(dim.dim_param().empty() ? "?" : dim.dim_param());
  }
  return shape;
}

// Sequences have the type and shape of their tensors, and optional values those of their content.
Json valueJson(const onnx_proto::ValueInfoProto &value) {
  const bool optional = value.type().has_optional_type();
  const auto &held = optional ? value.type().optional_type().elem_type() : value.type();
  const bool sequence = held.has_sequence_type();
  const auto &tensor = (sequence ? held.sequence_type().elem_type() : held).tensor_type();
  Json described = {{"name", value.name()}, {"type", nullptr}, {"shape", shapeJson(tensor)}};
  if (tensor.elem_type() != 0) described["type"] = toText(fromOnnxDataType(tensor.elem_type()));
  if (sequence) described["sequence"] = true;
  if (optional) described["optional"] = true;
  return described;
}

void countNodes(const onnx_proto::GraphProto &graph, std::map<std::string, int64_t> &counts) {
  for (const auto &node : graph.node()) {
    const bool plain = node.domain().empty() || node.domain() == "ai.onnx";
    ++counts[plain ? node.op_type() : node.domain() + "." + node.op_type()];
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g()) countNodes(attribute.g(), counts);
      for (const auto &inner : attribute.graphs()) countNodes(inner, counts);
    }
  }
}

int64_t bytesOf(const onnx_proto::TensorProto &tensor) {
  if (!holdsText(tensor)) return tensorInfo(tensor, tensor.name()).nbytes();
  int64_t bytes = 0;
  for (const std::string &text : tensor.string_data()) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

Json parametersJson(const Model &model, const onnx_proto::GraphProto &graph) {
  int64_t elements = 0, bytes = 0;
  for (const auto &initializer : graph.initializer()) {
    const int64_t count = elementCount(Shape(initializer.dims().begin(), initializer.dims().end()));
    check(!__builtin_add_overflow(elements, count, &elements) &&
              !__builtin_add_overflow(bytes, bytesOf(initializer), &bytes),
          "Model '{}': its initializers are larger than any memory, up to '{}'. The file is damaged",
          model.content().name, initializer.name());
  }
  return {
      {"tensors", graph.initializer_size()}, {"elements", elements}, {"bytes", bytes}, {"file", model.memory().bytes}};
}

// Imports the nodes of the main graph one by one, like a builder.
void addRefused(const Model &model, const BuildOptions &options, Json &description) {
  const onnx_proto::GraphProto &graph = model.content().proto->graph();
  Ir ir;
  Importer importer(model.content(), options, ir);
  Scope scope;
  scope.graph = &ir.getMainGraph();
  scope.opsets = model.opsets();
  importer.importAvailable(graph, scope);
  Json refused = Json::array();
  int64_t afterRefused = 0;
  const auto unknown = [&](const std::string &name) { return scope.refusals.contains(name); };
  for (const auto &input : graph.input())
    if (unknown(input.name()))
      refused.push_back({{"node", input.name()}, {"operator", "input"}, {"reason", scope.refusals[input.name()]}});
  for (const auto &node : graph.node()) {
    const auto output = std::ranges::find_if(node.output(), unknown);
    if (output == node.output().end()) continue;
    if (std::ranges::any_of(node.input(), unknown)) {
      ++afterRefused;
      continue;
    }
    refused.push_back({{"node", node.name().empty() ? *output : node.name()},
                       {"operator", node.op_type()},
                       {"reason", scope.refusals[*output]}});
  }
  description["refused"] = std::move(refused);
  description["afterRefused"] = afterRefused;
}

// Graph inputs: those that are also initializers, or the others.
Json inputsJson(const Model &model, bool areInitializers) {
  const std::vector<TensorId> weights = model.initializerIds();
  const std::set<std::string> initializers(weights.begin(), weights.end());
  const std::map<TensorId, int> batchAxes = model.batchAxes();
  Json inputs = Json::array();
  for (const auto &input : model.content().proto->graph().input()) {
    if (initializers.contains(input.name()) != areInitializers) continue;
    inputs.push_back(valueJson(input));
    if (const auto axis = batchAxes.find(input.name()); axis != batchAxes.end())
      inputs.back()["batchAxis"] = axis->second;
  }
  return inputs;
}

// The files that hold values of tensors, as the model names them.
std::set<std::string> dataFilesOf(const onnx_proto::ModelProto &proto) {
  std::set<std::string> files;
  for (const auto *tensor : externalTensors(proto)) files.insert(externalEntry(*tensor, tensor->name()).location);
  return files;
}

std::string toText(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string describeInputs(const Model &model) { return toText(inputsJson(model, false)); }

std::string describeModel(const Model &model, const BuildOptions &options) {
  const onnx_proto::ModelProto &proto = *model.content().proto;
  const onnx_proto::GraphProto &graph = proto.graph();
  Json outputs = Json::array();
  for (const auto &output : graph.output()) outputs.push_back(valueJson(output));
  std::map<std::string, int64_t> operators;
  countNodes(graph, operators);
  Json description = {{"graph", graph.name()},
                      {"producer", proto.producer_name()},
                      {"opsets", model.opsets()},
                      {"inputs", inputsJson(model, false)},
                      {"inputsWithValues", inputsJson(model, true)},
                      {"outputs", std::move(outputs)},
                      {"operators", operators},
                      {"dataFiles", dataFilesOf(proto)},
                      {"parameters", parametersJson(model, graph)}};
  addRefused(model, options, description);
  return toText(description);
}

}  // namespace popart::onnx
