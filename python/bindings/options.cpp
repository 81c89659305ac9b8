// SessionOptions: every field of the list in src/api/option_fields.hpp becomes an attribute; sub-structs are live
// objects.
#include <nanobind/stl/bind_map.h>

#include <popart/logging.hpp>
#include <popart/sessionoptions.hpp>

#include "api/option_fields.hpp"
#include "base/environment.hpp"
#include "bindings.hpp"
#include "ir/layer_names.hpp"
#include "pipeline/options.hpp"
#include "pipeline/options_table.hpp"

namespace popart::python {
namespace {

void bindLocationSettings(nb::module_ &m) {
  using S = TensorLocationSettings;
  nb::class_<S>(
      m, "TensorLocationSettings",
      "Where a kind of tensor is kept: on the device or off chip, whole or divided among replicas (docs/options.md).")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    location: TensorLocation, or instead\n"
           "    storage: TensorStorage.\n"
           "    minElementsForOffChip: Tensors of fewer elements stay on chip.\n"
           "    minElementsForReplicatedTensorSharding: Tensors of fewer elements are not sharded.")
      .def(nb::init<TensorLocation, int, int>(), nb::arg("location"), nb::arg("minElementsForOffChip") = 2,
           nb::arg("minElementsForReplicatedTensorSharding") = 8192)
      .def(nb::init<TensorStorage, int, int>(), nb::arg("storage"), nb::arg("minElementsForOffChip") = 2,
           nb::arg("minElementsForReplicatedTensorSharding") = 8192)
      .def_rw("location", &S::location)
      .def_rw("minElementsForOffChip", &S::minElementsForOffChip)
      .def_rw("minElementsForReplicatedTensorSharding", &S::minElementsForReplicatedTensorSharding);
}

void bindLossScaling(nb::module_ &m) {
  using S = AutomaticLossScalingSettings;
  nb::class_<S>(m, "AutomaticLossScalingSettings", "A loss scale that follows the gradients while training runs.")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    enabled: Whether it is on.\n"
           "    toTrackTensors: Ids of weights or other tensors of the model whose gradients to watch, with\n"
           "        GradientsOfUserSpecifiedTensors; else None.\n"
           "    binEdgeLocation: Share of the largest FLOAT16 number above which an element counts as large, 0 "
           "to 1.\n"
           "    thresholdUpperCountProportion: Share of large elements above which the scale is halved, 0 to "
           "1.\n"
           "    updatePeriod: Weight updates between changes.\n"
           "    gradientTensorTrackingMethod: Which gradients are watched.")
      .def(nb::init<bool, const std::optional<std::vector<TensorId>> &, float, float, int,
                    GradientTensorTrackingMethod>(),
           nb::arg("enabled") = false, nb::arg("toTrackTensors").none() = nb::none(),
           nb::arg("binEdgeLocation") = 0.125f, nb::arg("thresholdUpperCountProportion") = 1e-7f,
           nb::arg("updatePeriod") = 1,
           nb::arg("gradientTensorTrackingMethod") = GradientTensorTrackingMethod::AllNonViewChangingGradientTensors)
      .def_rw("enabled", &S::enabled)
      .def_rw("binEdgeLocation", &S::binEdgeLocation)
      .def_rw("thresholdUpperCountProportion", &S::thresholdUpperCountProportion)
      .def_rw("toTrackTensors", &S::toTrackTensors, nb::arg().none())
      .def_rw("updatePeriod", &S::updatePeriod)
      .def_rw("gradientTensorTrackingMethod", &S::gradientTensorTrackingMethod);
}

void bindCollectives(nb::module_ &m) {
  using S = ReplicatedCollectivesSettings;
  nb::class_<S>(m, "ReplicatedCollectivesSettings",
                "Which collectives of replicas are merged; no effect with one replica.")
      .def(nb::init<bool, bool, bool, bool>(), nb::arg("prepareScheduleForMergingCollectives") = false,
           nb::arg("mergeAllReduceCollectives") = false, nb::arg("mergeReduceScatterCollectives") = false,
           nb::arg("mergeAllGatherCollectives") = false,
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    prepareScheduleForMergingCollectives: Order operations for merging.\n"
           "    mergeAllReduceCollectives: Merge sums.\n"
           "    mergeReduceScatterCollectives: Merge scattered sums.\n"
           "    mergeAllGatherCollectives: Merge gathers.")
      .def_rw("prepareScheduleForMergingCollectives", &S::prepareScheduleForMergingCollectives)
      .def_rw("mergeAllReduceCollectives", &S::mergeAllReduceCollectives)
      .def_rw("mergeReduceScatterCollectives", &S::mergeReduceScatterCollectives)
      .def_rw("mergeAllGatherCollectives", &S::mergeAllGatherCollectives);
}

