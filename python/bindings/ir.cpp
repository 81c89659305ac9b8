// Module popart_core._ir: the core's Ir, Graph, Tensor and Op as Python sees them, differentiation and the session of
// hand-written programs. Element types cross as the numbers of DataType; host values cross as buffers without copying.

#include <nanobind/stl/array.h>
#include <popart/sessionoptions.hpp>

#include "api/ir_session.hpp"
#include "autodiff/autodiff.hpp"
#include "graph_handles.hpp"
#include "ir/placement.hpp"
#include "transforms/decompose_sums.hpp"

using namespace nb::literals;

namespace popart::python {
namespace {

// A C-contiguous buffer of a Python object, held until destruction.
class HostBuffer {
 public:
  HostBuffer(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  HostBuffer(const HostBuffer &) = delete;
  HostBuffer &operator=(const HostBuffer &) = delete;
  ~HostBuffer() {
    HoldGil gil;
    PyBuffer_Release(&view_);
  }
  void *data() const { return view_.buf; }
  int64_t bytes() const { return view_.len; }
  Shape shape() const { return Shape(view_.shape, view_.shape + view_.ndim); }

 private:
  Py_buffer view_;
};

void checkBytes(const HostBuffer &buffer, const TensorInfo &info, const std::string &what) {
  check(buffer.bytes() == info.nbytes(), "tensor '{}': host data has another size: got {} bytes, expected {} for {}",
        what, buffer.bytes(), info.nbytes(), info);
}

TensorInfo makeInfo(int type, const Shape &shape, const Shape &metaShape = {}) {
  const auto dataType = static_cast<DataType>(type);
  return metaShape.empty() ? TensorInfo(dataType, shape) : TensorInfo(dataType, shape, metaShape);
}

// ---- tensors
nb::tuple placementToPython(const Tensor &tensor, const std::set<GraphId> &movedInto) {
  const TensorPlacement placement = placementOf(tensor, movedInto);
  const nb::object tiles = placement.tiles ? nb::object(nb::str(*placement.tiles == TileSet::IO ? "io" : "compute"))
                                           : nb::object(nb::none());
  return nb::make_tuple(placement.ipu, tiles);
}

bool areTogetherInPython(const nb::list &given, const std::set<GraphId> &movedInto) {
  std::vector<const Tensor *> tensors;
  tensors.reserve(given.size());
  for (nb::handle tensor : given) tensors.push_back(&valueOf<Tensor>(tensor));
  return areTogether(tensors, movedInto);
}

nb::tuple sizesToPython(const Shape &shape) {
  nb::tuple sizes = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i)
    PyTuple_SetItem(sizes.ptr(), static_cast<Py_ssize_t>(i), nb::int_(shape[i]).release().ptr());
  return sizes;
}

void bindTensor(nb::module_ &m) {
  HandleClass<Tensor>(m, "Tensor", nb::is_weak_referenceable(), "A typed edge of a graph.")
      .property("id", [](const Tensor &t) { return t.id; })
      .property("index", [](const Tensor &t) { return t.index().value; })
      .def("shape", [](const Tensor &t) { return sizesToPython(t.info.shape()); })
      .def("metaShape", [](const Tensor &t) { return sizesToPython(t.info.metaShape()); })
      .def("dataType", [](const Tensor &t) { return static_cast<int>(t.info.dataType()); })
      .def("nelms", [](const Tensor &t) { return t.info.nelms(); })
      .def("nbytes", [](const Tensor &t) { return t.info.nbytes(); })
      .def("setReplicaGroups",
           [](Tensor &t, unsigned stride, unsigned size, bool returnsAll) {
             t.variableSettings = VariableSettings(
                 stride, size, returnsAll ? VariableRetrievalMode::AllReplicas : VariableRetrievalMode::OnePerGroup);
           })
      .def("tensorType", [](const Tensor &t) { return static_cast<int>(t.tensorType()); })
      .def("getGraph", &Tensor::getGraph, nb::rv_policy::reference_internal)
      .def("hasProducer", &Tensor::hasProducer)
      .def("getProducer", &Tensor::getProducer, nb::rv_policy::reference_internal)
      .def(
          "firstConsumer",
          [](const Tensor &t) { return t.uses().empty() ? nullptr : &t.getGraph().op(t.uses().front().op); },
          nb::rv_policy::reference_internal)
      .def("placement", &placementToPython, "moved_into"_a, "IPU and tile set, None for what nothing determines.")
      .def("isGraphInput", &Tensor::isGraphInput)
      .def("isGraphOutput", &Tensor::isGraphOutput)
      .property_rw(
          "byReference", [](const Tensor &t) { return t.byReference; },
          [](Tensor &t, bool given) { t.byReference = given; })
      .def(
          "bytes",
          [](const Tensor &t) {
            return nb::bytes(static_cast<const char *>(t.tensorData().data()), t.tensorData().nbytes());
          },
          "Host value of a constant or variable, plain C order.");
}

// ---- graphs
TensorData sharedData(const TensorInfo &info, nb::handle host, const TensorId &id) {
  auto owner = std::make_shared<HostBuffer>(host, PyBUF_C_CONTIGUOUS);
  checkBytes(*owner, info, id);
  return TensorData::share(info, owner, owner->data());
}

TensorData copiedData(const TensorInfo &info, nb::handle host, const TensorId &id) {
  HostBuffer buffer(host, PyBUF_C_CONTIGUOUS);
  checkBytes(buffer, info, id);
  return TensorData(info, buffer.data());
}

std::vector<MadeTensor> newVariables(Graph &graph, const std::vector<std::string> &names, const std::string &scope,
                                     const std::vector<int> &types, const nb::list &hosts) {
  check(names.size() == types.size() && names.size() == hosts.size(),
        "new variables: got {} names, {} types and {} arrays, expected as many of each", names.size(), types.size(),
        hosts.size());
  std::vector<MadeTensor> made;
  made.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorId id = newId(graph, names[i], scope);
    const auto owner = std::make_shared<HostBuffer>(hosts[i], PyBUF_C_CONTIGUOUS);
    const TensorInfo info = makeInfo(types[i], owner->shape());
    checkBytes(*owner, info, id);
    made.push_back(madeTensor(graph.tensor(graph.addVariable(id, TensorData::share(info, owner, owner->data())))));
  }
  return made;
}

// Position of the tensor, -1 when it is not in the list.
int64_t indexIn(const std::vector<TensorIndex> &list, const Tensor &t) {
  const auto it = std::find(list.begin(), list.end(), t.index());
  return it == list.end() ? -1 : it - list.begin();
}

void bindGraphTensors(HandleClass<Graph> &graph) {
  graph.def("uniqueId", [](Graph &g, const std::string &name) { return g.uniqueId(g.addScope(name)); })
      .def("uniqueIds", &uniqueIds, "names"_a, "scope"_a, "Of the new tensors of one op.")
      .def("addScope", &Graph::addScope)
      .def("contains", &Graph::contains)
      .def("getTensor", &Graph::getTensor, nb::rv_policy::reference_internal)
      .def(
          "tensorAt",
          [](const Graph &g, uint32_t index, const TensorId &id) {
            return &atAliveIndex(g, TensorIndex{index}, Label<Tensor>(id));
          },
          nb::rv_policy::reference_internal, "index"_a, "id"_a,
          "The tensor that was made with this index and id. Throws popart_exception when it was erased.")
      .def(
          "shapeAt",
          [](const Graph &g, uint32_t index) -> nb::object {
            if (!g.alive(TensorIndex{index})) return nb::none();
            return sizesToPython(g.tensor(TensorIndex{index}).info.shape());
          },
          nb::arg("index"), "Shape of the tensor with this index, without an object for it; None: it was erased.")
      .def(
          "dataTypeAt",
          [](const Graph &g, uint32_t index) -> std::optional<int> {
            if (!g.alive(TensorIndex{index})) return std::nullopt;
            return static_cast<int>(g.tensor(TensorIndex{index}).info.dataType());
          },
          nb::arg("index"), "As `shapeAt`: number of the element type.")
      .def("getTensors", &Graph::tensors, nb::rv_policy::reference_internal)
      .def(
          "getTensorIds",
          [](const Graph &g, int type) {
            std::vector<TensorId> ids;
            for (const Tensor *t : g.tensors())
              if (!t->isRemote && (type < 0 || static_cast<int>(t->tensorType()) == type)) ids.push_back(t->id);
            return ids;
          },
          "Of one type (-1: of all); remote buffers are not tensors of the program.")
      .def(
          "addVariable",
          [](Graph &g, const TensorId &id, int type, const Shape &shape, nb::handle host, const Shape &metaShape) {
            Tensor &t = g.tensor(g.addVariable(id, sharedData(makeInfo(type, shape), host, id)));
            t.info = makeInfo(type, shape, metaShape);
            return &t;
          },
          nb::rv_policy::reference_internal, nb::arg("id"), nb::arg("type"), nb::arg("shape"), nb::arg("host"),
          nb::arg("metaShape") = Shape())
      .def("newVariables", &newVariables, "names"_a, "scope"_a, "types"_a, "hosts"_a,
           "Variables with the values and shapes of arrays, which they share; their ids are made of names and name\n"
           "scope. Returns index and id of each.")
      .def(
          "setRemoteBuffer",
          [](Graph &g, const TensorId &id, int type, const Shape &shape, const Shape &metaShape) {
            const TensorInfo info = makeInfo(type, shape, metaShape);
            if (!g.contains(id)) {
              Tensor &t = g.tensor(g.addTensor(id, info, TensorType::Variable));
              t.isRemote = true;
              t.variableSettings = VariableSettings(CommGroup(CommGroupType::None, 0));  // each replica has its own
            }
            g.getTensor(id)->info = info;
          },
          "Adds the remote variable `id`, or gives it another size; shape: rows first.")
      .def(
          "addHostTensor",
          [](Graph &g, const TensorId &id, int type, const Shape &shape, const Shape &metaShape) {
            return &g.tensor(g.addTensor(id, makeInfo(type, shape, metaShape), TensorType::Unknown));
          },
          nb::rv_policy::reference_internal, "A name for a value that programs do not reach.")
      .def(
          "addConstant",
          [](Graph &g, const TensorId &id, int type, const Shape &shape, nb::handle host) {
            return &g.tensor(g.addConstant(id, copiedData(makeInfo(type, shape), host, id)));
          },
          nb::rv_policy::reference_internal)
      .def(
          "addInput",
          [](Graph &g, const TensorId &id, int type, const Shape &shape, const Shape &metaShape, bool byReference) {
            Tensor &t = g.tensor(g.addInput(id, makeInfo(type, shape, metaShape)));
            t.byReference = byReference;
            return &t;
          },
          nb::rv_policy::reference_internal)
      .def(
          "newInput",
          [](Graph &g, const std::string &name, const std::string &scope, int type, const Shape &shape,
             const Shape &metaShape, bool byReference) {
            Tensor &t = g.tensor(g.addInput(newId(g, name, scope), makeInfo(type, shape, metaShape)));
            t.byReference = byReference;
            return madeTensor(t);
          },
          "As addInput, of an id that is made of the name and name scope; returns the tensor's index and this id.")
      .def(
          "addStream",
          [](Graph &g, const TensorId &id, int type, const Shape &shape) {
            return &g.tensor(g.addStream(id, makeInfo(type, shape)));
          },
          nb::rv_policy::reference_internal)
      .def("markAsOutput", [](Graph &g, const TensorId &id) { g.markOutput(g.getTensor(id)->index()); })
      .def("removeOutput",
           [](Graph &g, int i) {
             auto outputs = g.outputs();
             check(i >= 0 && i < static_cast<int>(outputs.size()),
                   "graph '{}': removeOutput: output index: got {}, it has {} outputs", g.id, i, outputs.size());
             outputs.erase(outputs.begin() + i);
             g.setOutputs(std::move(outputs));
           })
      .def("getInputIds", &Graph::getInputIds)
      .def("getOutputIds", &Graph::getOutputIds)
      .def("inputIndex", [](const Graph &g, const Tensor &t) { return indexIn(g.inputs(), t); })
      .def("outputIndex", [](const Graph &g, const Tensor &t) { return indexIn(g.outputs(), t); })
      .def("getInputId", [](const Graph &g, int i) { return g.getInputIds().at(i); })
      .def("getOutputId", [](const Graph &g, int i) { return g.getOutputIds().at(i); })
      .def(
          "getInputTensor", [](const Graph &g, int i) { return &g.tensor(g.inputs().at(i)); },
          nb::rv_policy::reference_internal)
      .def(
          "getOutputTensor", [](const Graph &g, int i) { return &g.tensor(g.outputs().at(i)); },
          nb::rv_policy::reference_internal);
}

void runAfterInGraph(const Graph &graph, OpId id, const std::vector<OpId> &earlier) {
  const Op *later = findOp(graph, id);
  check(later, "graph '{}': no such op: got {}", graph.id, id);
  runAfter(*later, earlier);
}

void bindGraph(nb::module_ &m) {
  HandleClass<Graph> graph(m, "Graph", nb::is_weak_referenceable(), "Owns ops and tensors.");
  graph.property("id", [](const Graph &g) { return g.id; })
      .def("getIr", &Graph::getIr, nb::rv_policy::reference)
      .def("getIrId", [](const Graph &g) { return g.getIr().getId(); })
      .def("createOp", &createOp, nb::rv_policy::reference_internal, "type"_a, "inputs"_a, "outputs"_a, "attributes"_a,
           "settings"_a, "Adds an op of the catalog; input None: absent optional input. Throws popart_exception.")
      .def("emitOp", &emitOp, "type"_a, "inputs"_a, "names"_a, "attributes"_a, "label"_a, "scope"_a, "ipu"_a.none(),
           "io_tiles"_a, "execution_context"_a, "pipeline_stage"_a.none(), "wanted"_a, "earlier"_a,
           "moved_into"_a.none(),
           "Adds an op of the catalog to tensors given by index (None: absent), after the ops `earlier`; returns its\n"
           "number, and index and id of its first `wanted` results. None, and no op, when a tensor was erased, or,\n"
           "with `moved_into`, when they are not together (`areTogether`). Throws popart_exception.")
      .def("appendCallOutput",
           [](Graph &g, OpId op, const TensorId &id) {
             Op *o = findOp(g, op);
             g.createOutput(o->index(), o->outputCount(), id);
             o->setup();
           })
      .def("getOps", &Graph::ops, nb::rv_policy::reference_internal)
      .def("getOpIds",
           [](const Graph &g) {
             std::vector<OpId> ids;
             for (const Op *op : g.ops()) ids.push_back(op->id);
             return ids;
           })
      .def("hasOp", [](const Graph &g, OpId id) { return findOp(g, id) != nullptr; })
      .def("getOp", &findOp, nb::rv_policy::reference_internal)
      .def(
          "getOpSchedule", [](const Graph &g, bool) { return g.getOpSchedule(); }, "finalLoss"_a = true,
          nb::rv_policy::reference_internal)
      .def("getCalledGraphs", &Graph::getCalledGraphs, nb::rv_policy::reference_internal)
      .def("addConstraint",
           [](Graph &g, OpId before, OpId after) {
             const Op *a = findOp(g, before), *b = findOp(g, after);
             check(a && b, "graph '{}': no such ops: got {} and {}", g.id, before, after);
             g.addConstraint(a->index(), b->index());
           })
      .def("runAfter", &runAfterInGraph, "op"_a, "earlier"_a,
           "An op runs after others of the graph; those gone are skipped.")
      .def("printSchedule",
           [](const Graph &g, const nb::dict &given) {
             std::map<TensorId, std::string> names;
             for (auto [id, name] : given)
               names.emplace(fromPython<std::string>(id, "printSchedule: a tensor"),
                             fromPython<std::string>(name, "printSchedule: the name of a tensor"));
             return printSchedule(g, names);
           })
      .def("decomposeSums", [](Graph &g) { transforms::decomposeSums(g); })
      .def("print", [](const Graph &g) { return print(g); })
      .def("toDot", [](const Graph &g) { return toDot(g); });
  bindGraphTensors(graph);
}

// ---- Ir and differentiation
std::vector<TensorId> usedStreams(const Ir &ir, const std::string &opType) {
  std::set<TensorId> ids;
  for (const Op *op : ir.opsOfType(opType)) ids.insert(op->attrString("stream"));
  return {ids.begin(), ids.end()};
}

void removeGraph(Ir &ir, const GraphId &id) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      for (const Graph *called : op->getCalledGraphs())
        check(called->id != id, "removeGraph: graph '{}' is called by {} of {}. Erase that op first", id,
              op->debugName(), graph->getGraphString());
  ir.removeGraph(id);
}

