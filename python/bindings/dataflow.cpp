// AnchorReturnType, DataFlow and InputSettings.
#include <popart/dataflow.hpp>

#include "bindings.hpp"

namespace popart::python {

void bindDataFlow(nb::module_ &m) {
  const auto compute = nb::arg("tileSet") = TileSet::Compute;
  const auto justInTime = nb::arg("exchangeStrategy") = ExchangeStrategy::JustInTime;
  nb::class_<AnchorReturnType>(m, "AnchorReturnType")
      .def(nb::init<std::string, TileSet, ExchangeStrategy>(), nb::arg("anchorReturnTypeString"), compute, justInTime)
      .def(nb::init<std::string, int, TileSet, ExchangeStrategy>(), nb::arg("anchorReturnTypeString"),
           nb::arg("returnPeriod"), compute, justInTime)
      .def("id", &AnchorReturnType::id)
      .def("rp", &AnchorReturnType::rp)
      .def("tileSet", &AnchorReturnType::tileSet)
      .def("exchangeStrategy", &AnchorReturnType::exchangeStrategy)
      .def(
          "__eq__", [](const AnchorReturnType &a, const AnchorReturnType &b) { return a.id() == b.id() && a == b; },
          nb::is_operator())
      .def("__hash__", &AnchorReturnType::hash)
      .def("__repr__", [](const AnchorReturnType &a) { return "AnchorReturnType(" + a.str() + ")"; });

  nb::class_<DataFlow>(m, "DataFlow")
      .def(nb::init<int, const AnchorReturnTypeMap &>(), nb::arg("batchesPerStep"), nb::arg("anchorTensors"))
      .def(nb::init<int, const std::vector<TensorId>, const AnchorReturnType &>(), nb::arg("batchesPerStep"),
           nb::arg("anchorIds"), nb::arg("anchorReturnType") = AnchorReturnType("All"))
      .def("isAnchored", &DataFlow::isAnchored, nb::arg("id"))
      .def("nAnchors", &DataFlow::nAnchors)
      .def("batchesPerStep", &DataFlow::batchesPerStep)
      .def("setBatchesPerStep", &DataFlow::setBatchesPerStep, nb::arg("batchesPerStep"))
      .def("anchors", &DataFlow::anchors)
      .def("art", &DataFlow::art, nb::arg("id"));

  nb::class_<InputSettings>(m, "InputSettings")
      .def(nb::init<TileSet, ExchangeStrategy>(), compute, justInTime)
      // compat: the keyword is misspelt upstream (tests/python/popart/test_values.py).
      .def(nb::init<ReplicatedStreamMode>(), nb::arg("relicatedStreamMode") = ReplicatedStreamMode::Replicate)
      .def("tileSet", &InputSettings::tileSet)
      .def("exchangeStrategy", &InputSettings::exchangeStrategy)
      .def("replicatedStreamMode", &InputSettings::replicatedStreamMode);
}

}  // namespace popart::python
