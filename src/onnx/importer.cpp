// Importer: scopes, initializers, functions and subgraphs. For untrusted input there are limits, which depend on the
// file's size and a fixed allowance, on nesting, the number of nodes after inlining and the bytes of new constants. So
// functions that call functions, and constants made from constants, cannot grow without a limit.
#include "onnx/importer.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <popart/error.hpp>

#include "base/environment.hpp"
#include "ir/facts.hpp"
#include "onnx/data_files.hpp"
#include "onnx/model_check.hpp"
#include "onnx/module_names.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/training/trainable_tensors.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr int kMaxDepth = 64;
// Limits of nodes after functions are expanded: this many in any case, plus this many for each node of the file.
constexpr int64_t kNodeAllowance = int64_t{1} << 16;
constexpr int64_t kNodesPerGivenNode = 64;

std::string functionKey(const std::string &domain, const std::string &name, const std::string &overload) {
  return (domain.empty() ? "ai.onnx" : domain) + "." + name + ":" + overload;
}

std::map<std::string, int64_t> opsetMap(
    const google::protobuf::RepeatedPtrField<onnx_proto::OperatorSetIdProto> &imports) {
  std::map<std::string, int64_t> versions;
  for (const auto &import : imports) versions[import.domain().empty() ? "ai.onnx" : import.domain()] = import.version();
  return versions;
}

// Initializers that a node writes must be variables, whatever their type.
std::set<std::string> updatedNames(const onnx_proto::GraphProto &graph) {
  std::set<std::string> names;
  for (const auto &node : graph.node())
    if (node.op_type() == "CopyVarUpdate" && node.input_size() > 0) names.insert(node.input(0));
  return names;
}

// The nodes of the file, including those in bodies and functions.
template <class Nodes>
int64_t countNodes(const Nodes &nodes) {
  int64_t count = nodes.size();
  for (const auto &node : nodes)
    for (const auto &a : node.attribute()) {
      if (a.has_g()) count += countNodes(a.g().node());
      for (const auto &graph : a.graphs()) count += countNodes(graph.node());
    }
  return count;
}

// Under a memory limit the allowance is at most this fraction of it, but always enough for arithmetic on shapes.
constexpr int64_t kAllowancesInLimit = 8;
constexpr int64_t kLeastAllowanceBytes = int64_t{1} << 20;

FoldBudget budgetOf(int64_t givenBytes, int64_t limitBytes) {
  FoldBudget budget(givenBytes);
  if (limitBytes > 0 && !environment::maxFoldedBytes())
    budget.take(kFoldAllowanceBytes -
                std::clamp(limitBytes / kAllowancesInLimit, kLeastAllowanceBytes, kFoldAllowanceBytes));
  return budget;
}

// Restores the value of a variable.
template <class T>
class Restore {
 public:
  explicit Restore(T &variable) : variable_(variable), value_(variable) {}
  ~Restore() { variable_ = value_; }
  Restore(const Restore &) = delete;
  Restore &operator=(const Restore &) = delete;

 private:
  T &variable_;
  T value_;
};

struct DepthGuard {
  explicit DepthGuard(int &depth, const std::string &what) : depth_(depth) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      throw limit_error(
          "{}: functions and subgraphs are nested too deeply: expected at most {} levels. Recursive functions are not "
          "allowed",
          what, kMaxDepth);
    }
  }
  ~DepthGuard() { --depth_; }
  int &depth_;
};

}  // namespace

int64_t mostNodesAfterExpansion(int64_t given) { return kNodeAllowance + kNodesPerGivenNode * given; }

std::map<std::string, int64_t> opsetsOf(const onnx_proto::ModelProto &model) { return opsetMap(model.opset_import()); }

Importer::Importer(const ModelContent &model, const BuildOptions &options, Ir &ir)
    : model_(model), options_(options), ir_(ir), budget_(budgetOf(givenBytes(), options.limitBytes)) {
  int64_t nodes = countNodes(model.proto->graph().node());
  for (const auto &function : model.proto->functions()) nodes += countNodes(function.node());
  mostNodes_ = mostNodesAfterExpansion(nodes);
  for (const auto &function : model.proto->functions())
    functions_[functionKey(function.domain(), function.name(), function.overload())] = &function;
  for (const auto &name : definedNames(model.proto->graph())) reserved_.insert(name);
  if (options.weights == WeightRole::Variable) trainable_ = options.trainable.get();
}

