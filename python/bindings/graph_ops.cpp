// Ops as Python sees them: making, asking and rewiring them, and their settings.
#include <array>

#include "graph_handles.hpp"
#include "ir/operand_types.hpp"
#include "ir/placement.hpp"
#include "ops/control/loops.hpp"

using namespace nb::literals;

namespace popart::python {
namespace {

// ---- attributes
AttributeValue typedAttribute(nb::handle value, AttributeType type) {
  switch (type) {
    case AttributeType::Int:
      return nb::cast<int64_t>(value);
    case AttributeType::Float:
      return nb::cast<float>(value);
    case AttributeType::String:
      return nb::cast<std::string>(value);
    case AttributeType::Ints:
      return nb::cast<std::vector<int64_t>>(value);
    case AttributeType::Floats:
      return nb::cast<std::vector<float>>(value);
    case AttributeType::Strings:
      return nb::cast<std::vector<std::string>>(value);
    case AttributeType::Graph:
      return GraphRef{nb::cast<std::string>(value)};
    case AttributeType::Tensor:
      throw error("tensor attributes cannot be given from Python");
  }
  throw internal_error("unknown attribute type");
}

// The type of an attribute whose row declares none: that of the value, or of the elements of a list.
AttributeType typeOfValue(nb::handle value) {
  const bool isList = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
  const nb::object element = isList && nb::len(value) > 0 ? nb::object(value[0]) : nb::borrow(value);
  if (nb::isinstance<nb::str>(element)) return isList ? AttributeType::Strings : AttributeType::String;
  if (nb::isinstance<nb::float_>(element)) return isList ? AttributeType::Floats : AttributeType::Float;
  return isList ? AttributeType::Ints : AttributeType::Int;
}

Attributes makeAttributes(const OpDef &def, const nb::dict &given) {
  Attributes attributes;
  for (auto [key, value] : given) {
    const auto name = fromPython<std::string>(key, def.type() + ": the name of an attribute");
    if (def.createRule()) {  // a user's operator
      attributes.set(name, typedAttribute(value, typeOfValue(value)));
      continue;
    }
    const AttributeDef *row = def.findAttribute(name);
    check(row != nullptr, "{}: the operator has no attribute '{}'", def.type(), name);
    try {
      attributes.set(name, typedAttribute(value, row->type));
    } catch (const nb::cast_error &) {
      throw error("{}: attribute '{}' has the wrong type: got {}", def.type(), name,
                  std::string(nb::repr(value).c_str()));
    }
  }
  return attributes;
}

nb::object attributeToPython(const AttributeValue &value) {
  return std::visit(
      [](const auto &v) -> nb::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, TensorData>)
          return nb::cast(v.info().str());
        else if constexpr (std::is_same_v<T, GraphRef>)
          return nb::cast(v.id);
        else
          return nb::cast(v);
      },
      value);
}

nb::dict attributesToPython(const Op &op) {
  nb::dict result;
  for (const auto &[name, value] : op.attributes().entries()) result[name.c_str()] = attributeToPython(value);
  return result;
}

// ---- ops
Op::Settings makeSettings(Graph &graph, const nb::dict &given) {
  Op::Settings settings(graph, nb::cast<std::string>(given["name"]));
  settings.scope = nb::cast<std::string>(given["scope"]);
  if (const nb::object ipu = given["ipu"]; !ipu.is_none()) settings.vgraphId = nb::cast<int64_t>(ipu);
  settings.tileSet = nb::cast<bool>(given["io_tiles"]) ? TileSet::IO : TileSet::Compute;
  settings.executionContext = static_cast<ExecutionContext>(nb::cast<int>(given["execution_context"]));
  const auto stage = nb::cast<int64_t>(given["pipeline_stage"]);
  if (stage >= 0) settings.pipelineStage = stage;
  return settings;
}

std::string scoped(const std::string &scope, const std::string &name) {
  return scope.empty() ? name : scope + "/" + name;
}

const OpDef &rowOf(const std::string &type, const std::string &name) {
  const OpDef *def = findOpDef(type);
  check(def != nullptr, "{} '{}': this operator is not supported yet", type, name);
  return *def;
}

