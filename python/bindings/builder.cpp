// The core of popart.Builder: onnx::ModelBuilder with attributes as (name, kind, value) tuples.
#include "onnx/builder.hpp"
#include "backends/ref/ref.hpp"
#include "host_array.hpp"

namespace popart::python {
namespace {

using onnx::BuilderAttribute;
using onnx::ModelBuilder;

std::pair<std::string, BuilderAttribute> toAttribute(nb::handle triple) {
  const auto name = fromPython<std::string>(triple[0], "Builder: the name of an attribute");
  const auto kind = nb::cast<std::string>(triple[1]);
  const std::string what = "Builder: attribute '" + name + "'";
  const nb::object value = triple[2];
  if (kind == "int") return {name, fromPython<int64_t>(value, what)};
  if (kind == "float") return {name, fromPython<float>(value, what)};
  if (kind == "string") return {name, fromPython<std::string>(value, what)};
  if (kind == "ints") return {name, fromPython<std::vector<int64_t>>(value, what)};
  if (kind == "floats") return {name, fromPython<std::vector<float>>(value, what)};
  if (kind == "strings") return {name, fromPython<std::vector<std::string>>(value, what)};
  if (kind == "graph") return {name, static_cast<const ModelBuilder *>(nb::cast<ModelBuilder *>(value))};
  const HostArray array(value, HostArray::Types::All);
  array.requireContiguous("attribute", name);
  return {name, TensorData(array.info(), array.data())};
}

nb::object fromAttribute(const std::string &name, const BuilderAttribute &attribute) {
  constexpr const char *kKinds[] = {"int", "float", "string", "ints", "floats", "strings", "tensor", "graph"};
  nb::object value = std::visit(
      [](const auto &v) -> nb::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, TensorData>)
          return makeNumpyArray(v.info(), v.data());
        else if constexpr (std::is_same_v<T, const ModelBuilder *>)
          return nb::none();
        else
          return nb::cast(v);
      },
      attribute);
  return nb::make_tuple(name, kKinds[attribute.index()], value);
}

std::string modelText(nb::handle model) {
  if (PyBytes_Check(model.ptr()))
    return std::string(PyBytes_AsString(model.ptr()), static_cast<size_t>(PyBytes_Size(model.ptr())));
  return nb::hasattr(model, "__fspath__") ? pyText(model.attr("__fspath__")())
                                          : fromPython<std::string>(model, "model: the name of a file, or bytes");
}

void bindNodes(nb::class_<ModelBuilder> &c) {
  using Outputs = const std::set<TensorId> &;
  c.def("addNode",
        [](ModelBuilder &b, const std::string &domain, int64_t opset, const std::string &type, nb::list inputs,
           int outputs, nb::list attributes, const std::string &name) {
          std::vector<TensorId> ids;
          for (nb::handle input : inputs)
            ids.push_back(fromPython<TensorId>(input, "Builder: " + type + ": the name of an input"));
          onnx::BuilderAttributes typed;
          for (nb::handle attribute : attributes) typed.push_back(toAttribute(attribute));
          return b.addNode(domain, opset, type, ids, outputs, typed, name);
        })
      .def("checkpointOutput", &ModelBuilder::checkpointOutput, nb::arg("nodeOutputNames"))
      .def("opset", &ModelBuilder::opset)
      .def("spokenOpset", &ModelBuilder::spokenOpset)
      .def("speakOpset", &ModelBuilder::speakOpset)
      .def_static("recordedVersion", &onnx::recordedVersion)
      .def("pushNameScope", &ModelBuilder::pushNameScope)
      .def("popNameScope", &ModelBuilder::popNameScope)
      .def("getNameScope", &ModelBuilder::getNameScope, nb::arg("name") = "")
      .def("setScopeAttribute",
           [](ModelBuilder &b, nb::object triple) {
             auto [name, value] = toAttribute(triple);
             b.setScopeAttribute(name, value);
           })
      .def("getScopeAttribute", [](const ModelBuilder &b,
                                   const std::string &name) { return fromAttribute(name, b.getScopeAttribute(name)); })
      .def("hasScopeAttribute", &ModelBuilder::hasScopeAttribute)
      .def("clearScopeAttribute", &ModelBuilder::clearScopeAttribute)
      .def("addNodeAttribute",
           [](ModelBuilder &b, nb::object triple, Outputs outputs, bool replace) {
             auto [name, value] = toAttribute(triple);
             b.addNodeAttribute(name, value, outputs,
                                replace ? ModelBuilder::Replace::Allow : ModelBuilder::Replace::Refuse);
           })
      .def("nodeHasAttribute", &ModelBuilder::nodeHasAttribute)
      .def("getNodeAttribute", [](const ModelBuilder &b, const std::string &name,
                                  Outputs outputs) { return fromAttribute(name, b.getNodeAttribute(name, outputs)); })
      .def("removeNodeAttribute", &ModelBuilder::removeNodeAttribute)
      .def("getAllNodeAttributeNames", &ModelBuilder::getAllNodeAttributeNames)
      .def("nodeType", &ModelBuilder::nodeType);
}

}  // namespace

