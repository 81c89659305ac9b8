// GraphTransformer and NumericsReport.
#include <popart/graphtransformer.hpp>
#include <popart/numerics.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

std::string modelText(nb::handle model) {
  if (PyBytes_Check(model.ptr())) {
    const auto bytes = nb::cast<nb::bytes>(model);
    return std::string(bytes.c_str(), bytes.size());
  }
  return nb::hasattr(model, "__fspath__") ? pyText(model.attr("__fspath__")())
                                          : fromPython<std::string>(model, "model: the name of a file, or bytes");
}

}  // namespace

void bindModelTools(nb::module_ &m) {
  nb::class_<GraphTransformer>(m, "GraphTransformer", "Changes an ONNX model as a whole.")
      .def(
          "__init__", [](GraphTransformer *self, nb::handle model) { new (self) GraphTransformer(modelText(model)); },
          nb::arg("modelProtoOrFilename"), "The name of a file or the bytes of a model.")
      .def(
          "getModelProto",
          [](const GraphTransformer &t) {
            const std::string proto = t.getModelProto();
            return nb::bytes(proto.data(), proto.size());
          },
          "The changed model.")
      .def("convertFloatsToHalfs", &GraphTransformer::convertFloatsToHalfs)
      .def("convertUINT8ToINT32", &GraphTransformer::convertUINT8ToINT32)
      .def("convertUINT16ToINT32", &GraphTransformer::convertUINT16ToINT32)
      .def("convertINT8ToINT32", &GraphTransformer::convertINT8ToINT32)
      .def("convertINT16ToINT32", &GraphTransformer::convertINT16ToINT32)
      .def("convertINT64ToINT32", &GraphTransformer::convertINT64ToINT32, nb::arg("clip") = false)
      .def("convertDoublesToFloats", &GraphTransformer::convertDoublesToFloats)
      .def("convertDoublesToHalfs", &GraphTransformer::convertDoublesToHalfs)
      .def("convertBFloats16ToFloat32", &GraphTransformer::convertBFloats16ToFloat32)
      .def("removeUnusedInputs", &GraphTransformer::removeUnusedInputs,
           "Drops graph inputs that no node of the main graph reads.")
      .def("prepareNodesForTraining", &GraphTransformer::prepareNodesForTraining,
           "BatchNormalization nodes get the five outputs of training.")
      .def("convertInitializersToConstants", &GraphTransformer::convertInitializersToConstants, nb::arg("ids"))
      .def("convertAllFixedPointInitializersToConstants",
           &GraphTransformer::convertAllFixedPointInitializersToConstants)
      .def("saveInitializersExternally", &GraphTransformer::saveInitializersExternally, nb::arg("ids"),
           nb::arg("filename"));
  nb::class_<NumericsReport>(m, "NumericsReport", "How far the weights of two training runs drifted apart.")
      .def(
          "__init__",
          [](NumericsReport *self, nb::handle a0, nb::handle a1, nb::handle b0, nb::handle b1) {
            new (self) NumericsReport(modelText(a0), modelText(a1), modelText(b0), modelText(b1));
          },
          nb::arg("A0"), nb::arg("A1"), nb::arg("B0"), nb::arg("B1"))
      .def("report", &NumericsReport::report, nb::arg("id"))
      .def("fullReport", &NumericsReport::fullReport)
      .def("getRelativeErrors", &NumericsReport::getRelativeErrors);
}

}  // namespace popart::python
