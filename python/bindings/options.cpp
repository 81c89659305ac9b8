// SessionOptions: every field of the list in src/api/option_fields.hpp becomes an attribute; sub-structs are live
// objects.
#include <nanobind/stl/bind_map.h>

#include <popart/sessionoptions.hpp>

#include "api/option_fields.hpp"
#include "bindings.hpp"

namespace popart::python {
namespace {

void bindLocationSettings(nb::module_ &m) {
  using S = TensorLocationSettings;
  nb::class_<S>(m, "TensorLocationSettings")
      .def(nb::init<>())
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
  nb::class_<S>(m, "AutomaticLossScalingSettings")
      .def(nb::init<>())
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
  nb::class_<S>(m, "ReplicatedCollectivesSettings")
      .def(nb::init<bool, bool, bool, bool>(), nb::arg("prepareScheduleForMergingCollectives") = false,
           nb::arg("mergeAllReduceCollectives") = false, nb::arg("mergeReduceScatterCollectives") = false,
           nb::arg("mergeAllGatherCollectives") = false)
      .def_rw("prepareScheduleForMergingCollectives", &S::prepareScheduleForMergingCollectives)
      .def_rw("mergeAllReduceCollectives", &S::mergeAllReduceCollectives)
      .def_rw("mergeReduceScatterCollectives", &S::mergeReduceScatterCollectives)
      .def_rw("mergeAllGatherCollectives", &S::mergeAllGatherCollectives);
}

void bindBatchSerialization(nb::module_ &m) {
  using S = BatchSerializationSettings;
  nb::class_<S>(m, "BatchSerializationSettings")
      .def(nb::init<>())
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
  nb::class_<S>(m, "ExecutionPhaseSettings")
      .def(nb::init<>())
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
  nb::class_<AutodiffSettings>(m, "AutodiffSettings")
      .def(nb::init<>())
      .def(nb::init<AutodiffStitchStrategy>(), nb::arg("stitchStrategy"))
      .def_rw("stitchStrategy", &AutodiffSettings::stitchStrategy);
  nb::class_<AccumulateOuterFragmentSettings>(m, "AccumulateOuterFragmentSettings")
      .def(nb::init<>())
      .def(nb::init<AccumulateOuterFragmentSchedule, std::vector<int>>(), nb::arg("schedule"),
           nb::arg("excludedVirtualGraphs") = std::vector<int>{})
      .def_rw("schedule", &AccumulateOuterFragmentSettings::schedule)
      .def_rw("excludedVirtualGraphs", &AccumulateOuterFragmentSettings::excludedVirtualGraphs);
  nb::class_<NumIOTiles>(m, "NumIOTiles")
      .def(nb::init<>())
      .def(nb::init<int>(), nb::arg("numIOTiles"))
      .def("__int__", [](const NumIOTiles &tiles) { return tiles.numIOTiles; })
      .def(
          "__eq__", [](const NumIOTiles &tiles, int value) { return tiles.numIOTiles == value; }, nb::is_operator());
  nb::class_<DeveloperSettings>(m, "DeveloperSettings")
      .def(nb::init<>())
      .def_rw("minTensorsForPrefetch", &DeveloperSettings::minTensorsForPrefetch);
  nb::class_<ExperimentalSettings>(m, "ExperimentalSettings")
      .def(nb::init<>())
      .def_rw("customTransformApplierSettings", &ExperimentalSettings::customTransformApplierSettings)
      .def_rw("createHostTransferableTensorWithOffset", &ExperimentalSettings::createHostTransferableTensorWithOffset);
}

void warnRenamed(const char *oldName, const char *newName) {
  PyErr_WarnFormat(PyExc_DeprecationWarning, 1, "SessionOptions.%s is now called %s", oldName, newName);
}

}  // namespace

OptionMap toOptionMap(nb::handle dict) {
  if (nb::isinstance<OptionMap>(dict)) return nb::cast<OptionMap>(dict);
  OptionMap result;
  if (!PyDict_Check(dict.ptr())) throw nb::type_error(("options: got " + pyText(dict) + ", expected a dict").c_str());
  for (auto [key, value] : nb::borrow<nb::dict>(dict))
    result[fromPython<std::string>(key, "options: the name of an option")] = pyText(value);
  return result;
}

void bindOptions(nb::module_ &m) {
  nb::bind_map<OptionMap>(m, "_StringMap");
  nb::bind_map<LocationMap>(m, "_TensorLocationMap");
  bindLocationSettings(m);
  bindLossScaling(m);
  bindCollectives(m);
  bindBatchSerialization(m);
  bindExecutionPhases(m);
  bindSmallSettings(m);

  nb::class_<SessionOptions> options(m, "SessionOptions");
  options.def(nb::init<>());
  forEachOption([&](const char *name, auto member) {
    using Member = std::remove_reference_t<decltype(std::declval<SessionOptions &>().*member)>;
    if constexpr (std::is_same_v<Member, NumIOTiles>) {
      options.def_prop_rw(
          name, [](const SessionOptions &o) { return o.numIOTiles.numIOTiles; },
          [](SessionOptions &o, int tiles) { o.numIOTiles = tiles; });
    } else {
      options.def_rw(name, member);
    }
  });
  options.def("enableExplicitIR", &SessionOptions::enableExplicitIR, nb::arg("enable"))
      .def("getGlobalReplicationFactor", &SessionOptions::getGlobalReplicationFactor)
      .def_rw("compilationProgressTotal", &SessionOptions::compilationProgressTotal)
      .def_rw("compilationProgressLogger", &SessionOptions::compilationProgressLogger)
      .def_prop_rw(
          "defaultPrefetchBufferingDepth",
          [](const SessionOptions &o) {
            warnRenamed("defaultPrefetchBufferingDepth", "defaultBufferingDepth");
            return o.defaultBufferingDepth;
          },
          [](SessionOptions &o, unsigned depth) {
            warnRenamed("defaultPrefetchBufferingDepth", "defaultBufferingDepth");
            o.defaultBufferingDepth = depth;
          })
      .def_prop_rw(
          "prefetchBufferingDepthMap",
          [](const SessionOptions &o) {
            warnRenamed("prefetchBufferingDepthMap", "bufferingDepthMap");
            return o.bufferingDepthMap;
          },
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
