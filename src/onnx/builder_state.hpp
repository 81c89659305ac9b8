// The state of a ModelBuilder. Private to this room; does not include protobuf types.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/builder.hpp"
#include "onnx/importer.hpp"

namespace popart::onnx {

struct ModelBuilder::State {
  // Only in the root: the model, the names used by it and all its children, and the scratch Ir for shapes.
  std::shared_ptr<ModelContent> content;
  std::shared_ptr<const ModelContent> loaded;  // keeps the bytes of a loaded model's weights alive
  std::unordered_set<std::string> names;
  std::unordered_map<std::string, int64_t> lastNumbers;  // of names that were requested more than once
  std::map<std::string, int64_t> opsets;
  BuildOptions options;
  Ir ir;
  std::unique_ptr<Importer> importer;

  // In every builder.
  std::shared_ptr<onnx_proto::GraphProto> ownGraph;  // null for the root: the model's graph
  onnx_proto::GraphProto *graph = nullptr;
  Scope scope;                                    // scratch tensors by name
  std::unordered_map<std::string, int> producer;  // tensor id -> node number
  std::unordered_set<std::string> tensors;        // ids defined here
  std::unordered_set<std::string> initializers;
  std::vector<std::string> untyped;
};

inline std::string domainName(const std::string &domain) { return domain.empty() ? "ai.onnx" : domain; }
void setInfo(onnx_proto::ValueInfoProto &value, const std::string &name, const TensorInfo &info);

// The type and shape that a message declares.
Model::Input declaredValue(const onnx_proto::ValueInfoProto &value);

// Throws popart::error: this version of the operator does not have an attribute, or needs one that is missing.
void requireAttributes(const std::string &domain, const std::string &type, OpVersion version,
                       const BuilderAttributes &attributes);
// Throws popart::error if ai.onnx has no such operator, or not with these numbers of inputs and outputs.
void checkArity(const onnx_proto::NodeProto &node, const std::map<std::string, int64_t> &opsets);
// A node attribute message from a value.
void fillAttribute(onnx_proto::AttributeProto &attribute, const std::string &name, const BuilderAttribute &value);
BuilderAttribute attributeValue(const onnx_proto::AttributeProto &attribute);

}  // namespace popart::onnx