void bindBatchSerialization(nb::module_ &m) {
  using S = BatchSerializationSettings;
  nb::class_<S>(m, "BatchSerializationSettings",
                "How a batch is cut into parts that run one after the other (docs/options.md).")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    factor: Parts; 0 and 1: none.\n"
           "    concatOnVirtualGraphChange: Join the parts where the IPU changes.\n"
           "    concatOnExecutionPhaseChange: Join the parts where the phase changes.\n"
           "    concatOnPipelineStageChange: Join the parts where the stage changes.\n"
           "    transformContext: The pass that is cut.\n"
           "    method: How parts become operations.\n"
           "    batchSchedule: Order of the parts.")
      .def(nb::init<int, bool, bool, bool, BatchSerializationTransformContext, BatchSerializationMethod,
                    BatchSerializationBatchSchedule>(),
           nb::arg("factor"), nb::arg("concatOnVirtualGraphChange"), nb::arg("concatOnExecutionPhaseChange"),
           nb::arg("concatOnPipelineStageChange"),
           nb::arg("transformContext") = BatchSerializationTransformContext::Fwd,
           nb::arg("method") = BatchSerializationMethod::UnrollDynamic,
           nb::arg("batchSchedule") = BatchSerializationBatchSchedule::Isomorphic)
      .def_rw("factor", &S::factor)
      .def_rw("concatOnVirtualGraphChange", &S::concatOnVirtualGraphChange)
      .def_rw("concatOnExecutionPhaseChange", &S::concatOnExecutionPhaseChange)
      .def_rw("concatOnPipelineStageChange", &S::concatOnPipelineStageChange)
      .def_rw("transformContext", &S::transformContext)
      .def_rw("method", &S::method)
      .def_rw("batchSchedule", &S::batchSchedule);
}

void bindExecutionPhases(nb::module_ &m) {
  using S = ExecutionPhaseSettings;
  using Io = ExecutionPhaseIOSchedule;
  nb::class_<S>(m, "ExecutionPhaseSettings", "How the program is cut into phases (docs/options.md).")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    phases: Phases; 0 and 1: none.\n"
           "    stages: 1 or 2.\n"
           "    weightIOSchedule: When weights are loaded.\n"
           "    activationIOSchedule: When activations are loaded.\n"
           "    optimizerStateIOSchedule: When optimizer state is loaded.\n"
           "    accumulatorIOSchedule: When accumulators are loaded.\n"
           "    optimizerSchedule: Order of a phase.")
      .def(nb::init<int, int, Io, Io, Io, Io, ExecutionPhaseSchedule>(), nb::arg("phases"), nb::arg("stages"),
           nb::arg("weightIOSchedule"), nb::arg("activationIOSchedule"), nb::arg("optimizerStateIOSchedule"),
           nb::arg("accumulatorIOSchedule"), nb::arg("optimizerSchedule"))
      .def_rw("phases", &S::phases)
      .def_rw("stages", &S::stages)
      .def_rw("weightIOSchedule", &S::weightIOSchedule)
      .def_rw("activationIOSchedule", &S::activationIOSchedule)
      .def_rw("optimizerStateIOSchedule", &S::optimizerStateIOSchedule)
      .def_rw("accumulatorIOSchedule", &S::accumulatorIOSchedule)
      .def_rw("schedule", &S::schedule);
}