void refuseChangedConstants(const Graph &graph, const OpDef &def, const std::vector<TensorIndex> &inputs) {
  for (const AliasDef &alias : def.aliasRules()) {
    if (!alias.modifies || alias.input < 0 || alias.input >= static_cast<int>(inputs.size())) continue;
    const TensorIndex t = inputs[static_cast<size_t>(alias.input)];
    check(!t.valid() || graph.tensor(t).tensorType() != TensorType::Const,
          "{}: the tensor '{}' is a constant, which no operator can change. Use a variable", def.type(),
          t.valid() ? graph.tensor(t).id : TensorId());
  }
}

Op *connectedOp(Graph &graph, const std::string &type, const std::vector<TensorIndex> &inputs,
                const std::vector<TensorId> &outputs, const nb::dict &attributes, Op::Settings settings) {
  const OpDef &def = rowOf(type, settings.name);
  refuseChangedConstants(graph, def, inputs);
  const OperandTypesUnchecked unchecked;
  return graph.addConnectedOp(def, inputs, outputs, makeAttributes(def, attributes), std::move(settings));
}

// ---- edits
void connectIn(Op &op, InIndex index, const TensorId &tensor, std::optional<int64_t> sourceIpu) {
  constexpr std::string_view kSource = "source";
  check(!sourceIpu || op.def().findAttribute(kSource), "{}: source_ipu: it copies between no IPUs: got {}",
        op.debugName(), sourceIpu.value_or(0));
  check(index >= 0, "{}: input index: got {}, expected 0 or more", op.debugName(), index);
  op.connectInTensor(index, tensor);
  if (sourceIpu) op.mutableAttributes().set("source", *sourceIpu);
}

Op *cloneIntoGraph(const Op &op, Graph &graph) {
  check(&op.getIr() == &graph.getIr(), "cloneIntoGraph: {}: graph '{}' belongs to another Ir", op.debugName(),
        graph.id);
  std::unique_ptr<Op> clone = op.clone();
  clone->settings = copySettings(op, graph);
  clone->id = graph.getIr().getAndIncrOpsCounter();
  return graph.addOp(std::move(clone));
}

Graph &bodyOf(Op &loop, const char *member) {
  check(loop.is(Role::Loop), "{}: {}: expected a loop", loop.debugName(), member);
  loop.mutableAttributes().set("carried", int64_t{ops::carriedCount(loop)});  // what it is before the edit
  return *loop.getCalledGraphs().front();
}

void checkPosition(const Op &loop, const char *member, int index, int first, int count, bool overwrite) {
  const int last = overwrite ? count - 1 : count;
  check(index >= first && index <= last, "{}: {}: index: got {}, expected {} to {}", loop.debugName(), member, index,
        first, last);
}

template <class List>
void put(List &list, int index, TensorIndex t, bool overwrite) {
  if (overwrite)
    list[static_cast<size_t>(index)] = t;
  else
    list.insert(list.begin() + index, t);
}

constexpr int kFirstLoopInput = 2;  // after trip count and condition

void addLoopInput(Op &loop, InIndex index, const TensorId &tensor, const TensorId &inside, bool overwrite) {
  Graph &graph = loop.getGraph(), &body = bodyOf(loop, "addLoopInput");
  std::vector<TensorIndex> given = loop.inputs(), taken = body.inputs();
  given.resize(std::max(given.size(), size_t{kFirstLoopInput}));
  checkPosition(loop, "addLoopInput", index, kFirstLoopInput, static_cast<int>(given.size()), overwrite);
  const Tensor &outer = *graph.getTensor(tensor);
  TensorIndex inner = body.find(inside);
  check(!inner.valid() || (!body.tensor(inner).hasProducer() && !body.tensor(inner).isGraphInput()),
        "{}: addLoopInput: '{}' has a value in the body already", loop.debugName(), inside);
  if (!inner.valid()) inner = body.addTensor(inside, outer.info, TensorType::ActGrad);
  put(given, index, outer.index(), overwrite);
  put(taken, index, inner, overwrite);
  body.setInputs(std::move(taken));
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].valid()) graph.connectInput(loop.index(), static_cast<InIndex>(i), given[i]);
  if (overwrite) return;
  auto modified = loop.attributes().getAttribute<std::vector<int64_t>>("modified", {});
  for (int64_t &m : modified) m += m >= index ? 1 : 0;
  loop.mutableAttributes().set("modified", modified);
}

