// The main graph of a model: its inputs (InputShapeInfo gives missing shapes and optional inputs) and its outputs.
#include <algorithm>
#include <set>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "ir/facts.hpp"
#include "onnx/importer.hpp"
#include "onnx/input_metadata.hpp"
#include "onnx/model_check.hpp"
#include "onnx/training/trainable_tensors.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using SymbolTable = std::map<std::string, int64_t>;

// The type of an optional value is that of its content.
const onnx_proto::TypeProto &heldType(const onnx_proto::ValueInfoProto &value) {
  return value.type().has_optional_type() ? value.type().optional_type().elem_type() : value.type();
}

const onnx_proto::TypeProto::Tensor &tensorType(const onnx_proto::ValueInfoProto &input) {
  check(heldType(input).has_tensor_type(),
        "Graph input '{}': sparse tensors and maps are not supported as inputs: expected a dense tensor, a sequence of "
        "tensors or an optional one of them",
        input.name());
  return heldType(input).tensor_type();
}

bool isSequence(const onnx_proto::ValueInfoProto &input) { return heldType(input).has_sequence_type(); }

// An optional graph input is present if InputShapeInfo names it.
bool isAbsent(const onnx_proto::ValueInfoProto &input, const std::map<TensorId, TensorInfo> &infos) {
  return input.type().has_optional_type() && !infos.contains(input.name());
}

// Fixes the symbolic dimensions that entries of InputShapeInfo determine.
void bindSymbols(const onnx_proto::GraphProto &graph, const std::map<TensorId, TensorInfo> &infos,
                 SymbolTable &symbols) {
  for (const auto &input : graph.input()) {
    auto given = infos.find(input.name());
    if (given == infos.end() || !heldType(input).tensor_type().has_shape()) continue;
    const auto &shape = heldType(input).tensor_type().shape();
    check(shape.dim_size() == given->second.rank(),
          "Graph input '{}': rank given by InputShapeInfo differs from the model: got {}, expected {} dimensions",
          input.name(), given->second, shape.dim_size());
    for (int i = 0; i < shape.dim_size(); ++i) {
      const int64_t value = given->second.shape()[i];
      if (shape.dim(i).has_dim_value() && shape.dim(i).dim_value() > 0)
        check(
            shape.dim(i).dim_value() == value,
            "Graph input '{}': InputShapeInfo gives {} but the model fixes dimension {} to {}. Export the model with a "
            "dynamic dimension",
            input.name(), given->second, i, static_cast<long>(shape.dim(i).dim_value()));
      if (!shape.dim(i).dim_param().empty()) {
        auto [entry, isNew] = symbols.emplace(shape.dim(i).dim_param(), value);
        check(isNew || entry->second == value,
              "Graph input '{}': InputShapeInfo gives symbolic dimension '{}' two values: got {} and {}", input.name(),
              shape.dim(i).dim_param(), entry->second, value);
      }
    }
  }
}

TensorInfo inputInfo(const onnx_proto::ValueInfoProto &input, const std::map<TensorId, TensorInfo> &infos,
                     const SymbolTable &symbols) {
  const auto &type = tensorType(input);
  const DataType elementType = type.elem_type() == 0 ? DataType::UNDEFINED : fromOnnxDataType(type.elem_type());
  auto given = infos.find(input.name());
  if (given != infos.end()) {
    check(elementType == DataType::UNDEFINED || elementType == given->second.dataType(),
          "Graph input '{}': element type given by InputShapeInfo differs from the model: got {}, expected {}",
          input.name(), given->second, elementType);
    return given->second;
  }
  const std::string advice =
      "Give it with InputShapeInfo: inputShapeInfo.add(\"" + input.name() +
      "\", TensorInfo(\"FLOAT\", [...])), or set engineOptions[\"max_shape_programs\"] to take it from every run";
  check(elementType != DataType::UNDEFINED, "Graph input '{}': has no element type. {}", input.name(), advice);
  check(getDataTypeInfo(elementType).nbytes > 0,
        "Graph input '{}': element type is not supported: got {}, expected numbers or booleans", input.name(),
        elementType);
  check(type.has_shape(), "Graph input '{}': has no shape. {}", input.name(), advice);
  Shape shape;
  int64_t known = 1;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const auto &dim = type.shape().dim(i);
    if (dim.dim_value() > 0) {
      check(known <= (int64_t{1} << 48) / dim.dim_value(),
            "Graph input '{}': shape is too large: got {} in dimension {}, expected at most 2^48 elements",
            input.name(), static_cast<long>(dim.dim_value()), i);
      known *= dim.dim_value();
    }
    auto symbol = symbols.find(dim.dim_param());
    if (dim.has_dim_value()) {
      check(dim.dim_value() >= 0, "Graph input '{}': dimension {} is negative: got {}. {}", input.name(), i,
            static_cast<long>(dim.dim_value()), advice);
      shape.push_back(dim.dim_value());
    } else if (symbol != symbols.end()) {
      shape.push_back(symbol->second);
    } else {
      throw error("Graph input '{}': dimension {} is not fixed: got {}, expected a number. {}", input.name(), i,
                  dim.dim_param().empty() ? std::string("no value") : "symbol '" + dim.dim_param() + "'", advice);
    }
  }
  return TensorInfo(elementType, std::move(shape));
}

}  // namespace