void bindSmallSettings(nb::module_ &m) {
  nb::class_<AutodiffSettings>(m, "AutodiffSettings", "How gradient graphs get forward values; no effect here.")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    stitchStrategy: Compute them again or keep them.")
      .def(nb::init<AutodiffStitchStrategy>(), nb::arg("stitchStrategy"))
      .def_rw("stitchStrategy", &AutodiffSettings::stitchStrategy);
  nb::class_<AccumulateOuterFragmentSettings>(m, "AccumulateOuterFragmentSettings",
                                              "Order of what runs once per weight update; no effect here.")
      .def(nb::init<>(),
           "Make the settings.\n"
           "\n"
           "Args:\n"
           "    schedule: The order.\n"
           "    excludedVirtualGraphs: IPU numbers that are left alone.")
      .def(nb::init<AccumulateOuterFragmentSchedule, std::vector<int>>(), nb::arg("schedule"),
           nb::arg("excludedVirtualGraphs") = std::vector<int>{})
      .def_rw("schedule", &AccumulateOuterFragmentSettings::schedule)
      .def_rw("excludedVirtualGraphs", &AccumulateOuterFragmentSettings::excludedVirtualGraphs);
  nb::class_<NumIOTiles>(m, "NumIOTiles", "A number of tiles for host transfers; no effect here.")
      .def(nb::init<>(),
           "Make the number.\n"
           "\n"
           "Args:\n"
           "    numIOTiles: Tiles; 0: none.")
      .def(nb::init<int>(), nb::arg("numIOTiles"))
      .def("__int__", [](const NumIOTiles &tiles) { return tiles.numIOTiles; })
      .def(
          "__eq__", [](const NumIOTiles &tiles, int value) { return tiles.numIOTiles == value; }, nb::is_operator());
  nb::class_<DeveloperSettings>(m, "DeveloperSettings", "Settings for work on PopART itself; no effect here.")
      .def(nb::init<>(), "The defaults.")
      .def_rw("minTensorsForPrefetch", &DeveloperSettings::minTensorsForPrefetch);
  nb::class_<ExperimentalSettings>(m, "ExperimentalSettings", "Settings that may change (docs/options.md).")
      .def(nb::init<>(), "The defaults.")
      .def_rw("customTransformApplierSettings", &ExperimentalSettings::customTransformApplierSettings)
      .def_rw("createHostTransferableTensorWithOffset", &ExperimentalSettings::createHostTransferableTensorWithOffset);
}

void warnRenamed(const char *oldName, const char *newName) {
  logging::session::warn("SessionOptions.{} is deprecated: it is now called {}", oldName, newName);
}

// The value of an option of a device or an engine, which are texts: numbers and truths may be given as such.
std::string optionText(nb::handle value) {
  if (value.is_none()) throw nb::type_error("options: got None, expected a text, a number or a truth value");
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True ? "true" : "false";
  return pyText(value);
}

}  // namespace

OptionMap toOptionMap(nb::handle dict) {
  if (nb::isinstance<OptionMap>(dict)) return nb::cast<OptionMap>(dict);
  OptionMap result;
  if (!PyDict_Check(dict.ptr())) throw nb::type_error(("options: got " + pyText(dict) + ", expected a dict").c_str());
  for (auto [key, value] : nb::borrow<nb::dict>(dict))
    result[fromPython<std::string>(key, "options: the name of an option")] = optionText(value);
  return result;
}

// What the table says of an option, a line per row.
std::string docOf(std::string_view option) {
  std::string text;
  for (const auto &row : pipeline::optionRows()) {
    if (std::string_view(row.name).substr(0, std::string_view(row.name).find('.')) != option) continue;
    if (!text.empty()) text += '\n';
    text += pipeline::kindName(row.kind);
    if (*row.values) text += std::string(" (") + row.values + ")";
    text += std::string(": ") + row.remark;
  }
  return text;
}

// The tables that docs/options.md and docs/environment.md are made from, as lists of tuples of texts.
void bindTables(nb::module_ &m) {
  using Row = std::vector<std::string>;
  m.def("_optionRows", [] {
    std::vector<Row> rows;
    for (const auto &row : pipeline::optionRows())
      rows.push_back({row.name, pipeline::kindName(row.kind), row.values, row.remark});
    return rows;
  });
  m.def("_optionKeys", [] {
    std::vector<Row> rows;
    for (const auto &row : pipeline::optionKeys())
      rows.push_back({row.map, row.name, pipeline::kindName(row.kind), row.remark});
    return rows;
  });
  m.def("_nodeMarks", [] {
    std::vector<Row> rows;
    for (const auto &row : pipeline::markRows()) rows.push_back({row.method, row.remark});
    return rows;
  });
  m.def("_patternNotes", [] {
    std::vector<Row> rows;
    for (const auto &row : pipeline::patternNotes()) rows.push_back({row.names, row.state, row.remark});
    return rows;
  });
  m.def("_scopeOf", [](const std::string &layer, int depth) { return scopeOf(layer, depth); });
  m.def("_profileFolder", [](const SessionOptions &options) {  // "none" or empty: no profile
    return pipeline::withEnvironment(options).engineOptions["profile"];
  });
  m.def("_environmentVariables", [] {
    std::vector<Row> rows;
    for (const auto &row : environment::variables()) rows.push_back({row.name, row.fallback, row.meaning});
    return rows;
  });
}