void addLoopOutput(Op &loop, OutIndex index, const TensorId &tensor, const TensorId &inside, bool overwrite) {
  Graph &graph = loop.getGraph(), &body = bodyOf(loop, "addLoopOutput");
  std::vector<TensorIndex> results = loop.outputs(), returned = body.outputs();
  checkPosition(loop, "addLoopOutput", index, 0, static_cast<int>(results.size()), overwrite);
  const Tensor &inner = *body.getTensor(inside);
  TensorIndex outer = graph.find(tensor);
  check(!outer.valid() || !graph.tensor(outer).hasProducer(), "{}: addLoopOutput: '{}' has a producer already",
        loop.debugName(), tensor);
  if (!outer.valid()) outer = graph.addTensor(tensor, inner.info, TensorType::ActGrad);
  graph.tensor(outer).info = inner.info;
  put(results, index, outer, overwrite);
  put(returned, index + 1, inner.index(), overwrite);
  body.setOutputs(std::move(returned));
  for (int o = 0; o < loop.outputCount(); ++o) graph.disconnectOutput(loop.index(), o);
  for (size_t o = 0; o < results.size(); ++o)
    if (results[o].valid()) graph.connectOutput(loop.index(), static_cast<OutIndex>(o), results[o]);
  const int64_t carried = loop.attrInt("carried");
  if (!overwrite && index <= carried) loop.mutableAttributes().set("carried", carried + 1);
}

// ---- settings of an op, read and written where they stand
struct OpSettings {
  nb::object op;
  Op::Settings &get() const { return nb::inst_ptr<Handle<Op>>(op)->place.get().settings; }
};

// The type that Python gets for a setting.
template <class T>
struct PythonType {
  using Type = T;
};
template <class T>
struct PythonType<RareMap<T>> {
  using Type = typename RareMap<T>::Map;
};

template <auto Member>
void bindSetting(nb::class_<OpSettings> &settings, const char *name, const char *doc) {
  using Value = typename PythonType<std::decay_t<decltype(std::declval<Op::Settings>().*Member)>>::Type;
  settings.def_prop_rw(
      name, [](const OpSettings &s) -> Value { return s.get().*Member; },
      [](const OpSettings &s, Value value) { s.get().*Member = std::move(value); }, doc);
}

void bindSettings(nb::module_ &m) {
  using Settings = Op::Settings;
  nb::class_<OpSettings> settings(m, "Settings", "Where, when and under which name an op runs.");
  bindSetting<&Settings::name>(settings, "name", "Label, with name scopes.");
  bindSetting<&Settings::scope>(settings, "scope", "Name scopes.");
  bindSetting<&Settings::vgraphId>(settings, "vgraphId", "IPU number, None: any.");
  bindSetting<&Settings::pipelineStage>(settings, "pipelineStage", "Pipeline stage, None: any.");
  bindSetting<&Settings::executionPhase>(settings, "executionPhase", "Execution phase, None: any.");
  bindSetting<&Settings::recomputeType>(settings, "recomputeType", "RecomputeType.");
  bindSetting<&Settings::executionContext>(settings, "executionContext", "ExecutionContext.");
  bindSetting<&Settings::tileSet>(settings, "tileSet", "TileSet.");
  bindSetting<&Settings::schedulePriority>(settings, "schedulePriority", "Higher ones run earlier.");
  bindSetting<&Settings::excludePatterns>(settings, "excludePatterns", "Names of patterns that leave the op alone.");
  bindSetting<&Settings::inplacePreferences>(settings, "inplacePreferences", "In-place variant: priority.");
  bindSetting<&Settings::extraOutlineAttributes>(settings, "extraOutlineAttributes",
                                                 "Ops with other ones are not outlined together.");
}

nb::dict indexMap(const Op &op, const std::vector<TensorIndex> &tensors) {
  nb::dict result;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].valid()) result[nb::int_(i)] = op.getGraph().tensor(tensors[i]).id;
  return result;
}

std::vector<Tensor *> connected(const Op &op, const std::vector<TensorIndex> &tensors) {
  std::vector<Tensor *> result;
  for (TensorIndex t : tensors)
    if (t.valid()) result.push_back(&op.getGraph().tensor(t));
  return result;
}

}  // namespace

