// Sessions. The GIL is released while models are built, compiled and run; runs that loop take it now and then to let
// Python handle signals.
#include <string>
#include <string_view>

#include <popart/interrupt.hpp>
#include <popart/ir.hpp>
#include <popart/session.hpp>

#include "bindings.hpp"
#include "host_array.hpp"

namespace popart::python {
namespace {

// A path or the bytes of a ModelProto. The bytes are not copied: `model` must outlive this.
class ModelText {
 public:
  explicit ModelText(nb::handle model) {
    if (PyBytes_Check(model.ptr())) {
      text_ = {PyBytes_AS_STRING(model.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(model.ptr()))};
      return;
    }
    if (nb::hasattr(model, "__fspath__")) {
      path_ = pyText(model.attr("__fspath__")());
    } else if (PyUnicode_Check(model.ptr())) {
      path_ = nb::cast<std::string>(model);
    } else {
      throw nb::type_error("model: expected a file name or the bytes of a ModelProto");
    }
    text_ = path_;
  }
  ModelText(const ModelText &) = delete;
  ModelText &operator=(const ModelText &) = delete;
  std::string_view view() const { return text_; }

 private:
  std::string path_;
  std::string_view text_;
};

// What prepareDevice reports instead of throwing when a program does not fit; Python makes OutOfMemoryException of it.
struct OutOfMemoryError {
  std::shared_ptr<memory_allocation_err> failure;
};

template <class S>
void prepareDevice(S &session, bool loadEngine, OutOfMemoryError *result) {
  try {
    nb::gil_scoped_release release;
    session.prepareDevice(loadEngine);
  } catch (const memory_allocation_err &e) {
    if (!result) throw;
    result->failure = e.clone();
  }
}

std::vector<LossObject> toLosses(nb::handle losses) {
  std::vector<LossObject> result;
  for (nb::handle loss : losses) result.push_back(nb::cast<LossObject>(loss));
  return result;
}

// Runs the program's signal handlers when this is the main thread; what they raise (Ctrl-C: KeyboardInterrupt) ends the
// run that asks.
void handleSignals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void bindSessionBase(nb::module_ &m) {
  setInterruptCheck(handleSignals);
  nb::class_<OutOfMemoryError>(m, "OutOfMemoryError")
      .def(nb::init<>())
      .def("isSuccessful", [](const OutOfMemoryError &e) { return !e.failure; })
      .def("getSummaryReport",
           [](const OutOfMemoryError &e) { return e.failure ? e.failure->getSummaryReport() : std::string(); })
      .def("getProfilePath",
           [](const OutOfMemoryError &e) { return e.failure ? e.failure->getProfilePath() : std::string(); })
      .def("__str__",
           [](const OutOfMemoryError &e) { return e.failure ? std::string(e.failure->what()) : std::string(); });

  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Session>(m, "_Session")
      .def("prepareDevice", &prepareDevice<Session>, nb::arg("loadEngine") = true, nb::arg("err").none() = nb::none())
      .def("loadEngineAndConnectStreams", &Session::loadEngineAndConnectStreams, release)
      .def("weightsFromHost", &Session::weightsFromHost, release)
      .def("weightsToHost", &Session::weightsToHost, release)
      .def("copyDeviceWeightsToHost", &Session::weightsToHost, release)
      .def("readWeights", &Session::readWeights, nb::arg("weightsio"))
      .def("writeWeights", &Session::writeWeights, nb::arg("weightsio"))
      .def("modelToHost", &Session::modelToHost, nb::arg("filename"), release)
      .def("updateExternallySavedTensorLocations", &Session::updateExternallySavedTensorLocations,
           nb::arg("fromLocation"), nb::arg("toLocation"))
      .def(
          "resetHostWeights",
          [](Session &s, nb::object model, bool ignore) {
            const ModelText text(model);
            nb::gil_scoped_release unlocked;
            s.resetHostWeights(std::string(text.view()), ignore);
          },
          nb::arg("modelProtoOrFilename"), nb::arg("ignoreWeightsInModelWithoutCorrespondingHostWeight") = false)
      .def(
          "run", [](Session &s, IStepIO &stepIO) { s.run(stepIO); }, nb::arg("stepio"), release)
      .def(
          "run", [](Session &s, IStepIO &stepIO, const std::string &debugName) { s.run(stepIO, debugName); },
          nb::arg("stepio"), nb::arg("debugName"), release)
      .def(
          "run",
          [](Session &s, const std::string &handle, IStepIO &stepIO, const std::string &debugName) {
            s.run(handle, stepIO, debugName);
          },
          nb::arg("programHandle"), nb::arg("stepio"), nb::arg("debugName") = "", release)
      .def("saveExecutable", &Session::saveExecutable, nb::arg("path"), nb::arg("savePopartMetadata") = true,
           nb::arg("saveVariables") = true, release)
      .def("saveVariables", &Session::saveVariables, nb::arg("path"), release)
      .def("loadExecutable", &Session::loadExecutableFromFile, nb::arg("filename"), release)
      .def("setRandomSeed", &Session::setRandomSeed, nb::arg("seedValue"))
      .def("getRandomSeed", &Session::getRandomSeed)
      .def("getRNGState", &Session::getRNGState)
      .def("setRNGState", &Session::setRNGState, nb::arg("rngValue"))
      .def("getInfo", &Session::getInfo, nb::arg("id"))
      .def("getIr", &Session::getIrPtr)
      .def("getSummaryReport", &Session::getSummaryReport, nb::arg("resetProfile") = true)
      .def("getSerializedGraph",
           [](const Session &s) {
             const std::string text = s.getSerializedGraph();
             return nb::bytes(text.data(), text.size());
           })
      .def("_serializeIr", &Session::serializeIr, nb::arg("format"))
      .def("getCycleCount", &Session::getCycleCount, nb::arg("id") = "")
      .def("checkInplacingAmbiguity", &Session::checkInplacingAmbiguity)
      .def("broadcastWeights", &Session::broadcastWeights, nb::arg("rootRank") = 0)
      .def("setEngineIsLoaded", &Session::setEngineIsLoaded, nb::arg("isLoaded"))
      .def("_variableIds", &Session::variableIds);
}

}  // namespace

void bindSessions(nb::module_ &m) {
  bindSessionBase(m);
  nb::class_<LossObject>(m, "_LossObject")
      .def(
          "__init__",
          [](LossObject *self, const std::string &type, const std::vector<TensorId> &inputs, const TensorId &output,
             float lambda, ReductionType reduction) {
            new (self) LossObject{type, inputs, output, lambda, reduction};
          },
          nb::arg("type"), nb::arg("inputs"), nb::arg("output"), nb::arg("lambda_") = 1.0f,
          nb::arg("reduction") = ReductionType::Sum);

  nb::class_<InferenceSession, Session>(m, "_InferenceSessionCore")
      .def(
          "__init__",
          [](InferenceSession *self, nb::object model, const DataFlow &dataFlow, std::shared_ptr<DeviceInfo> device,
             const InputShapeInfo &shapes, const Patterns &patterns, const SessionOptions &options,
             const std::string &name) {
            const ModelText text(model);
            nb::gil_scoped_release release;
            new (self) InferenceSession(std::move(*InferenceSession::createFromOnnxModel(
                text.view(), dataFlow, device, shapes, options, patterns, name)));
          },
          nb::arg("fnModel"), nb::arg("dataFlow"), nb::arg("deviceInfo").none(), nb::arg("inputShapeInfo"),
          nb::arg("patterns"), nb::arg("userOptions"), nb::arg("name"))
      .def(
          "__init__",
          [](InferenceSession *self, std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> device,
             const std::string &name, int batchesPerStep) {
            nb::gil_scoped_release release;
            new (self) InferenceSession(
                std::move(*InferenceSession::createFromIr(std::move(ir), device, name, batchesPerStep)));
          },
          nb::arg("ir"), nb::arg("deviceInfo").none(), nb::arg("name"), nb::arg("batchesPerStep"))
      .def("getAllTensorIds", &Session::getAllTensorIds);
  nb::class_<TrainingSession, Session>(m, "_TrainingSessionCore")
      .def(
          "__init__",
          [](TrainingSession *self, nb::object model, const DataFlow &dataFlow, nb::object loss,
             const Optimizer &optimizer, std::shared_ptr<DeviceInfo> device, const InputShapeInfo &shapes,
             const Patterns &patterns, const SessionOptions &options, const std::string &name) {
            const ModelText text(model);
            if (!PyUnicode_Check(loss.ptr())) {
              const std::vector<LossObject> losses = toLosses(loss);
              nb::gil_scoped_release release;
              new (self) TrainingSession(std::move(*TrainingSession::createFromOnnxModel(
                  text.view(), dataFlow, losses, optimizer, device, shapes, options, patterns, name)));
              return;
            }
            const auto lossId = nb::cast<TensorId>(loss);
            nb::gil_scoped_release release;
            new (self) TrainingSession(std::move(*TrainingSession::createFromOnnxModel(
                text.view(), dataFlow, lossId, optimizer, device, shapes, options, patterns, name)));
          },
          nb::arg("fnModel"), nb::arg("dataFlow"), nb::arg("loss"), nb::arg("optimizer"), nb::arg("deviceInfo").none(),
          nb::arg("inputShapeInfo"), nb::arg("patterns"), nb::arg("userOptions"), nb::arg("name"))
      .def("getTensorIds", &Session::getAllTensorIds)
      .def("updateOptimizerFromHost", &TrainingSession::updateOptimizerFromHost, nb::arg("optimizer"));
}

}  // namespace popart::python