// The bytes of the message, and of the external data files that it names.
int64_t Importer::givenBytes() const {
  int64_t bytes = static_cast<int64_t>(model_.proto->ByteSizeLong());
  for (const auto &entry : model_.payloads) bytes += entry.second.bytes.nbytes();
  std::set<std::string> files;
  for (const auto *tensor : externalTensors(std::as_const(*model_.proto))) {
    const std::string location = externalEntry(*tensor, tensor->name()).location;
    if (files.insert(location).second)
      bytes += static_cast<int64_t>(model_.files.file(location, tensor->name())->size());
  }
  return bytes;
}

// ---- names --------------------------------------------------------------------------------------

TensorIndex Importer::resolve(const std::string &name, Scope &scope) {
  auto found = scope.tensors.find(name);
  if (found != scope.tensors.end()) return found->second;
  if (const auto list = scope.sequences.find(name); list != scope.sequences.end())
    throw error(
        "'{}' is a sequence of {} tensors: expected a tensor. Take elements with SequenceAt or join them with "
        "ConcatFromSequence",
        name, static_cast<int64_t>(list->second.size()));
  if (const auto refusal = scope.refusals.find(name); refusal != scope.refusals.end())
    throw error("{}", refusal->second);
  if (!scope.outer)
    throw error("{}: tensor '{}' is read before anything defines it", scope.graph->getGraphString(), name);
  const TensorIndex outer = resolve(name, *scope.outer);
  if (!outer.valid() || scope.graph == scope.outer->graph) return outer;
  return scope.tensors[name] = capture(outer, name, scope);
}

TensorIndex Importer::capture(TensorIndex outer, const std::string &name, Scope &scope) {
  if (const auto known = scope.innerOf.find(outer); known != scope.innerOf.end()) return known->second;
  const Graph &around = *scope.outer->graph;
  const Tensor &tensor = around.tensor(outer);
  const TensorId id = freshId(*scope.graph, scope.graph->addScope(name));
  if (tensor.tensorType() == TensorType::Const && tensor.hasTensorData())
    return scope.graph->addConstant(id, tensor.tensorData());
  const TensorIndex inner = scope.graph->addInput(id, tensor.info);
  scope.captures.push_back({outer, inner});
  scope.innerOf.emplace(outer, inner);
  const auto countOf = [&](TensorIndex count) { return capture(count, name + "/length", scope); };
  Bounds bounds = sizes_.boundsOf(around, outer);
  for (Bound &bound : bounds) bound.count = countOf(bound.count);
  sizes_.setBounds(*scope.graph, inner, bounds);
  if (const Sizes *found = sizes_.sizesIn(around, outer)) {
    Sizes sizes = *found;
    for (Size &size : sizes)
      if (!size.isKnown()) size.count = countOf(size.count);
    sizes_.setSizes(*scope.graph, inner, std::move(sizes));
  }
  return inner;
}

TensorId Importer::freshId(const Graph &graph, const std::string &base) const {
  auto taken = [&](const TensorId &id) { return graph.contains(id) || (graph.isMain() && reserved_.count(id)); };
  if (!taken(base)) return base;
  int64_t &number = lastNumbers_[graph.id + '\n' + base];
  TensorId id;
  do id = base + "/" + std::to_string(++number);
  while (taken(id));
  return id;
}

// ---- ops ----------------------------------------------------------------------------------------

void Importer::addOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
                     const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings) {
  if (sizes_.concerns(graph, inputs)) return sizes_.addOp(graph, type, inputs, ids, std::move(attributes), settings);
  addPlainOp(graph, type, inputs, ids, std::move(attributes), settings);
}

void Importer::addPlainOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
                          const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings) {
  const OpDef *def = findOpDef(type);
  if (!def) throw error("{} '{}': the operator is not supported yet", type, settings.name);
  if (options_.unknownAttributes == UnknownAttributes::Drop && !def->createRule()) {
    const Attributes given = attributes;
    for (const auto &[name, value] : given.entries())
      if (!def->findAttribute(name)) attributes.erase(name);
  }
  if (options_.stridesGroups && def->findAttribute("strided_groups")) attributes.set("strided_groups", int64_t{1});
  Op::Settings own = settings;
  own.graph = &graph;
  Op *op = graph.addConnectedOp(*def, inputs, ids, std::move(attributes), std::move(own));
  if (folds_ && !isDifferentiated(graph, inputs)) foldOp(*op, options_.evaluate, budget_);
}