Op *createOp(Graph &graph, const std::string &type, const std::vector<std::optional<TensorId>> &inputs,
             const std::vector<TensorId> &outputs, const nb::dict &attributes, const nb::dict &settings) {
  rowOf(type, nb::cast<std::string>(settings["name"]));  // first: tensors of an operator that is none do not matter
  std::vector<TensorIndex> indices;
  for (const auto &id : inputs) indices.push_back(id ? graph.getTensor(*id)->index() : TensorIndex{});
  return connectedOp(graph, type, indices, outputs, attributes, makeSettings(graph, settings));
}

TensorId newId(Graph &graph, const std::string &name, const std::string &scope) {
  return graph.uniqueId(graph.addScope(scoped(scope, name.empty() ? "t" : name)));
}

std::vector<TensorId> uniqueIds(Graph &graph, const std::vector<std::string> &names, const std::string &scope) {
  std::vector<TensorId> ids;
  ids.reserve(names.size());
  for (const std::string &name : names) {
    const TensorId first = newId(graph, name, scope);
    TensorId candidate = first;
    while (std::find(ids.begin(), ids.end(), candidate) != ids.end())
      candidate = first + "__t" + std::to_string(graph.getIr().getAndIncrTensorCounter());
    ids.push_back(std::move(candidate));
  }
  return ids;
}

std::optional<EmittedOp> emitOp(Graph &graph, const std::string &type,
                                const std::vector<std::optional<uint32_t>> &inputs,
                                const std::vector<std::string> &names, const nb::dict &attributes,
                                const std::string &label, const std::string &scope, std::optional<VGraphId> ipu,
                                bool ioTiles, int executionContext, std::optional<PipelineStage> stage, size_t wanted,
                                const std::vector<OpId> &earlier, const std::optional<std::set<GraphId>> &movedInto) {
  std::vector<TensorIndex> indices;
  std::vector<const Tensor *> given;
  indices.reserve(inputs.size());
  given.reserve(inputs.size());
  for (const auto &input : inputs) {
    indices.push_back(input ? TensorIndex{*input} : TensorIndex{});
    if (!input) continue;
    if (!graph.alive(indices.back())) return std::nullopt;
    given.push_back(&graph.tensor(indices.back()));
  }
  if (movedInto && given.size() > 1 && !areTogether(given, *movedInto)) return std::nullopt;
  const std::vector<TensorId> outputs = uniqueIds(graph, names, scope);
  Op::Settings settings(graph, scoped(scope, label));
  settings.scope = scope;
  settings.vgraphId = ipu;
  settings.tileSet = ioTiles ? TileSet::IO : TileSet::Compute;
  settings.executionContext = static_cast<ExecutionContext>(executionContext);
  if (stage && *stage >= 0) settings.pipelineStage = stage;
  const Op &op = *connectedOp(graph, type, indices, outputs, attributes, std::move(settings));
  std::vector<MadeTensor> results;
  for (size_t o = 0; o < std::min(wanted, op.outputs().size()); ++o)
    results.push_back(madeTensor(graph.tensor(op.outputs()[o])));
  runAfter(op, earlier);
  return EmittedOp{op.id, std::move(results)};
}

void runAfter(const Op &later, const std::vector<OpId> &earlier) {
  Graph &graph = later.getGraph();
  for (const OpId other : earlier)
    if (const Op *op = findOp(graph, other); op && op != &later) graph.addConstraint(op->index(), later.index());
}

Op *findOp(const Graph &graph, OpId id) {
  for (uint32_t slot = static_cast<uint32_t>(graph.opSlots()); slot-- > 0;)  // programs ask for recent ops
    if (const OpIndex o{slot}; graph.alive(o) && graph.op(o).id == id) return &graph.op(o);
  return nullptr;
}

