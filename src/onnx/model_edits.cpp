// See model_edits.hpp. Works on a copy of the message; values stored outside the model are read from its files.
#include "onnx/model_edits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include <popart/error.hpp>
#include <popart/half.hpp>

#include "base/nearest.hpp"
#include "onnx/data_files.hpp"
#include "onnx/model_check.hpp"
#include "onnx/training_form.hpp"
#include "onnx/writer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

TensorData toInt32(const TensorData &value, const std::string &name, OutOfRange outOfRange) {
  using Limits = std::numeric_limits<int32_t>;
  std::vector<int32_t> numbers;
  for (int64_t v : value.asInts()) {
    const int64_t clipped = std::clamp<int64_t>(v, Limits::min(), Limits::max());
    check(clipped == v || outOfRange == OutOfRange::Clip,
          "GraphTransformer: tensor '{}': a value does not fit INT32: got {}. Pass clip to take the nearest one", name,
          v);
    numbers.push_back(static_cast<int32_t>(clipped));
  }
  return TensorData::of<int32_t>(value.info().shape(), numbers);
}

template <class T>
TensorData toFloats(const TensorData &value) {
  std::vector<T> numbers;
  for (double v : value.asDoubles()) numbers.push_back(T(static_cast<float>(v)));
  return TensorData::of<T>(value.info().shape(), numbers);
}

TensorData converted(const TensorData &value, DataType to, const std::string &name, OutOfRange outOfRange) {
  switch (to) {
    case DataType::INT32:
      return toInt32(value, name, outOfRange);
    case DataType::FLOAT:
      return toFloats<float>(value);
    case DataType::FLOAT16:
      return toFloats<Half>(value);
    default:
      throw internal_error("GraphTransformer: there is no conversion to {}", to);
  }
}

void refuseSubgraphs(const onnx_proto::GraphProto &graph) {
  for (const auto &node : graph.node())
    for (const auto &a : node.attribute())
      check(!a.has_g() && a.graphs_size() == 0,
            "GraphTransformer: node '{}' ({}) holds a graph in attribute '{}': element types of subgraphs are not "
            "converted. Inline the subgraph",
            node.name(), node.op_type(), a.name());
}

void convertInfos(google::protobuf::RepeatedPtrField<onnx_proto::ValueInfoProto> &infos, int from, int to) {
  for (auto &info : infos)
    if (info.type().has_tensor_type() && info.type().tensor_type().elem_type() == from)
      info.mutable_type()->mutable_tensor_type()->set_elem_type(to);
}

template <class Field, class Condition>
void removeIf(Field &field, Condition condition) {
  field.erase(std::remove_if(field.begin(), field.end(), condition), field.end());
}

}  // namespace

ModelEditor::ModelEditor(const std::string &modelProtoOrFilename)
    : source_(Model::fromProtoOrFile(modelProtoOrFilename).shared()),
      proto_(std::make_unique<onnx_proto::ModelProto>(wholeMessage(*source_))) {
  for (const auto *tensor : externalTensors(*proto_)) placeOf(*tensor, source_->files);  // throws if it is missing
}
ModelEditor::~ModelEditor() = default;

void ModelEditor::convertElements(DataType from, DataType to, OutOfRange outOfRange) {
  auto &graph = *proto_->mutable_graph();
  refuseSubgraphs(graph);
  const int fromType = toOnnxDataType(from), toType = toOnnxDataType(to);
  auto convert = [&](onnx_proto::TensorProto &tensor, const std::string &name) {
    if (tensor.data_type() != fromType) return;
    const TensorData value = converted(tensorData(tensor, name, source_->files, nullptr), to, name, outOfRange);
    onnx_proto::TensorProto fresh;
    fresh.set_name(tensor.name());
    setPayload(fresh, value);
    tensor.Swap(&fresh);
  };
  for (auto &tensor : *graph.mutable_initializer()) convert(tensor, tensor.name());
  for (auto &node : *graph.mutable_node())
    for (auto &a : *node.mutable_attribute()) {
      if (a.has_t()) convert(*a.mutable_t(), node.name() + "/" + a.name());
      for (auto &tensor : *a.mutable_tensors()) convert(tensor, node.name() + "/" + a.name());
    }
  convertInfos(*graph.mutable_input(), fromType, toType);
  convertInfos(*graph.mutable_output(), fromType, toType);
  convertInfos(*graph.mutable_value_info(), fromType, toType);
}