void Importer::countNode() {
  if (++nodesImported_ <= mostNodes_) return;
  throw limit_error(
      "Model '{}': has too many nodes after its functions were expanded: expected at most {}, which is {} and {} for "
      "each node of the file. Inline the functions in the file",
      model_.name, mostNodes_, kNodeAllowance, kNodesPerGivenNode);
}

namespace {

// The message with the name of the node.
std::string withNode(const onnx_proto::NodeProto &node, const std::string &message) {
  const std::string text = nodeText(node);
  return message.find(text) != std::string::npos ? message : "ONNX node " + text + ": " + message;
}

}  // namespace

bool Importer::readsBounded(const onnx_proto::NodeProto &node, const Scope &scope) const {
  return std::ranges::any_of(node.input(), [&](const std::string &name) {
    for (const Scope *s = &scope; s; s = s->outer)
      if (const auto found = s->tensors.find(name); found != s->tensors.end())
        return found->second.valid() && !sizes_.boundsOf(*s->graph, found->second).empty();
    return false;
  });
}

void Importer::importNode(const onnx_proto::NodeProto &proto, Scope &scope) {
  countNode();
  if (trainable_ && !scope.outer && proto.op_type() == "Identity" && proto.output_size() == 1 &&
      trainable_->separate.contains(proto.output(0)))
    return;  // its result is a separate tensor
  const Restore<bool> folds(folds_);
  if (!options_.foldsShared && readsShared(proto, scope)) folds_ = false;
  const auto byModules = scope.moduleNames.find(&proto);
  Op::Settings settings(*scope.graph, byModules == scope.moduleNames.end() ? proto.name() : byModules->second);
  const size_t slash = settings.name.rfind('/');
  if (slash != std::string::npos) settings.scope = settings.name.substr(0, slash);
  try {
    NodeAttributes attributes = readAttributes(proto, scope);
    attributes.values.erase(kDebugInfoAttribute);
    attributes.commGroup = attributes.values.getAttribute<std::vector<int64_t>>(kCommGroupAttribute, {});
    takePlacement(attributes.values, settings, nodeText(proto));
    NodeContext node(*this, scope, proto, std::move(attributes), std::move(settings));
    if (!importFunction(node)) importByRule(node);
  } catch (const internal_error &) {
    throw;
  } catch (const limit_error &e) {
    throw limit_error("{}", withNode(proto, e.what()));
  } catch (const unknown_value &e) {
    throw unknown_value("{}", withNode(proto, e.what()));
  } catch (const unknown_value_error &e) {
    throw unknown_value_error("{}", withNode(proto, e.what()));
  } catch (const unsupported_operator &e) {
    throw unsupported_operator("{}", withNode(proto, e.what()));
  } catch (const error &e) {
    if (readsBounded(proto, scope))
      throw unknown_value(
          "{} A size that it reads depends on data of the run: it must be known when the graph is built",
          withNode(proto, e.what()));
    if (withNode(proto, e.what()) == e.what()) throw;
    throw error("{}", withNode(proto, e.what()));
  }
}

void Importer::importNodes(const onnx_proto::GraphProto &graph, Scope &scope) {
  scope.source = &graph;
  std::set<std::string> outside;
  for (const Scope *s = scope.outer; s; s = s->outer) {
    for (const auto &entry : s->tensors) outside.insert(entry.first);
    for (const auto &entry : s->sequences) outside.insert(entry.first);
  }
  if (!options_.foldsShared) countReaders(graph, scope);
  scope.moduleNames = moduleNames(graph);
  for (int i : nodeOrder(graph, {&outside})) importNode(graph.node(i), scope);
}

// ---- the main graph -----------------------------------------------------------------------------

namespace {

template <class Nodes>
std::string changedAmong(const Nodes &nodes, int64_t version) {
  for (const auto &node : nodes) {
    for (const auto &a : node.attribute()) {
      if (const std::string inner = changedAmong(a.g().node(), version); !inner.empty()) return inner;
      for (const auto &graph : a.graphs())
        if (const std::string inner = changedAmong(graph.node(), version); !inner.empty()) return inner;
    }
    const std::vector<OpVersion> versions = onnxVersions(node.op_type());
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    const auto isNewer = [&](OpVersion v) { return v > version && v <= kOldestOnnxOpset; };
    if (own && (std::ranges::any_of(versions, isNewer) || versions.empty() || versions.front() > version))
      return node.op_type();
  }
  return {};
}

// An operator of ai.onnx that has another meaning in the oldest supported operator set; empty when there is none.
std::string changedOperator(const onnx_proto::ModelProto &model, int64_t version) {
  for (const auto &function : model.functions())
    if (const std::string changed = changedAmong(function.node(), version); !changed.empty()) return changed;
  return changedAmong(model.graph().node(), version);
}

}  // namespace