void bindOp(nb::module_ &m) {
  bindSettings(m);
  HandleClass<Op>(m, "Op", nb::is_weak_referenceable(), "A node of a graph.")
      .property("id", [](const Op &op) { return op.id; })
      .def(
          "_flops", [](const Op &op) { return costOf(op).flops; },
          "Arithmetic operations of one run, as plans count them.")
      .def("opType", [](const Op &op) { return op.opid.type; })
      .def("opDomain", [](const Op &op) { return op.opid.domain; })
      .def("name", [](const Op &op) { return op.name(); })
      .def("debugName", &Op::debugName)
      .def("str", &Op::str)
      .def("__repr__", &Op::debugName)
      .def("getGraph", &Op::getGraph, nb::rv_policy::reference_internal)
      .def("getInputIds",
           [](const Op &op) {
             std::vector<TensorId> ids;
             for (Tensor *t : connected(op, op.inputs())) ids.push_back(t->id);
             return ids;
           })
      .def("getOutputIds",
           [](const Op &op) {
             std::vector<TensorId> ids;
             for (Tensor *t : connected(op, op.outputs())) ids.push_back(t->id);
             return ids;
           })
      .def(
          "getInputTensors", [](const Op &op) { return connected(op, op.inputs()); }, nb::rv_policy::reference_internal)
      .def(
          "getOutputTensors", [](const Op &op) { return connected(op, op.outputs()); },
          nb::rv_policy::reference_internal)
      .def("getInputIndexMap", [](const Op &op) { return indexMap(op, op.inputs()); })
      .def("getOutputIndexMap", [](const Op &op) { return indexMap(op, op.outputs()); })
      .def("inTensor", &Op::inTensor, nb::rv_policy::reference_internal)
      .def("outTensor", &Op::outTensor, nb::rv_policy::reference_internal)
      .def("inId", [](const Op &op, int i) { return op.inId(i); })
      .def("outId", [](const Op &op, int i) { return op.outId(i); })
      .def("hasInput", &Op::hasInput)
      .def("hasOutput", &Op::hasOutput)
      .def("inputCount", &Op::inputCount)
      .def("outputCount", &Op::outputCount)
      .def("connectInTensor", &connectIn, "index"_a, "tensor"_a, "source_ipu"_a = nb::none(),
           "source_ipu: of a copy between IPUs, where it reads.")
      .def("connectOutTensor", &Op::connectOutTensor)
      .def("disconnectInTensor", &Op::disconnectInTensor)
      .def("disconnectAllInputs", &Op::disconnectAllInputs)
      .def("disconnectAllOutputs", &Op::disconnectAllOutputs)
      .def("createAndConnectOutTensor", &Op::createAndConnectOutTensor)
      .def("setup", &Op::setup, "Infers types and shapes of the results. Throws popart_exception.")
      .def("cloneIntoGraph", &cloneIntoGraph, "graph"_a,
           "A new op of the same kind and settings in a graph of the same Ir, connected to nothing.")
      .def("addLoopInput", &addLoopInput, "index"_a, "tensor"_a, "body_tensor"_a, "overwrite"_a = false,
           "Passes a tensor to the body of a loop as input `index` of both, before the present one or instead of it.")
      .def("addLoopOutput", &addLoopOutput, "index"_a, "tensor"_a, "body_tensor"_a, "overwrite"_a = false,
           "Makes a tensor of the body of a loop result `index`, output `index` + 1 of the body.")
      .property("settings", [](Op &op) { return OpSettings{objectOf(op)}; })
      .def("attributes", &attributesToPython)
      .def("modifiesInput", &Op::modifiesInput)
      .def("aliasesInput", &Op::aliasesInput)
      .def("getCalledGraphs", &Op::getCalledGraphs, nb::rv_policy::reference_internal)
      .def("getVirtualGraphId", [](const Op &op) { return op.settings.vgraphId; })
      .def("hasVirtualGraphId", [](const Op &op) { return op.settings.vgraphId.has_value(); })
      .def("isIoTiles", [](const Op &op) { return op.settings.tileSet == TileSet::IO; })
      .def("executionContext", [](const Op &op) { return static_cast<int>(op.settings.executionContext); })
      .def("setRecomputed", [](Op &op) { op.settings.recomputeType = RecomputeType::Recomputed; })
      .def("getModified",
           [](const Op &op) { return op.attributes().getAttribute<std::vector<int64_t>>("modified", {}); })
      .def("addModified", [](Op &op, int64_t input) {
        std::vector<int64_t> modified = op.attributes().getAttribute<std::vector<int64_t>>("modified", {});
        for (int64_t m : modified)
          if (m == input) return;
        modified.push_back(input);
        op.mutableAttributes().set("modified", modified);
      });
}

}  // namespace popart::python