void bindOptions(nb::module_ &m) {
  bindTables(m);
  auto map = nb::bind_map<OptionMap>(m, "_StringMap");
  map.def("__setitem__",
          [](OptionMap &values, const std::string &name, nb::object value) { values[name] = optionText(value); });
  map.attr("update") = nb::cpp_function(
      [](OptionMap &values, nb::object other) {
        for (auto &[name, text] : toOptionMap(other)) values[name] = text;
      },
      nb::name("update"), nb::is_method(), nb::scope(map), nb::arg("other"));
  nb::bind_map<LocationMap>(m, "_TensorLocationMap");
  bindLocationSettings(m);
  bindLossScaling(m);
  bindCollectives(m);
  bindBatchSerialization(m);
  bindExecutionPhases(m);
  bindSmallSettings(m);

  nb::class_<SessionOptions> options(
      m, "SessionOptions",
      "Everything a program may set about a session. What each option does here: docs/options.md.");
  options
      .def(nb::init<>(),
           "The documented defaults; POPART_CACHE_DIR and POPXL_CACHE_DIR set enableEngineCaching and cachePath.")
      .def("__copy__", [](const SessionOptions &o) { return SessionOptions(o); });
  forEachOption([&](const char *name, auto member) {
    using Member = std::remove_reference_t<decltype(std::declval<SessionOptions &>().*member)>;
    if constexpr (std::is_same_v<Member, NumIOTiles>) {
      options.def_prop_rw(
          name, [](const SessionOptions &o) { return o.numIOTiles.numIOTiles; },
          [](SessionOptions &o, int tiles) { o.numIOTiles = tiles; }, docOf(name).c_str());
    } else if constexpr (std::is_same_v<Member, OptionMap>) {
      options.def_prop_rw(
          name, [member](SessionOptions &o) -> OptionMap & { return o.*member; },
          [member](SessionOptions &o, nb::object values) { o.*member = toOptionMap(values); }, docOf(name).c_str());
    } else {
      options.def_rw(name, member, docOf(name).c_str());
    }
  });
  options
      .def("enableExplicitIR", &SessionOptions::enableExplicitIR, nb::arg("enable"),
           "Set useHostCopyOps, enableExplicitMainLoops and explicitRecomputation.\n"
           "\n"
           "Args:\n"
           "    enable: The value of all three.")
      .def("getGlobalReplicationFactor", &SessionOptions::getGlobalReplicationFactor, "Replicas in all processes.")
      .def_rw("compilationProgressTotal", &SessionOptions::compilationProgressTotal)
      .def_rw("compilationProgressLogger", &SessionOptions::compilationProgressLogger)
      .def_prop_rw(
          "defaultPrefetchBufferingDepth", [](const SessionOptions &o) { return o.defaultBufferingDepth; },
          [](SessionOptions &o, unsigned depth) {
            warnRenamed("defaultPrefetchBufferingDepth", "defaultBufferingDepth");
            o.defaultBufferingDepth = depth;
          })
      .def_prop_rw(
          "prefetchBufferingDepthMap", [](const SessionOptions &o) { return o.bufferingDepthMap; },
          [](SessionOptions &o, const std::map<TensorId, unsigned> &map) {
            warnRenamed("prefetchBufferingDepthMap", "bufferingDepthMap");
            o.bufferingDepthMap = map;
          })
      .def_prop_rw(
          "serializedPoprithmsAnnealGraphsDir",
          [](const SessionOptions &o) { return o.serializedPoprithmsShiftGraphsDir; },
          [](SessionOptions &o, const std::string &dir) { o.serializedPoprithmsShiftGraphsDir = dir; });
}

}  // namespace popart::python
