// Attribute messages -> Attributes, reference attributes of functions, and PopART's private node attributes ->
// Op::Settings.
#include <popart/error.hpp>

#include "onnx/importer.hpp"
#include "onnx/model_check.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Proto = onnx_proto::AttributeProto;

Proto::AttributeType typeOf(const Proto &a) {
  if (a.type() != Proto::UNDEFINED) return a.type();
  if (a.has_f()) return Proto::FLOAT;
  if (a.has_i()) return Proto::INT;
  if (a.has_s()) return Proto::STRING;
  if (a.has_t()) return Proto::TENSOR;
  if (a.has_g()) return Proto::GRAPH;
  if (a.floats_size()) return Proto::FLOATS;
  if (a.strings_size()) return Proto::STRINGS;
  return Proto::INTS;
}

}  // namespace

TensorData Importer::readTensor(const onnx_proto::TensorProto &tensor, const std::string &name) const {
  TensorData data = tensorData(tensor, name, model_);
  // A function's tensor is read once for each call of the function.
  const bool isCopy = data.data() != tensor.raw_data().data();
  if (functionDepth_ > 0 && isCopy) takeFromBudget(data.nbytes(), "Tensor '" + name + "' of a function called often");
  return data;
}

TensorData Importer::readSparseTensor(const onnx_proto::SparseTensorProto &tensor, const std::string &name) const {
  onnx_proto::TensorProto dense;
  dense.set_data_type(tensor.values().data_type());
  *dense.mutable_dims() = tensor.dims();
  const TensorInfo info = tensorInfo(dense, name);
  takeFromBudget(info.nbytes(), "Sparse tensor '" + name + "' of " + info.str());
  return denseTensorData(tensor, name, model_.files, model_.proto);
}

void Importer::takeFromBudget(int64_t bytes, const std::string &what) const {
  if (budget_.take(bytes)) return;
  throw limit_error(
      "{}: takes more memory than a model of this size may ask for: got {} bytes, expected at most {}. Store the "
      "values in the file, or raise POPART_MAX_FOLDED_BYTES or the memory limit",
      what, bytes, budget_.leftBytes());
}

AttributeValue Importer::readAttribute(const onnx_proto::AttributeProto &a, const std::string &where) const {
  switch (typeOf(a)) {
    case Proto::FLOAT:
      return a.f();
    case Proto::INT:
      return static_cast<int64_t>(a.i());
    case Proto::STRING:
      return a.s();
    case Proto::FLOATS:
      return std::vector<float>(a.floats().begin(), a.floats().end());
    case Proto::INTS:
      return std::vector<int64_t>(a.ints().begin(), a.ints().end());
    case Proto::STRINGS:
      return std::vector<std::string>(a.strings().begin(), a.strings().end());
    case Proto::TENSOR:
      check(a.name() != "sparse_value",
            "{}: attribute 'sparse_value' holds a dense tensor. Give it a sparse one, or the values as 'value'", where);
      return readTensor(a.t(), where + " attribute " + a.name());
    case Proto::SPARSE_TENSOR:
      return readSparseTensor(a.sparse_tensor(), where + " attribute " + a.name());
    default:
      throw error("{}: attribute '{}' has a type that is not supported: got type number {}", where, a.name(),
                  static_cast<int>(a.type()));
  }
}

void Importer::putAttribute(const onnx_proto::AttributeProto &a, const std::string &where, NodeAttributes &to) const {
  if (typeOf(a) == Proto::GRAPH) {
    to.graphs[a.name()] = &a.g();
  } else {
    to.values.set(a.name(), readAttribute(a, where));
  }
}

NodeAttributes Importer::readAttributes(const onnx_proto::NodeProto &node, const Scope &scope) const {
  NodeAttributes result;
  const std::string where = nodeText(node);
  for (const auto &a : node.attribute()) {
    if (node.op_type() == "Optional" && a.has_tp()) continue;  // the type of an absent value
    if (a.ref_attr_name().empty()) {
      putAttribute(a, where, result);
      continue;
    }
    check(scope.function != nullptr, "{}: attribute '{}' refers to '{}' outside of a function", where, a.name(),
          a.ref_attr_name());
    if (const AttributeValue *value = scope.functionAttributes->values.find(a.ref_attr_name())) {
      result.values.set(a.name(), *value);
      continue;
    }
    auto graph = scope.functionAttributes->graphs.find(a.ref_attr_name());
    if (graph != scope.functionAttributes->graphs.end()) {
      result.graphs[a.name()] = graph->second;
      continue;
    }
    for (const auto &fallback : scope.function->attribute_proto()) {
      if (fallback.name() != a.ref_attr_name()) continue;
      onnx_proto::AttributeProto renamed = fallback;
      renamed.set_name(a.name());
      if (typeOf(fallback) == Proto::GRAPH)
        result.graphs[a.name()] = &fallback.g();
      else
        result.values.set(a.name(), readAttribute(renamed, where));
    }
  }
  return result;
}