void removeIsolatedGraphs(Ir &ir) {
  std::set<GraphId> reached{""};
  std::vector<const Graph *> waiting{&ir.getMainGraph()};
  while (!waiting.empty()) {
    const Graph *graph = waiting.back();
    waiting.pop_back();
    for (const Graph *called : graph->getCalledGraphs())
      if (reached.insert(called->id).second) waiting.push_back(called);
  }
  for (const Graph *graph : ir.getAllGraphs())
    if (const GraphId id = graph->id; !reached.count(id)) ir.removeGraph(id);
}

void bindIrClass(nb::module_ &m) {
  nb::class_<Ir>(m, "Ir", nb::is_weak_referenceable(), nb::dynamic_attr(),
                 "A program: graphs and the counters that name things.")
      .def(nb::new_([] { return std::make_shared<Ir>(); }))
      .def("getId", &Ir::getId)
      .def("getMainGraph", &Ir::getMainGraph, nb::rv_policy::reference_internal)
      .def("getGraph", &Ir::getGraph, nb::rv_policy::reference_internal)
      .def("hasGraph", &Ir::hasGraph)
      .def("createGraph", &Ir::createGraph, nb::rv_policy::reference_internal)
      .def("removeGraph", &removeGraph, "id"_a, "Throws popart_exception for one that is called, and the main graph.")
      .def("removeIsolatedGraphs", &removeIsolatedGraphs, "Removes graphs that the main graph does not reach.")
      .def("getAllGraphs", &Ir::getAllGraphs, nb::rv_policy::reference_internal)
      .def("createUniqueSubgraphId", &Ir::createUniqueSubgraphId)
      .def("getAndIncrTensorCounter", &Ir::getAndIncrTensorCounter)
      .def("getAndIncrOpsCounter", &Ir::getAndIncrOpsCounter)
      .def("usedStreams", &usedStreams)
      .def("print", [](const Ir &ir) { return print(ir); })
      .def("verify", [](const Ir &ir) { verify(ir); });
}

