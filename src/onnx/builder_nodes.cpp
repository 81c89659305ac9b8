// ModelBuilder: attributes of nodes, and the model as bytes, text and files.
#include <filesystem>
#include <fstream>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "onnx/builder.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/open_outputs.hpp"
#include "onnx/writer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace fs = std::filesystem;
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

std::string joined(const std::set<TensorId> &ids) {
  std::string text;
  for (const auto &id : ids) text += (text.empty() ? "" : ", ") + id;
  return text;
}

void setIrVersion(onnx_proto::ModelProto &proto, const std::map<std::string, int64_t> &opsets) {
  if (proto.ir_version() != 0) return;
  auto found = opsets.find("ai.onnx");
  const int64_t opset = found == opsets.end() ? 10 : found->second;
  proto.set_ir_version(opset <= 8 ? 3 : opset <= 11 ? 4 : opset <= 14 ? 7 : opset <= 18 ? 8 : opset <= 20 ? 9 : 10);
}

}  // namespace

void fillAttribute(onnx_proto::AttributeProto &a, const std::string &name, const BuilderAttribute &value) {
  using Proto = onnx_proto::AttributeProto;
  a.Clear();
  a.set_name(name);
  std::visit(Overloaded{[&](int64_t v) { a.set_type(Proto::INT), a.set_i(v); },
                        [&](float v) { a.set_type(Proto::FLOAT), a.set_f(v); },
                        [&](const std::string &v) { a.set_type(Proto::STRING), a.set_s(v); },
                        [&](const std::vector<int64_t> &v) {
                          a.set_type(Proto::INTS), a.mutable_ints()->Assign(v.begin(), v.end());
                        },
                        [&](const std::vector<float> &v) {
                          a.set_type(Proto::FLOATS), a.mutable_floats()->Assign(v.begin(), v.end());
                        },
                        [&](const std::vector<std::string> &v) {
                          a.set_type(Proto::STRINGS);
                          for (const auto &s : v) a.add_strings(s);
                        },
                        [&](const TensorData &v) { a.set_type(Proto::TENSOR), setPayload(*a.mutable_t(), v); },
                        [&](const ModelBuilder *v) {
                          check(v != nullptr, "Builder: attribute '{}': the subgraph is missing", name);
                          onnx_proto::ModelProto body;
                          body.ParseFromString(v->getModelProto());
                          a.set_type(Proto::GRAPH);
                          *a.mutable_g() = body.graph();
                        }},
             value);
}

BuilderAttribute attributeValue(const onnx_proto::AttributeProto &a) {
  using Proto = onnx_proto::AttributeProto;
  switch (a.type()) {
    case Proto::INT:
      return static_cast<int64_t>(a.i());
    case Proto::FLOAT:
      return a.f();
    case Proto::STRING:
      return a.s();
    case Proto::INTS:
      return std::vector<int64_t>(a.ints().begin(), a.ints().end());
    case Proto::FLOATS:
      return std::vector<float>(a.floats().begin(), a.floats().end());
    case Proto::STRINGS:
      return std::vector<std::string>(a.strings().begin(), a.strings().end());
    case Proto::TENSOR:
      return tensorData(a.t(), a.name(), ExternalFiles("."), nullptr);
    default:
      throw error("Builder: attribute '{}' holds a graph: its value cannot be read", a.name());
  }
}

// ---- attributes of nodes ------------------------------------------------------------------------

onnx_proto::NodeProto &ModelBuilder::node(const std::set<TensorId> &outputs) const {
  const char *const advice = "Give all outputs of one node";
  check(!outputs.empty(), "Builder: no node was named. {}", advice);
  auto found = state_->producer.find(*outputs.begin());
  if (found == state_->producer.end()) {
    std::vector<std::string> made;
    for (const auto &entry : state_->producer) made.push_back(entry.first);
    throw error("Builder: no node makes tensor '{}'. {}{}", *outputs.begin(), advice,
                nearestText(*outputs.begin(), made));
  }
  auto &node = *state_->graph->mutable_node(found->second);
  std::set<TensorId> all;
  for (const auto &output : node.output())
    if (!output.empty()) all.insert(output);
  check(all == outputs, "Builder: no node has exactly the outputs [{}]: {} has [{}]. {}", joined(outputs),
        node.op_type(), joined(all), advice);
  return node;
}

