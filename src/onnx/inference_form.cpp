// See inference_form.hpp. Works on a copy of the message.
#include "onnx/inference_form.hpp"

#include <algorithm>
#include <set>

#include <popart/error.hpp>

#include "onnx/batch_norm_folding.hpp"
#include "onnx/data_files.hpp"
#include "onnx/importer.hpp"
#include "onnx/model_check.hpp"
#include "onnx/model_levels.hpp"
#include "onnx/training_form.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>;
using Names = std::set<std::string>;

template <class Field, class Condition>
void keepIf(Field &field, Condition condition) {
  field.erase(std::remove_if(field.begin(), field.end(), [&](const auto &item) { return !condition(item); }),
              field.end());
}

// Types of tensors without a declaration in the file, from the importer's graph. Open dimensions are set to 1 there, so
// sizes are only stated if there are none.
class InferredTypes {
 public:
  InferredTypes(const ModelContent &content, const EvaluateOp &evaluate) : importer_(content, options_, ir_) {
    options_.weights = WeightRole::Constant;
    options_.evaluate = evaluate;
    const auto &graph = content.proto->graph();
    const Names own = initializerNames(graph);
    for (const auto &input : graph.input())
      if (!own.contains(input.name())) fill(input);
    scope_.graph = &ir_.getMainGraph();
    scope_.opsets = opsetsOf(*content.proto);
    importer_.importAvailable(graph, scope_);
  }

  void state(const std::string &name, onnx_proto::ValueInfoProto &value) const {
    value.set_name(name);
    const auto found = scope_.tensors.find(name);
    const auto refusal = scope_.refusals.find(name);
    if (found == scope_.tensors.end() || !found->second.valid())
      throw error("Inference form: the type of output '{}' is not known: {}. Declare it as a graph output of the model",
                  name, refusal == scope_.refusals.end() ? "it is not a tensor" : refusal->second);
    const TensorInfo &info = ir_.getMainGraph().info(found->second);
    auto &type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(toOnnxDataType(info.dataType()));
    type.mutable_shape();
    for (int64_t d : info.shape())
      if (auto &dim = *type.mutable_shape()->add_dim(); !isOpen_) dim.set_dim_value(d);
  }

 private:
  void fill(const onnx_proto::ValueInfoProto &input) {
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) return;
    const auto &type = input.type().tensor_type();
    Shape shape;
    for (const auto &dim : type.shape().dim()) {
      isOpen_ |= !dim.has_dim_value();
      shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
    }
    if (type.elem_type() != 0)
      options_.inputShapeInfo[input.name()] = TensorInfo(fromOnnxDataType(type.elem_type()), shape);
  }

  BuildOptions options_;
  Ir ir_;
  Importer importer_;
  Scope scope_;
  bool isOpen_ = false;
};

// Keeps only the nodes that `outputs` need, in the order of the run.
void keepNeeded(onnx_proto::GraphProto &graph, const std::vector<std::string> &outputs) {
  std::vector<int> order = nodeOrder(graph, {});
  Names needed(outputs.begin(), outputs.end());
  Nodes kept;
  std::ranges::reverse(order);
  std::vector<int> chosen;
  for (int i : order) {
    const auto &node = graph.node(i);
    if (!std::ranges::any_of(node.output(), [&](const auto &name) { return !name.empty() && needed.contains(name); }))
      continue;
    needed.insert(node.input().begin(), node.input().end());
    needed.merge(namesReadBySubgraphs(node));
    chosen.push_back(i);
  }
  std::ranges::reverse(chosen);
  for (int i : chosen) *kept.Add() = std::move(*graph.mutable_node(i));
  graph.mutable_node()->Swap(&kept);
}

void setOutputs(onnx_proto::ModelProto &proto, const ModelContent &source, const std::vector<std::string> &outputs,
                const EvaluateOp &evaluate) {
  std::map<std::string, onnx_proto::ValueInfoProto> declared;
  auto &graph = *proto.mutable_graph();
  for (const auto *values : {&graph.output(), &graph.value_info(), &graph.input()})
    for (const auto &value : *values)
      if (value.has_type()) declared.emplace(value.name(), value);
  std::unique_ptr<InferredTypes> inferred;
  graph.clear_output();
  for (const std::string &name : outputs) {
    auto &output = *graph.add_output();
    if (const auto found = declared.find(name); found != declared.end()) {
      output = found->second;
      continue;
    }
    if (!inferred) inferred = std::make_unique<InferredTypes>(source, evaluate);
    inferred->state(name, output);
  }
}