void ModelEditor::removeUnusedInputs() {
  auto &graph = *proto_->mutable_graph();
  std::set<std::string> read, kept;
  for (const auto &node : graph.node()) read.insert(node.input().begin(), node.input().end());
  for (const auto &input : graph.input())
    if (read.count(input.name())) kept.insert(input.name());
  if (static_cast<int>(kept.size()) == graph.input_size()) return;
  removeIf(*graph.mutable_input(), [&](const auto &input) { return !kept.count(input.name()); });
  // compat: initializers that are no graph inputs are removed too (test_model_tools.py, unused inputs).
  removeIf(*graph.mutable_initializer(), [&](const auto &tensor) { return !kept.count(tensor.name()); });
}

void ModelEditor::prepareNodesForTraining() { toTrainingForm(*proto_); }
void ModelEditor::prepareNodesForInference() { toInferenceForm(*proto_); }

void ModelEditor::convertInitializersToConstants(const std::vector<TensorId> &ids) {
  auto &graph = *proto_->mutable_graph();
  std::map<std::string, const onnx_proto::TensorProto *> tensors;
  for (const auto &tensor : graph.initializer()) tensors.emplace(tensor.name(), &tensor);
  std::set<std::string> moved;
  google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> nodes;
  for (const TensorId &id : ids) {
    const auto found = tensors.find(id);
    if (found == tensors.end() || !moved.insert(id).second)
      throw error("GraphTransformer: '{}' is not an initializer of the model{}", id,
                  nearestText(id, Model(source_).initializerIds()));
    auto &node = *nodes.Add();
    node.set_op_type("Constant");
    node.add_output(id);
    auto &value = *node.add_attribute();
    value.set_name("value");
    value.set_type(onnx_proto::AttributeProto::TENSOR);
    setPayload(*value.mutable_t(), tensorData(*found->second, id, source_->files, nullptr));
  }
  const auto isMoved = [&](const auto &item) { return moved.contains(item.name()); };
  removeIf(*graph.mutable_initializer(), isMoved);
  removeIf(*graph.mutable_input(), isMoved);
  for (auto &node : *graph.mutable_node()) nodes.Add(std::move(node));
  graph.mutable_node()->Swap(&nodes);
}

void ModelEditor::convertAllFixedPointInitializersToConstants() {
  std::vector<TensorId> ids;
  for (const auto &tensor : proto_->graph().initializer())
    if (!holdsText(tensor) && isInteger(tensorInfo(tensor, tensor.name()).dataType())) ids.push_back(tensor.name());
  convertInitializersToConstants(ids);
}

void ModelEditor::declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes) {
  auto &graph = *proto_->mutable_graph();
  std::map<int64_t, std::string> opened;  // former first dimension of inputs -> its new name
  for (const auto &[id, dimensions] : shapes) {
    const auto input = std::ranges::find_if(*graph.mutable_input(), [&](const auto &i) { return i.name() == id; });
    if (input == graph.mutable_input()->end())
      throw error("GraphTransformer: '{}' is not an input of the model{}", id,
                  nearestText(id, Model(source_).inputIds()));
    auto &shape = *input->mutable_type()->mutable_tensor_type()->mutable_shape();
    const int64_t former = shape.dim_size() > 0 ? shape.dim(0).dim_value() : 0;
    shape.clear_dim();
    for (const std::string &dimension : dimensions) {
      int64_t size = 0;
      const auto [end, problem] = std::from_chars(dimension.data(), dimension.data() + dimension.size(), size);
      const bool isNumber = problem == std::errc() && end == dimension.data() + dimension.size();
      isNumber ? shape.add_dim()->set_dim_value(size) : shape.add_dim()->set_dim_param(dimension);
    }
    if (former > 0 && shape.dim_size() > 0 && !shape.dim(0).dim_param().empty())
      opened.emplace(former, shape.dim(0).dim_param());
  }
  const std::set<std::string> initializers = initializerNames(graph);
  for (auto &value : *graph.mutable_value_info())  // types and metadata stay correct
    if (!initializers.contains(value.name()) && value.type().has_tensor_type())
      value.mutable_type()->mutable_tensor_type()->clear_shape();
  for (auto &output : *graph.mutable_output()) {
    if (!output.type().has_tensor_type()) continue;
    auto &type = *output.mutable_type()->mutable_tensor_type();
    if (!type.has_shape() || type.shape().dim_size() == 0 || !type.shape().dim(0).has_dim_value()) continue;
    auto &first = *type.mutable_shape()->mutable_dim(0);
    const auto name = opened.find(first.dim_value());
    name == opened.end() ? first.clear_value() : first.set_dim_param(name->second);
  }
}

void ModelEditor::saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName) {
  saveExternally(*proto_->mutable_graph(), source_->files, ids, fileName);
}

std::string ModelEditor::serialised() const {
  onnx_proto::ModelProto message = *proto_;
  detachFromFolder(message, source_->files);
  return onnx::serialised(message);
}

}  // namespace popart::onnx