namespace {

// Compares the declaration of a graph input with the initializer of its name; types and sizes left open are not
// compared.
void requireDeclared(const onnx_proto::ValueInfoProto &input, const TensorInfo &info) {
  if (!input.type().has_tensor_type()) return;
  const auto &type = input.type().tensor_type();
  bool fits = type.elem_type() == 0 || fromOnnxDataType(type.elem_type()) == info.dataType();
  std::vector<std::string> declared;
  if (type.has_shape()) {
    fits = fits && type.shape().dim_size() == info.rank();
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto &dim = type.shape().dim(i);
      declared.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
      fits = fits && (!dim.has_dim_value() || dim.dim_value() == info.dim(i));
    }
  }
  check(
      fits,
      "Initializer '{}': it differs from the graph input of its name: got {}, expected {} {}. Mend the declaration or "
      "the values",
      input.name(), info, type.elem_type() == 0 ? std::string("any type") : toText(fromOnnxDataType(type.elem_type())),
      type.has_shape() ? toText(declared) : std::string("of any shape"));
}

// VariableSettings that the builder stores in the model. The initializer has one value per group of replicas.
void applyReplicas(const onnx_proto::ValueInfoProto &input, Tensor &tensor, int64_t replicas) {
  const std::optional<std::vector<int64_t>> numbers = metadataNumbers(input, kReplicasKey);
  if (!numbers) return;
  applyTensorFacts({{"replicas", *numbers}}, tensor);
  if (replicas == 0) return;
  const auto count = static_cast<unsigned>(replicas);
  const unsigned returned = tensor.variableSettings.numReplicasReturningVariable(count);
  if (returned > 1 && tensor.tensorType() == TensorType::Const) {
    logging::ir::warn(
        "Initializer '{}': the host reads {} values of it from the replicas: it stays a variable, although "
        "weights are constants here",
        tensor.id, returned);
    tensor.setTensorType(TensorType::Variable);
  }
  if (tensor.variableSettings.getGroupCount(count) == 1) return;
  tensor.info =
      TensorInfo(tensor.info.dataType(), tensor.variableSettings.shapeOnReplica(tensor.info.shape(), count, tensor.id));
}

}  // namespace

void Importer::addModelInputs(const onnx_proto::GraphProto &graph, Scope &scope) {
  SymbolTable symbols;
  bindSymbols(graph, options_.inputShapeInfo, symbols);
  for (const auto &input : graph.input()) {
    if (const auto initializer = scope.tensors.find(input.name()); initializer != scope.tensors.end()) {
      Tensor &tensor = scope.graph->tensor(initializer->second);
      requireDeclared(input, tensor.info);
      applyReplicas(input, tensor, options_.replicas);
      continue;
    }
    if (isSequence(input)) {
      addSequenceInput(input, scope);
    } else if (isAbsent(input, options_.inputShapeInfo)) {
      define(input.name(), {}, scope);
    } else {
      const TensorInfo info = inputInfo(input, options_.inputShapeInfo, symbols);
      scope.tensors[input.name()] = scope.graph->addStream(input.name(), info);
    }
  }
}

namespace {

// Whether a model that declares `declared` may get `got`: positions (ArgMax, TopK) are INT32 here and INT64 in ONNX.
bool fitsType(DataType declared, DataType got) {
  return declared == got || (declared == DataType::INT64 && got == DataType::INT32);
}

// The declaration of a value that differs from its computed info; "" if they match. Parts that are left open (no type,
// no shape, a symbol) always match, and so do dimensions whose sizes depend on data of the run.
std::string wrongDeclaration(const onnx_proto::ValueInfoProto &value, const TensorInfo &info, const Bounds &open) {
  if (!value.has_type() || !value.type().has_tensor_type()) return {};
  const auto &type = value.type().tensor_type();
  const DataType declared = type.elem_type() == 0 ? DataType::UNDEFINED : fromOnnxDataType(type.elem_type());
  std::vector<std::string> dims;
  bool fits = type.elem_type() == 0 || fitsType(declared, info.dataType());
  fits = fits && (!type.has_shape() || type.shape().dim_size() == info.rank());
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const auto &dim = type.shape().dim(i);
    dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
    const bool isOpen = std::ranges::find(open, i, &Bound::axis) != open.end();
    fits = fits && (isOpen || !dim.has_dim_value() || dim.dim_value() == info.dim(i));
  }
  if (fits) return {};
  return formatText("'{}' is declared as {} {} and computed as {}",
                    {value.name(), toText(declared), type.has_shape() ? toText(dims) : "", toText(info)});
}

}  // namespace