void Importer::checkOpsets() const {
  for (const auto &[domain, version] : opsetsOf(*model_.proto)) {
    if (domain != "ai.onnx") continue;
    if (version < kOldestOnnxOpset) {
      const std::string changed = changedOperator(*model_.proto, version);
      check(changed.empty(),
            "Model '{}': operator set of ai.onnx is too old: got {}, expected {} or newer, as operator {} has changed "
            "since. Convert it with onnx.version_converter",
            model_.name, version, kOldestOnnxOpset, changed);
    }
    check(version <= newestOnnxOpset() || options_.versions == OpVersionRule::Lenient,
          "Model '{}': operator set of ai.onnx is newer than this library: got {}, expected at most {}. Convert it, or "
          "set strictOpVersions to "
          "false",
          model_.name, version, newestOnnxOpset());
  }
}

bool Importer::isVariable(const TensorId &id) const {
  if (!trainable_) return options_.weights == WeightRole::Variable;
  if (options_.differentiated.contains(id)) return true;  // bodies capture variables, but copy constants
  return (options_.purpose == Purpose::Training ? trainable_->variables : trainable_->replaceable).contains(id);
}

void Importer::addInitializers(const onnx_proto::GraphProto &graph, Scope &scope) {
  const std::set<std::string> updated = updatedNames(graph);
  const bool main = scope.outer == nullptr;
  const auto isCopy = [&](const std::string &name) { return main && trainable_ && trainable_->copies.contains(name); };
  const auto isFed = [&](const std::string &name) { return main && options_.fed.contains(name); };
  auto add = [&](const std::string &name, const TensorData &data, bool mayTrain) {
    const bool weight = isFloatingPoint(data.info().dataType()) && mayTrain && isVariable(name);
    const bool variable = main && (weight || options_.updatable.contains(name) || updated.contains(name));
    TensorId id = scope.graph->addScope(scope.prefix + name);
    if (scope.graph->contains(id)) id = freshId(*scope.graph, id);
    scope.tensors[name] = variable ? scope.graph->addVariable(id, data) : scope.graph->addConstant(id, data);
  };
  for (const auto &tensor : graph.initializer()) {
    if (isCopy(tensor.name()) || isFed(tensor.name())) continue;
    if (holdsText(tensor)) {
      scope.refusals[tensor.name()] =
          "Initializer '" + tensor.name() +
          "': element type is not supported: got strings, expected numbers or booleans. popart.load and popart.backend "
          "compute operators of text on the host";
      continue;
    }
    if (const TensorIndex lifted = main ? TensorIndex{} : variableOfBody(tensor, scope); lifted.valid())
      scope.tensors[tensor.name()] = lifted;
    else
      add(tensor.name(), readTensor(tensor, tensor.name()), true);
  }
  for (const auto &tensor : graph.sparse_initializer())
    if (!isFed(tensor.values().name()))
      add(tensor.values().name(), readSparseTensor(tensor, tensor.values().name()), false);
}

void Importer::addFurtherVariables(Scope &main) {
  if (!trainable_) return;
  Graph &graph = *main.graph;
  for (const auto &[copy, of] : trainable_->copies) {
    const TensorIndex original = main.tensors.at(of.original);
    const Shape &shape = graph.info(original).shape();
    const auto own = std::ranges::find(model_.proto->graph().initializer(), copy, &onnx_proto::TensorProto::name);
    if (of.isTransposed)
      addOp(graph, "Transpose", {original}, {copy}, {{"perm", std::vector<int64_t>{1, 0}}}, Op::Settings(graph, copy));
    else
      addOp(graph, shape == tensorInfo(*own, copy).shape() ? "Identity" : "Reshape", {original}, {copy},
            shape == tensorInfo(*own, copy).shape() ? Attributes{}
                                                    : Attributes{{"shape", tensorInfo(*own, copy).shape()}},
            Op::Settings(graph, copy));
    main.tensors[copy] = graph.find(copy);
  }
  for (const auto &[name, source] : trainable_->separate) {
    const TensorData &value = graph.tensor(main.tensors.at(source)).tensorData();
    main.tensors[name] = isVariable(name) ? graph.addVariable(name, value) : graph.addConstant(name, value);
  }
  for (const auto &[tensor, id] : trainable_->inBodies)
    if (isVariable(id)) {
      reserved_.insert(id);
      main.tensors[id] = graph.addVariable(id, readTensor(*tensor, tensor->name()));
    }
}