void bindBuilder(nb::module_ &m) {
  nb::class_<ModelBuilder> c(m, "_BuilderCore");
  c.def("__init__", [](ModelBuilder *self) { new (self) ModelBuilder(ref::evaluate); })
      .def_static("fromModel",
                  [](nb::object model) { return ModelBuilder::fromModel(modelText(model), ref::evaluate); })
      .def("createSubgraphBuilder", &ModelBuilder::createSubgraphBuilder, nb::rv_policy::reference_internal)
      .def("addInputTensor", &ModelBuilder::addInputTensor)
      .def("addOpenInputTensor",
           [](ModelBuilder &b, const std::string &type, const std::vector<std::pair<int64_t, std::string>> &shape,
              const std::string &name) { return b.addOpenInputTensor(dataTypeFromString(type), shape, name); })
      .def("addUntypedInputTensor", &ModelBuilder::addUntypedInputTensor)
      .def("addInputTensorFromParentGraph", &ModelBuilder::addInputTensorFromParentGraph, nb::arg("tensorId"))
      .def("addInitializedInputTensor",
           [](ModelBuilder &b, nb::object value, const std::string &name) {
             const HostArray array(value, HostArray::Types::Documented);
             array.requireContiguous("addInitializedInputTensor", name);
             return b.addInitializedInputTensor(TensorData(array.info(), array.data()), name);
           })
      .def("embedReplicationFactor", &ModelBuilder::embedReplicationFactor, nb::arg("factor"))
      .def("setVariableSettings", &ModelBuilder::setVariableSettings, nb::arg("id"), nb::arg("settings"))
      .def("setInputSettings", &ModelBuilder::setInputSettings, nb::arg("id"), nb::arg("settings"))
      .def("addOutputTensor", &ModelBuilder::addOutputTensor, nb::arg("outputName"))
      .def("getInputTensorIds", &ModelBuilder::getInputTensorIds)
      .def("getOutputTensorIds", &ModelBuilder::getOutputTensorIds)
      .def("getValueTensorIds", &ModelBuilder::getValueTensorIds)
      .def("getTrainableTensorIds", &ModelBuilder::getTrainableTensorIds)
      .def("isInitializer", &ModelBuilder::isInitializer, nb::arg("id"))
      .def("getTensorInfo", &ModelBuilder::getTensorInfo)
      .def("hasTensor", &ModelBuilder::hasTensor, nb::arg("id"))
      .def("hasTensorInfo", &ModelBuilder::hasTensorInfo)
      .def("setGraphName", &ModelBuilder::setGraphName, nb::arg("name"))
      .def("setMetadata", &ModelBuilder::setMetadata)
      .def("getModelProto",
           [](const ModelBuilder &b) {
             const std::string proto = b.getModelProto();
             return nb::bytes(proto.data(), proto.size());
           })
      .def("saveModelProto", &ModelBuilder::saveModelProto, nb::arg("filename"))
      .def("saveInitializersExternally", &ModelBuilder::saveInitializersExternally, nb::arg("ids"),
           nb::arg("filename"));
  bindNodes(c);
}

}  // namespace popart::python