// For outputs and inner values; the computed info is used.
void Importer::compareDeclared(const onnx_proto::GraphProto &graph, const Scope &scope) {
  for (const auto *values : {&graph.output(), &graph.value_info()})
    for (const auto &value : *values) {
      const auto found = scope.tensors.find(value.name());
      if (found == scope.tensors.end() || !found->second.valid()) continue;
      const Bounds open = sizes_.boundsOf(*scope.graph, found->second);
      const std::string wrong = wrongDeclaration(value, scope.graph->info(found->second), open);
      if (!wrong.empty()) wrongDeclarations_.push_back(wrong);
    }
}

void Importer::logFindings() const {
  if (const auto count = static_cast<int64_t>(inferenceForms_.size()))
    logging::ir::info(
        "Model '{}': {} Dropout and BatchNormalization nodes in training form are computed in inference form. "
        "SessionOptions::followTrainingMode keeps the form of the file",
        model_.name, count);
  if (wrongDeclarations_.empty()) return;
  const auto others = static_cast<int64_t>(wrongDeclarations_.size()) - 1;
  logging::ir::warn("Model '{}': {}{}. The computed types and shapes are used. Correct the declarations in the file",
                    model_.name, wrongDeclarations_.front(),
                    others > 0 ? formatText(", and so are {} others", {toText(others)}) : "");
}

void Importer::importMainGraph() {
  checkOpsets();
  const auto &graph = model_.proto->graph();
  Scope scope;
  scope.graph = &ir_.getMainGraph();
  scope.opsets = opsetsOf(*model_.proto);
  addInitializers(graph, scope);
  addFurtherVariables(scope);
  addModelInputs(graph, scope);
  importNodes(graph, scope);
  markOutputs(graph, scope);
  boundReturned(scope);
  compareDeclared(graph, scope);
}

TensorId lengthId(const std::string &name, size_t i) {
  return name + "/length" + (i == 0 ? "" : "/" + std::to_string(i));
}

void Importer::requireKnownSize(const Graph &graph, TensorIndex t, const std::string &name,
                                const std::string &what) const {
  if (!sizes_.boundsOf(graph, t).empty())
    throw unknown_value(
        "the size of '{}' depends on data of the run: it must be known when the graph is built, as {} cannot read "
        "it otherwise. Make the value that decides it a constant or an initializer",
        name, what);
}

const std::vector<OutputLength> &Importer::lengthsOf(const TensorId &output) const {
  static const std::vector<OutputLength> kNone;
  const auto found = lengths_.find(output);
  return found == lengths_.end() ? kNone : found->second;
}

// The output gets zeros after its values, so that the same values give the same bytes, and a tensor with their number.
// A name may occur several times.
void Importer::markOutput(Graph &graph, TensorIndex t, const TensorId &id) {
  if (marked_.insert(id).second) makeOutput(graph, t, id);
  graph.markOutput(graph.find(id));
  for (const OutputLength &length : lengthsOf(id)) graph.markOutput(graph.find(length.id));
}

void Importer::makeOutput(Graph &graph, TensorIndex t, const TensorId &id) {
  const Bounds bounds = sizes_.boundsOf(graph, t);
  const Op::Settings settings(graph, id);
  const auto name = [&](TensorIndex part, const TensorId &partId) {
    check(!graph.contains(partId),
          "Model '{}': a tensor is called '{}', which is the name of a part of a graph output. Rename it", model_.name,
          partId);
    addPlainOp(graph, "Identity", {part}, {partId}, {}, settings);
  };
  if (!bounds.empty()) {
    const PlainOps to(*this, graph, id, settings);
    if (graph.tensor(t).id == id) graph.renameTensor(t, freshId(graph, id + "/padded"));
    const DataType type = graph.info(t).dataType();
    t = BoundedSizes::masked(to, t, bounds, to.number(type, 0));
  }
  if (graph.tensor(t).id != id) name(t, id);
  for (size_t i = 0; i < bounds.size(); ++i) {
    const TensorId length = lengthId(id, i);
    name(BoundedSizes::length(PlainOps(*this, graph, id, settings), bounds[i]), length);
    lengths_[id].push_back({length, bounds[i].axis});
  }
}