TensorIndex Importer::variableOfBody(const onnx_proto::TensorProto &tensor, Scope &scope) {
  if (!trainable_) return {};
  const auto found = trainable_->inBodies.find(&tensor);
  if (found == trainable_->inBodies.end()) return {};
  const Scope *outermost = &scope;
  while (outermost->outer) outermost = outermost->outer;
  return outermost->tensors.contains(found->second) ? resolve(found->second, scope) : TensorIndex{};
}

// ---- builders -----------------------------------------------------------------------------------

Refusal Importer::tryImportNode(const onnx_proto::NodeProto &node, Scope &scope) {
  const auto refused = [&](Refusal::Reason reason, const std::string &text) {
    for (const auto &output : node.output()) {
      scope.tensors.erase(output);
      scope.refusals[output] = text;
    }
    return Refusal{reason, text};
  };
  for (const Scope *s = &scope; s; s = s->outer)
    for (const auto &input : node.input())
      if (auto found = s->refusals.find(input); found != s->refusals.end())
        return refused(Refusal::Reason::Input, found->second);
  try {
    importNode(node, scope);
    return {};
  } catch (const internal_error &) {
    throw;
  } catch (const unknown_value &e) {
    return refused(Refusal::Reason::Value, e.what());
  } catch (const unknown_value_error &e) {
    return refused(Refusal::Reason::Value, e.what());
  } catch (const unsupported_operator &e) {
    return refused(Refusal::Reason::Unknown, e.what());
  } catch (const error &e) {
    return refused(Refusal::Reason::Node, e.what());
  }
}

// ---- functions and subgraphs --------------------------------------------------------------------

bool Importer::isFunction(const NodeContext &node) const {
  return functions_.contains(functionKey(node.domain(), node.type(), node.overload()));
}

bool Importer::importFunction(NodeContext &node) {
  const auto found = functions_.find(functionKey(node.domain(), node.type(), node.overload()));
  if (found == functions_.end()) return false;
  const onnx_proto::FunctionProto &function = *found->second;
  const std::string what = "Function '" + found->first + "'";
  const DepthGuard guard(depth_, what), inFunction(functionDepth_, what);
  Scope scope;
  scope.graph = &node.graph();
  scope.opsets = opsetMap(function.opset_import());
  for (const auto &[domain, version] : node.scope().opsets) scope.opsets.emplace(domain, version);
  scope.functionAttributes = &node.nodeAttributes();
  scope.function = &function;
  const std::string callName = node.settings().name.empty()
                                   ? node.outputNames().empty() ? node.type() : node.outputNames().front()
                                   : node.settings().name;
  scope.prefix = node.scope().prefix + callName + "/";
  node.require(node.namedInputs() <= function.input_size(),
               "too many inputs: got {}, expected at most {} as function '{}' declares", node.namedInputs(),
               function.input_size(), found->first);
  node.require(node.outputCount() <= function.output_size(),
               "too many outputs: got {}, expected at most {} as function '{}' declares", node.outputCount(),
               function.output_size(), found->first);
  for (int i = 0; i < function.input_size(); ++i) define(function.input(i), node.meaning(i), scope);
  for (int i = 0; i < node.outputCount(); ++i)
    if (node.hasOut(i)) scope.wantedIds.emplace(function.output(i), node.outputId(i));
  if (!options_.foldsShared) countReaders(function, scope);
  for (int i : nodeOrder(function)) importNode(function.node(i), scope);
  for (int i = 0; i < node.outputCount(); ++i) {
    if (!node.hasOut(i)) continue;
    const Meaning result = meaningOf(function.output(i), scope);
    node.require(result.sequence || result.tensor.valid(),
                 "function '{}' returns an input that the call leaves out: '{}'", found->first, function.output(i));
    node.resultMeaning(i, result);
  }
  return true;
}