// Removes attributes that the Builder writes only for sessions.
void dropPrivateAttributes(Nodes &nodes) {
  for (auto &node : nodes) keepIf(*node.mutable_attribute(), [](const auto &a) { return !a.name().starts_with("__"); });
}

// Removes initializers and inputs that nothing reads any more. `before`: names that nodes read before; an input that no
// node read stays.
void dropUnread(onnx_proto::ModelProto &proto, const Names &before) {
  for (const Level &level : levelsOf(proto)) {
    dropPrivateAttributes(level.nodes());
    if (!level.graph) continue;
    onnx_proto::GraphProto &graph = *level.graph;
    Names read = namesRead(graph.node());
    for (const std::string &name : level.outputs()) read.insert(name);
    const Names initializers = initializerNames(graph);
    keepIf(*graph.mutable_initializer(), [&](const auto &tensor) { return read.contains(tensor.name()); });
    keepIf(*graph.mutable_sparse_initializer(), [&](const auto &t) { return read.contains(t.values().name()); });
    if (!level.outer)
      keepIf(*graph.mutable_input(), [&](const auto &input) {
        return read.contains(input.name()) || (!before.contains(input.name()) && !initializers.contains(input.name()));
      });
    const Names defined = definedNames(graph);
    keepIf(*graph.mutable_value_info(), [&](const auto &value) { return defined.contains(value.name()); });
    keepIf(*graph.mutable_quantization_annotation(),
           [&](const auto &note) { return defined.contains(note.tensor_name()); });
  }
}

// Removes functions that no node calls, and operator sets that no node uses; the default one stays.
void dropUnused(onnx_proto::ModelProto &proto) {
  const auto keyOf = [](const std::string &domain, const std::string &name, const std::string &overload) {
    return domain + '\n' + name + '\n' + overload;
  };
  for (int before = -1; before != proto.functions_size();) {
    before = proto.functions_size();
    Names called;
    for (const Level &level : levelsOf(proto))
      for (const auto &node : level.nodes()) called.insert(keyOf(node.domain(), node.op_type(), node.overload()));
    keepIf(*proto.mutable_functions(), [&](const auto &function) {
      return called.contains(keyOf(function.domain(), function.name(), function.overload()));
    });
  }
  Names domains{"", "ai.onnx"};
  for (const Level &level : levelsOf(proto))
    for (const auto &node : level.nodes()) domains.insert(node.domain());
  keepIf(*proto.mutable_opset_import(), [&](const auto &import) { return domains.contains(import.domain()); });
}

// Copies the values of tensors in data files into the message.
void embed(onnx_proto::ModelProto &proto, const ExternalFiles &files) {
  for (auto *tensor : externalTensors(proto)) embedValues(*tensor, files);
}

}  // namespace

Model inferenceForm(const Model &model, const InferenceFormOptions &options, const EvaluateOp &evaluate) {
  const ModelContent &source = model.content();
  const std::vector<std::string> outputs = inferenceOutputs(*source.proto, options);
  auto content = std::make_shared<ModelContent>();
  content->name = source.name;
  content->files = source.files;
  onnx_proto::ModelProto &proto = *content->proto;
  proto = wholeMessage(source);
  const Names before = namesRead(proto.graph().node());
  setOutputs(proto, source, outputs, evaluate);
  proto.clear_training_info();
  keepNeeded(*proto.mutable_graph(), outputs);
  toInferenceForm(proto);
  keepNeeded(*proto.mutable_graph(), outputs);
  if (options.foldBatchNorm) foldBatchNorms(proto, source.files);
  dropUnused(proto);
  dropUnread(proto, before);
  embed(proto, source.files);
  return Model(std::move(content));
}

}  // namespace popart::onnx