using Connection = std::pair<TensorId, int>;

std::vector<Connection> connections(const std::vector<autodiff::ExpectedConnection> &from) {
  std::vector<Connection> result;
  for (const auto &c : from) result.emplace_back(c.fwdId, static_cast<int>(c.type));
  return result;
}

std::vector<autodiff::ExpectedConnection> connections(const std::vector<Connection> &from) {
  std::vector<autodiff::ExpectedConnection> result;
  for (const auto &[id, type] : from) result.push_back({id, static_cast<autodiff::ConnectionType>(type)});
  return result;
}

void bindAutodiff(nb::module_ &m) {
  using autodiff::GradInfo;
  nb::class_<GradInfo>(m, "BwdGraphInfo",
                       "What a gradient graph expects and gives; connection types: 0 Fwd, 1 FwdGrad.")
      .def("__init__",
           [](GradInfo *info, GraphId forward, GraphId gradient, const std::vector<Connection> &in,
              const std::vector<Connection> &out) {
             new (info) GradInfo{std::move(forward), std::move(gradient), connections(in), connections(out)};
           })
      .def_ro("forward", &GradInfo::forward)
      .def_ro("gradient", &GradInfo::gradient)
      .def_prop_ro("expectedInputs", [](const GradInfo &i) { return connections(i.expectedInputs); })
      .def_prop_ro("expectedOutputs", [](const GradInfo &i) { return connections(i.expectedOutputs); });
  m.def(
      "differentiate",
      [](Ir &ir, const GraphId &forward, const std::optional<std::vector<TensorId>> &provided,
         const std::optional<std::vector<TensorId>> &required, const std::vector<GradInfo> &known) {
        autodiff::GradInfos infos;
        for (const GradInfo &info : known) infos.emplace(info.forward, info);
        const auto result = autodiff::differentiate(ir, forward, provided ? &*provided : nullptr,
                                                    required ? &*required : nullptr, infos);
        std::vector<GradInfo> list;
        for (const auto &[id, info] : result) list.push_back(info);
        return list;
      },
      "ir"_a, "forward"_a, "grads_provided"_a.none(), "grads_required"_a.none(), "known"_a,
      "Differentiates a sub-graph; returns the infos of every graph differentiated.");
}