void Importer::markOutputs(const onnx_proto::GraphProto &graph, Scope &scope) {
  for (const auto &output : graph.output()) {
    const Meaning meaning = meaningOf(output.name(), scope);
    if (meaning.tensor.valid()) {
      const bool isBounded = !sizes_.boundsOf(*scope.graph, meaning.tensor).empty();
      if (isBounded)
        markOutput(*scope.graph, meaning.tensor, output.name());
      else
        scope.graph->markOutput(meaning.tensor);
    }
    check(
        !meaning.sequence || !output.type().has_tensor_type(),
        "Model '{}': graph output '{}' is a sequence of {} tensors: expected a tensor as the model declares. Declare a "
        "sequence, or join its tensors with ConcatFromSequence",
        model_.name, output.name(), meaning.sequence ? static_cast<int64_t>(meaning.sequence->size()) : 0);
    const Sequence none, &elements = meaning.sequence ? *meaning.sequence : none;
    for (size_t i = 0; i < elements.size(); ++i) markOutput(*scope.graph, elements[i], elementId(output.name(), i));
  }
}

void Importer::boundReturned(Scope &scope) {
  for (const TensorId &id : options_.returned) {
    if (marked_.contains(id) || options_.differentiated.contains(id)) continue;  // a gradient is for the tensor itself
    const auto found = scope.tensors.find(id);
    const TensorIndex t = found == scope.tensors.end() ? scope.graph->find(id) : found->second;
    if (t.valid() && !sizes_.boundsOf(*scope.graph, t).empty()) makeOutput(*scope.graph, t, id);
  }
}

namespace {

BuildOptions withTrainable(const Model &model, const BuildOptions &options) {
  BuildOptions all = options;
  if (all.weights == WeightRole::Variable && !all.trainable)
    all.trainable = std::make_shared<const TrainableTensors>(trainableTensors(model));
  return all;
}

}  // namespace

std::map<std::string, OutputTensors> outputTensors(const Model &model, const BuildOptions &options) {
  Ir ir;
  const BuildOptions all = withTrainable(model, options);
  Importer importer(model.content(), all, ir);
  importer.importMainGraph();
  const Graph &graph = ir.getMainGraph();
  const std::set<TensorIndex> marked(graph.outputs().begin(), graph.outputs().end());
  std::map<std::string, OutputTensors> outputs;
  for (const auto &output : model.content().proto->graph().output()) {
    const std::string &name = output.name();
    const auto [entry, isNew] = outputs.try_emplace(name);
    if (!isNew) continue;
    OutputTensors &of = entry->second;
    const TensorIndex whole = graph.find(name);
    if (whole.valid() && marked.contains(whole)) {
      of.ids.push_back(name);
    } else {
      while (graph.contains(elementId(name, of.ids.size()))) of.ids.push_back(elementId(name, of.ids.size()));
    }
    for (const TensorId &id : of.ids) of.lengths.push_back(importer.lengthsOf(id));
  }
  for (const TensorId &id : options.returned)
    if (!outputs.contains(id) && graph.contains(id)) outputs[id] = {{id}, {importer.lengthsOf(id)}};
  return outputs;
}

void buildGraph(const Model &model, const BuildOptions &options, Ir &ir) {
  const BuildOptions all = withTrainable(model, options);
  Importer importer(model.content(), all, ir);
  importer.importMainGraph();
  importer.logFindings();
}

void Importer::importAvailable(const onnx_proto::GraphProto &graph, Scope &scope) {
  scope.source = &graph;
  addInitializers(graph, scope);
  addFurtherVariables(scope);
  SymbolTable symbols;
  bindSymbols(graph, options_.inputShapeInfo, symbols);
  for (const auto &input : graph.input()) {
    if (scope.tensors.count(input.name())) continue;
    try {
      if (isSequence(input)) {
        check(options_.inputShapeInfo.contains(elementId(input.name(), 0)) ||
                  options_.inputShapeInfo.contains(input.name()),
              "Graph input '{}': is a sequence: the number of its tensors is not known. Give each of them with "
              "InputShapeInfo: '{}', '{}' and so on",
              input.name(), elementId(input.name(), 0), elementId(input.name(), 1));
        addSequenceInput(input, scope);
        continue;
      }
      scope.tensors[input.name()] =
          scope.graph->addStream(input.name(), inputInfo(input, options_.inputShapeInfo, symbols));
    } catch (const internal_error &) {
      throw;
    } catch (const error &e) {
      scope.refusals[input.name()] = e.what();  // InputShapeInfo will give the shape
    }
  }
  for (int i : nodeOrder(graph, {})) tryImportNode(graph.node(i), scope);
}

}  // namespace popart::onnx
