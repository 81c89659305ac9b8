// AnchorReturnType, DataFlow and InputSettings.
#include <popart/dataflow.hpp>

#include "bindings.hpp"

namespace popart::python {

void bindDataFlow(nb::module_ &m) {
  const auto compute = nb::arg("tileSet") = TileSet::Compute;
  const auto justInTime = nb::arg("exchangeStrategy") = ExchangeStrategy::JustInTime;
  nb::class_<AnchorReturnType>(m, "AnchorReturnType",
                               "Which values of a tensor a run returns:\n"
                               "\n"
                               "- 'All': those of every batch\n"
                               "- 'Final': that of the last batch\n"
                               "- 'EveryN': those of every N-th batch\n"
                               "- 'Sum': their sum")
      .def(nb::init<std::string, TileSet, ExchangeStrategy>(), nb::arg("anchorReturnTypeString"), compute, justInTime,
           "Make it from a name.\n"
           "\n"
           "Args:\n"
           "    anchorReturnTypeString: 'All', 'Final', 'EveryN' or 'Sum', in any case.\n"
           "    returnPeriod: EveryN only: batches between returned values, 1 or more.\n"
           "    tileSet: IO: the strategy counts; it then needs explicit main loops and virtual graphs.\n"
           "    exchangeStrategy: Overlapped: one more value may wait for the host while the program runs.")
      .def(nb::init<std::string, int, TileSet, ExchangeStrategy>(), nb::arg("anchorReturnTypeString"),
           nb::arg("returnPeriod"), compute, justInTime)
      .def("id", &AnchorReturnType::id, "The kind, as AnchorReturnTypeId.")
      .def("rp", &AnchorReturnType::rp, "Batches between returned values, of EveryN.")
      .def("tileSet", &AnchorReturnType::tileSet, "What the constructor was given.")
      .def("exchangeStrategy", &AnchorReturnType::exchangeStrategy, "What the constructor was given.")
      .def(
          "__eq__", [](const AnchorReturnType &a, const AnchorReturnType &b) { return a.id() == b.id() && a == b; },
          nb::is_operator())
      .def("__hash__", &AnchorReturnType::hash)
      .def("__repr__", [](const AnchorReturnType &a) { return "AnchorReturnType(" + a.str() + ")"; });

  nb::class_<DataFlow>(m, "DataFlow", "How many batches a step works through, and which tensors it returns.")
      .def(nb::init<int, const AnchorReturnTypeMap &>(), nb::arg("batchesPerStep"), nb::arg("anchorTensors"),
           "Make it from tensors and their return types.\n"
           "\n"
           "Args:\n"
           "    batchesPerStep: Batches per session.run, 1 or more.\n"
           "    anchorTensors: Dictionary from tensor id to AnchorReturnType; or instead\n"
           "    anchorIds: List of tensor ids, and\n"
           "    anchorReturnType: the type of all of them, 'All' by default.")
      .def(nb::init<int, const std::vector<TensorId>, const AnchorReturnType &>(), nb::arg("batchesPerStep"),
           nb::arg("anchorIds"), nb::arg("anchorReturnType") = AnchorReturnType("All"))
      .def("isAnchored", &DataFlow::isAnchored, nb::arg("id"),
           "Whether a tensor is returned.\n"
           "\n"
           "Args:\n"
           "    id: Tensor.")
      .def("nAnchors", &DataFlow::nAnchors, "Number of returned tensors.")
      .def("batchesPerStep", &DataFlow::batchesPerStep, "Batches per session.run.")
      .def("setBatchesPerStep", &DataFlow::setBatchesPerStep, nb::arg("batchesPerStep"),
           "Change the batches per step; for sessions made afterwards.\n"
           "\n"
           "Args:\n"
           "    batchesPerStep: 1 or more.")
      .def("anchors", &DataFlow::anchors, "Ids of the returned tensors.")
      .def("art", &DataFlow::art, nb::arg("id"),
           "Return type of a tensor.\n"
           "\n"
           "Args:\n"
           "    id: Tensor that is returned.");

  nb::class_<InputSettings>(m, "InputSettings", "How an input is streamed to the device; kept in the model.")
      .def(nb::init<TileSet, ExchangeStrategy>(), compute, justInTime,
           "Make it from an exchange or a stream mode.\n"
           "\n"
           "Args:\n"
           "    tileSet: IO: the strategy counts; it then needs explicit main loops and virtual graphs.\n"
           "    exchangeStrategy: Overlapped: one more value is fetched ahead of need.\n"
           "    relicatedStreamMode: Instead of both: whether replicas get the same values (Broadcast) or their\n"
           "        own (Replicate). The name is spelt as PopART spells it.")
      // compat: the keyword is misspelt upstream (tests/python/popart/test_values.py).
      .def(nb::init<ReplicatedStreamMode>(), nb::arg("relicatedStreamMode") = ReplicatedStreamMode::Replicate)
      .def("tileSet", &InputSettings::tileSet, "What the constructor was given.")
      .def("exchangeStrategy", &InputSettings::exchangeStrategy, "What the constructor was given.")
      .def("replicatedStreamMode", &InputSettings::replicatedStreamMode, "What the constructor was given.");
}

}  // namespace popart::python