// ---- session
std::vector<nb::tuple> streamList(const std::vector<IrSession::Stream> &streams) {
  std::vector<nb::tuple> result;
  for (const auto &s : streams)
    result.push_back(nb::make_tuple(s.id, static_cast<int>(s.info.dataType()), s.info.shape()));
  return result;
}

void runSession(IrSession &session, const nb::list &inputs, const nb::list &outputs) {
  std::vector<std::unique_ptr<HostBuffer>> held;
  std::vector<const void *> in;
  std::vector<void *> out;
  held.reserve(inputs.size() + outputs.size());
  for (nb::handle h : inputs)
    in.push_back(held.emplace_back(std::make_unique<HostBuffer>(h, PyBUF_C_CONTIGUOUS))->data());
  for (nb::handle h : outputs)
    out.push_back(held.emplace_back(std::make_unique<HostBuffer>(h, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE))->data());
  ReleaseGil released;
  session.run(in, out);
}

void bindSession(nb::module_ &m) {
  nb::class_<IrSession>(m, "IrSession", "Runs a hand-written Ir.")
      .def("__init__",
           [](IrSession *self, const Ir &ir, DeviceType device, int64_t transfers, int replicas,
              const SessionOptions &sessionOptions) {
             IrSessionOptions options;
             options.device = device;
             options.transfers = transfers;
             options.replicas = replicas;
             options.total = static_cast<int>(sessionOptions.getGlobalReplicationFactor());
             options.firstLocal = static_cast<int>(sessionOptions.globalReplicaOffset);
             options.roundStochastically = sessionOptions.enableStochasticRounding;
             options.checkLog2Scales = sessionOptions.throwIfLog2ScaleTensorNotInRange;
             options.checkOrder = sessionOptions.enableInplaceAmbiguityChecking;
             if (sessionOptions.enableEngineCaching) options.cacheFolder = sessionOptions.cachePath;
             options.engineOptions = sessionOptions.engineOptions;
             ReleaseGil released;
             new (self) IrSession(ir, options);
           })
      .def("inputs", [](const IrSession &s) { return streamList(s.inputs()); })
      .def("outputs", [](const IrSession &s) { return streamList(s.outputs()); })
      .def("ipus", &IrSession::ipus)
      .def("load", &IrSession::load, nb::call_guard<ReleaseGil>())
      .def("hasVariable", &IrSession::hasVariable)
      .def("writeVariable",
           [](IrSession &s, const TensorId &id, nb::handle host) {
             HostBuffer buffer(host, PyBUF_C_CONTIGUOUS);
             s.writeVariable(id, buffer.data());
           })
      .def("readVariable",
           [](const IrSession &s, const TensorId &id, nb::handle host) {
             HostBuffer buffer(host, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
             ReleaseGil released;
             s.readVariable(id, buffer.data());
           })
      .def("readReplicas",
           [](const IrSession &s, const TensorId &id, nb::handle host) {
             HostBuffer buffer(host, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
             ReleaseGil released;
             s.readReplicas(id, buffer.data());
           })
      .def("writeRow",
           [](IrSession &s, const TensorId &id, int64_t row, nb::handle host) {
             HostBuffer buffer(host, PyBUF_C_CONTIGUOUS);
             s.writeRow(id, row, buffer.data());
           })
      .def("readRow",
           [](const IrSession &s, const TensorId &id, int64_t row, nb::handle host) {
             HostBuffer buffer(host, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
             ReleaseGil released;
             s.readRow(id, row, buffer.data());
           })
      .def("rngState", &IrSession::rngState)
      .def("setRngState", &IrSession::setRngState)
      .def("run", &runSession, "Buffers in the order of inputs() and outputs().")
      .def("statistics", &IrSession::statistics)
      .def("_report", &IrSession::getReport)
      .def(
          "_loweredModel",
          [](const IrSession &s, bool values) {
            const std::string bytes = s.getLoweredModel(values ? PrintData::Full : PrintData::Summary);
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("values"))
      .def("_runsToProfile", &IrSession::runsToProfile)
      .def("_profileRuns", &IrSession::profileRuns, nb::arg("runs"), nb::arg("before") = 0,
           nb::call_guard<ReleaseGil>())
      .def("_endProfile", &IrSession::endProfile, nb::call_guard<ReleaseGil>())
      .def("summary", &IrSession::summary);
}

}  // namespace

void bindIr(nb::module_ &module) {
  nb::module_ m = module.def_submodule("_ir", "Graphs of hand-written programs (popxl, popart.ir).");
  bindTensor(m);
  bindOp(m);
  bindGraph(m);
  bindIrClass(m);
  bindAutodiff(m);
  bindSession(m);
  bindGraphEdits(m);
  m.def("areTogether", &areTogetherInPython, "tensors"_a, "moved_into"_a,
        "Whether tensors whose placement is known are on one IPU and tile set.");
  m.def(
      "hasOperator", [](const std::string &type) { return findOpDef(type) != nullptr; },
      "Whether the catalog has a row of this type.");
}

}  // namespace popart::python