namespace {

bool isDefined(const std::string &name, const Scope *scope) {
  for (; scope; scope = scope->outer)
    if (scope->tensors.contains(name) || scope->sequences.contains(name)) return true;
  return false;
}

// The inputs of a body that the node provides, `given` in number. Loop and If provide nothing for inputs that have the
// name of an outer tensor (Builder::addInputTensorFromParentGraph): these refer to that tensor.
std::vector<std::string> formalInputs(const onnx_proto::GraphProto &body, size_t given, const Scope &scope) {
  const bool all = body.input_size() == static_cast<int>(given);
  std::vector<std::string> formal;
  for (const auto &input : body.input())
    if (all || !isDefined(input.name(), scope.outer)) formal.push_back(input.name());
  check(formal.size() == given, "Subgraph '{}': wrong number of inputs: got {}, expected {}", body.name(), given,
        formal.size());
  return formal;
}

}  // namespace

std::vector<Meaning> Importer::writeGraph(const onnx_proto::GraphProto &body, Scope &scope,
                                          const std::vector<Meaning> &inputs) {
  DepthGuard guard(depth_, "Subgraph '" + body.name() + "'");
  const std::vector<std::string> formal = formalInputs(body, inputs.size(), scope);
  for (size_t i = 0; i < formal.size(); ++i) define(formal[i], inputs[i], scope);
  addInitializers(body, scope);
  importNodes(body, scope);
  std::vector<Meaning> outputs;
  for (const auto &output : body.output()) outputs.push_back(meaningOf(output.name(), scope));
  return outputs;
}

void Importer::removeGraphsBut(const std::vector<Graph *> &before) {
  for (const Graph *graph : ir_.getAllGraphs())
    if (std::ranges::find(before, graph) == before.end()) {
      sizes_.forget(*graph);
      ir_.removeGraph(graph->id);
    }
}

Graph &Importer::importBody(const onnx_proto::GraphProto &body, const std::string &name,
                            const std::vector<TensorInfo> &inputInfos, Scope &scope, std::vector<Meaning> *meanings,
                            BodySizes sizes) {
  Graph &graph = ir_.createGraph(ir_.createUniqueSubgraphId(name));
  scope.graph = &graph;
  const std::vector<std::string> formal = formalInputs(body, inputInfos.size(), scope);
  std::vector<Meaning> inputs;
  for (size_t i = 0; i < formal.size(); ++i)
    inputs.emplace_back(graph.addInput(graph.addScope(formal[i]), inputInfos[i]));
  const std::vector<Meaning> outputs = writeGraph(body, scope, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &outputName = body.output(static_cast<int>(i)).name();
    const auto known = [&](TensorIndex t) { requireKnownSize(graph, t, outputName, "the caller of a subgraph"); };
    if (outputs[i].tensor.valid() && sizes == BodySizes::Known) known(outputs[i].tensor);
    if (outputs[i].sequence) std::ranges::for_each(*outputs[i].sequence, known);
    if (!meanings) resolve(outputName, scope);  // refuses sequences
    if (outputs[i].tensor.valid()) graph.markOutput(outputs[i].tensor);
    if (outputs[i].sequence)
      for (TensorIndex element : *outputs[i].sequence) graph.markOutput(element);
  }
  if (meanings) *meanings = outputs;
  return graph;
}

Graph &Importer::importPart(const std::vector<const onnx_proto::NodeProto *> &nodes,
                            const std::vector<std::string> &names, const std::vector<TensorInfo> &infos,
                            const std::string &name, Scope &scope) {
  const DepthGuard guard(depth_, "Part '" + name + "'");
  Graph &graph = ir_.createGraph(ir_.createUniqueSubgraphId(name));
  scope.graph = &graph;
  for (size_t i = 0; i < names.size(); ++i) define(names[i], graph.addInput(graph.addScope(names[i]), infos[i]), scope);
  for (const onnx_proto::NodeProto *node : nodes) importNode(*node, scope);
  return graph;
}

std::vector<Meaning> Importer::inlineGraph(const onnx_proto::GraphProto &body, Scope &outer, const std::string &prefix,
                                           const std::vector<TensorId> &outputIds, const std::vector<Meaning> &inputs) {
  Scope scope;
  scope.graph = outer.graph;
  scope.outer = &outer;
  scope.prefix = prefix;
  scope.opsets = outer.opsets;
  scope.functionAttributes = outer.functionAttributes;
  scope.function = outer.function;
  for (size_t i = 0; i < outputIds.size() && static_cast<int>(i) < body.output_size(); ++i)
    if (!outputIds[i].empty()) scope.wantedIds.emplace(body.output(static_cast<int>(i)).name(), outputIds[i]);
  return writeGraph(body, scope, inputs);
}

}  // namespace popart::onnx