namespace {

onnx_proto::AttributeProto *findAttribute(onnx_proto::NodeProto &node, const std::string &name) {
  for (auto &a : *node.mutable_attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

onnx_proto::AttributeProto &requireAttribute(onnx_proto::NodeProto &node, const std::string &name) {
  auto *a = findAttribute(node, name);
  if (!a) {
    std::vector<std::string> names;
    for (const auto &attribute : node.attribute()) names.push_back(attribute.name());
    throw error("Builder: {} '{}' has no attribute '{}'{}", node.op_type(), node.name(), name,
                nearestText(name, names));
  }
  return *a;
}

}  // namespace

void ModelBuilder::addNodeAttribute(const std::string &name, const BuilderAttribute &value,
                                    const std::set<TensorId> &outputs, Replace replace) {
  auto &target = node(outputs);
  auto *existing = findAttribute(target, name);
  check(!existing || replace == Replace::Allow, "Builder: {} '{}' has attribute '{}' already. Remove it first",
        target.op_type(), target.name(), name);
  fillAttribute(existing ? *existing : *target.add_attribute(), name, value);
  forgetOutputShapes(name);
}

void ModelBuilder::forgetOutputShapes(const std::string &attribute) {
  if (attribute.starts_with("__")) return;  // placement and the like
  for (auto &output : *state_->graph->mutable_output())
    if (output.has_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
}

bool ModelBuilder::nodeHasAttribute(const std::string &name, const std::set<TensorId> &outputs) const {
  return findAttribute(node(outputs), name) != nullptr;
}

BuilderAttribute ModelBuilder::getNodeAttribute(const std::string &name, const std::set<TensorId> &outputs) const {
  return attributeValue(requireAttribute(node(outputs), name));
}

void ModelBuilder::removeNodeAttribute(const std::string &name, const std::set<TensorId> &outputs) {
  auto &target = node(outputs);
  requireAttribute(target, name);
  forgetOutputShapes(name);
  for (int i = 0; i < target.attribute_size(); ++i)
    if (target.attribute(i).name() == name) return target.mutable_attribute()->DeleteSubrange(i, 1);
}

std::vector<std::string> ModelBuilder::getAllNodeAttributeNames(const std::set<TensorId> &outputs) const {
  std::vector<std::string> names;
  for (const auto &a : node(outputs).attribute()) names.push_back(a.name());
  return names;
}

std::string ModelBuilder::nodeType(const std::set<TensorId> &outputs) const { return node(outputs).op_type(); }

// ---- the model ----------------------------------------------------------------------------------

void ModelBuilder::setGraphName(const std::string &name) {
  if (!name.empty()) state_->graph->set_name(name);
}

void ModelBuilder::embedReplicationFactor(int64_t factor) {
  check(factor >= 1, "Builder: embedReplicationFactor: got {}, expected at least 1", factor);
  setMetadata("__replicationFactor", std::to_string(factor));
  root().state_->options.replicas = factor;
}

void ModelBuilder::setMetadata(const std::string &key, const std::string &value) {
  auto &proto = *root().state_->content->proto;
  for (auto &entry : *proto.mutable_metadata_props())
    if (entry.key() == key) return entry.set_value(value);
  auto *entry = proto.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

onnx_proto::ModelProto ModelBuilder::message() const {
  const State &s = *root().state_;
  onnx_proto::ModelProto proto;
  if (parent_) {
    *proto.mutable_opset_import() = s.content->proto->opset_import();
    *proto.mutable_graph() = *state_->graph;
  } else {
    proto = *s.content->proto;
    declareOpenOutputs(*s.content, s.options, *proto.mutable_graph());
  }
  if (proto.opset_import_size() == 0) proto.add_opset_import()->set_version(10);
  setIrVersion(proto, s.opsets);
  return proto;
}

std::string ModelBuilder::getModelProto() const {
  onnx_proto::ModelProto proto = message();
  detachFromFolder(proto, root().state_->content->files);
  return serialised(proto);
}

std::string ModelBuilder::getModelText() const {
  std::string text = "graph " + state_->graph->name() + "\n";
  auto infoText = [&](const TensorId &id) { return id + (hasTensorInfo(id) ? ": " + getTensorInfo(id).str() : ""); };
  for (const auto &input : state_->graph->input())
    text += "  input " + infoText(input.name()) + (isInitializer(input.name()) ? " (initialised)" : "") + "\n";
  for (const auto &node : state_->graph->node()) {
    std::string outputs, inputs;
    for (const auto &o : node.output()) outputs += (outputs.empty() ? "" : ", ") + infoText(o);
    for (const auto &i : node.input()) inputs += (inputs.empty() ? "" : ", ") + i;
    text += "  " + outputs + " = " + node.op_type() + "(" + inputs + ")\n";
  }
  for (const auto &output : state_->graph->output()) text += "  output " + output.name() + "\n";
  return text;
}

void ModelBuilder::saveModelProto(const std::string &path) const {
  onnx_proto::ModelProto proto = message();
  attachToFolder(proto, root().state_->content->files, path, MainInitializers::Attached);
  const std::string bytes = serialised(proto);
  Model::parse(bytes, std::filesystem::path(path).parent_path().string());
  writeFileAtomically(path, bytes);
}

void ModelBuilder::saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &path) {
  saveExternally(*state_->graph, root().state_->content->files, ids, path);
}

}  // namespace popart::onnx