// ---- placement ----------------------------------------------------------------------------------

namespace {

template <class T>
const T &typed(const AttributeValue &value, const std::string &where, const std::string &name) {
  const T *v = std::get_if<T>(&value);
  if (!v) throw error("{}: attribute '{}' has the wrong type. Set it with the builder's method for it", where, name);
  return *v;
}

std::string hintText(const AttributeValue &value) {
  return std::visit(
      [](const auto &v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, TensorData>)
          return v.info().str();
        else if constexpr (std::is_same_v<T, GraphRef>)
          return v.id;
        else if constexpr (std::is_same_v<T, std::vector<float>>) {
          std::string text;
          for (float f : v) text += (text.empty() ? "" : ", ") + toText(f);
          return "[" + text + "]";
        } else
          return toText(v);
      },
      value);
}

TensorLocation locationOf(const std::vector<int64_t> &v, const std::string &where) {
  check(v.size() == 4 || v.size() == 6, "{}: attribute '__output_tensor_location' must hold 4 or 6 numbers: got {}",
        where, v);
  auto inRange = [&](size_t i, int64_t count) { return i >= v.size() || (v[i] >= 0 && v[i] < count); };
  check(inRange(0, 2) && inRange(1, static_cast<int>(TileSet::N)) && inRange(2, static_cast<int>(TileSet::N)) &&
            inRange(3, 2) && inRange(4, static_cast<int>(CommGroupType::N)) && inRange(5, int64_t{1} << 31),
        "{}: attribute '__output_tensor_location' holds an unknown value: got {}", where, v);
  TensorLocation location(static_cast<TensorStorage>(v[0]), static_cast<TileSet>(v[1]), static_cast<TileSet>(v[2]),
                          static_cast<ReplicatedTensorSharding>(v[3]));
  if (v.size() == 6) location.shardingDomain = CommGroup(static_cast<CommGroupType>(v[4]), static_cast<unsigned>(v[5]));
  return location;
}

void placeOne(const std::string &name, const AttributeValue &value, const Attributes &all, Op::Settings &s,
              const std::string &where) {
  if (name == "__ipu_number")
    s.vgraphId = typed<int64_t>(value, where, name);
  else if (name == "__pipeline_stage")
    s.pipelineStage = typed<int64_t>(value, where, name);
  else if (name == "__execution_phase")
    s.executionPhase = typed<int64_t>(value, where, name);
  else if (name == "__schedule_priority")
    s.schedulePriority = typed<float>(value, where, name);
  else if (name == "__recompute_output_in_backward_pass") {
    const int64_t v = typed<int64_t>(value, where, name);
    check(v >= 0 && v <= static_cast<int>(RecomputeType::Recomputed), "{}: attribute '{}' is no RecomputeType: got {}",
          where, name, v);
    s.recomputeType = static_cast<RecomputeType>(v);
  } else if (name == "__output_tensor_location")
    s.tensorLocation = locationOf(typed<std::vector<int64_t>>(value, where, name), where);
  else if (name == "__exclude_patterns") {
    const auto &names = typed<std::vector<std::string>>(value, where, name);
    s.excludePatterns.insert(names.begin(), names.end());
  } else if (name == "__inplace_op_names") {
    const auto &names = typed<std::vector<std::string>>(value, where, name);
    const auto priorities = all.getAttribute<std::vector<float>>("__inplace_op_priorities", {});
    check(names.size() == priorities.size(),
          "{}: attributes '__inplace_op_names' and '__inplace_op_priorities' differ in length", where);
    for (size_t i = 0; i < names.size(); ++i) s.inplacePreferences[names[i]] = priorities[i];
  } else if (name == "__outline_attribute") {
    const auto &pairs = typed<std::vector<std::string>>(value, where, name);
    check(pairs.size() % 2 == 0, "{}: attribute '{}' must hold pairs of key and value", where, name);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) s.extraOutlineAttributes[pairs[i]] = pairs[i + 1];
  } else if (name != kCommGroupAttribute) {
    s.hints[name.substr(2)] = hintText(value);
  }
}

}  // namespace

void takePlacement(Attributes &attributes, Op::Settings &settings, const std::string &where) {
  std::vector<std::string> taken;
  for (const auto &[name, value] : attributes.entries()) {
    if (name.rfind("__", 0) != 0) continue;
    placeOne(name, value, attributes, settings, where);
    taken.push_back(name);
  }
  for (const auto &name : taken) attributes.erase(name);
}

}  // namespace popart::onnx
