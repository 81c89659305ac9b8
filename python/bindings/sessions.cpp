// Sessions. The GIL is released while models are built, compiled and run; runs that loop take it now and then to let
// Python handle signals.
#include <nanobind/stl/pair.h>

#include <string>
#include <string_view>

#include <popart/interrupt.hpp>
#include <popart/ir.hpp>
#include <popart/session.hpp>

#include "bindings.hpp"
#include "host_array.hpp"
#include "misfits.hpp"

namespace popart::python {
namespace {

// A path or the bytes of a ModelProto. The bytes are not copied: `model` must outlive this.
class ModelText {
 public:
  explicit ModelText(nb::handle model) {
    if (PyBytes_Check(model.ptr())) {
      text_ = {PyBytes_AsString(model.ptr()), static_cast<size_t>(PyBytes_Size(model.ptr()))};
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

// A session that is compiled when it is made (popxl) has nobody to report to: the exception that Python code makes.
void raiseOutOfMemory(const std::exception_ptr &failure, void *) {
  try {
    std::rethrow_exception(failure);
  } catch (const memory_allocation_err &e) {
    const nb::object type = nb::module_::import_("popart").attr("OutOfMemoryException");
    PyErr_SetObject(type.ptr(), type(OutOfMemoryError{e.clone()}).ptr());
  }
}

template <class S>
void prepareDevice(S &session, bool loadEngine, OutOfMemoryError *result) {
  try {
    ReleaseGil release;
    session.prepareDevice(loadEngine);
  } catch (const memory_allocation_err &e) {
    if (!result) throw;
    result->failure = e.clone();
  }
}

std::vector<LossObject> toLosses(nb::handle losses) {
  std::vector<LossObject> result;
  for (nb::handle loss : losses) {
    const LossObject *object = nullptr;
    if (!nb::try_cast(loss, object) || !object)
      throw nb::type_error(("losses: got " + pyText(loss) + ", expected loss objects such as L1Loss").c_str());
    result.push_back(*object);
  }
  return result;
}

// Runs the program's signal handlers when this is the main thread; what they raise (Ctrl-C: KeyboardInterrupt) ends the
// run that asks.
void handleSignals() {
  HoldGil gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void bindSessionBase(nb::module_ &m) {
  setInterruptCheck(handleSignals);
  nb::register_exception_translator(raiseOutOfMemory);
  nb::class_<OutOfMemoryError>(
      m, "OutOfMemoryError",
      "Facts about a program that does not fit into the memory limit; prepareDevice fills them in.")
      .def(nb::init<>(), "Nothing has failed.")
      .def(
          "isSuccessful", [](const OutOfMemoryError &e) { return !e.failure; }, "Whether nothing has failed.")
      .def(
          "getSummaryReport",
          [](const OutOfMemoryError &e) { return e.failure ? e.failure->getSummaryReport() : std::string(); },
          "Memory by kind, as text.")
      .def(
          "getProfilePath",
          [](const OutOfMemoryError &e) { return e.failure ? e.failure->getProfilePath() : std::string(); },
          "Empty: no profile is written.")
      .def("__str__",
           [](const OutOfMemoryError &e) { return e.failure ? std::string(e.failure->what()) : std::string(); });

  const auto release = nb::call_guard<ReleaseGil>();
  nb::class_<Session>(m, "_Session")
      .def("prepareDevice", &prepareDevice<Session>, nb::arg("loadEngine") = true, nb::arg("err").none() = nb::none(),
           "Compile the program, attach the device and load.\n"
           "\n"
           "Args:\n"
           "    loadEngine: False: compile only; loadEngineAndConnectStreams loads.\n"
           "    err: OutOfMemoryError to fill in instead of raising.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: It does not fit, or the device does not suit.")
      .def("loadEngineAndConnectStreams", &Session::loadEngineAndConnectStreams, release,
           "Load the compiled program.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: It is not compiled.")
      .def("weightsFromHost", &Session::weightsFromHost, release,
           "Send the host's values of all variables to the device. Training needs it before the first run.")
      .def("weightsToHost", &Session::weightsToHost, release,
           "Fetch all variables from the device; readWeights reads them.")
      .def("copyDeviceWeightsToHost", &Session::weightsToHost, release, "The same as weightsToHost.")
      .def("areHostWeightsInSync", &Session::areHostWeightsInSync,
           "Whether the host's weights are the device's: after weightsFromHost and weightsToHost, until the next run.")
      .def("markHostWeightsInSync", &Session::markHostWeightsInSync, "Take the host's weights as the device's.")
      .def("markHostWeightsOutOfSync", &Session::markHostWeightsOutOfSync, "Take the host's weights as old.")
      .def("readWeights", &Session::readWeights, nb::arg("weightsio"),
           "Copy what weightsToHost fetched into arrays.\n"
           "\n"
           "Args:\n"
           "    weightsio: PyWeightsIO with arrays of the weights' shapes.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: An unknown weight, or an array that does not fit.")
      .def("writeWeights", &Session::writeWeights, nb::arg("weightsio"),
           "Set the host's values of weights; weightsFromHost sends them.\n"
           "\n"
           "Args:\n"
           "    weightsio: PyWeightsIO with arrays of the weights' shapes.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: An unknown weight, an array that does not fit, or constant weights.")
      .def(
          "modelToHost",
          [](Session &s, const std::string &filename, const std::string &form) {
            if (form != "training" && form != "inference")
              throw error("modelToHost form: got '{}', expected 'training' or 'inference'", form);
            s.modelToHost(filename, form == "training" ? ModelForm::Training : ModelForm::Inference);
          },
          nb::arg("filename"), nb::arg("form") = "training", release,
          "Write the model with its weights as they are now.\n"
          "\n"
          "Args:\n"
          "    filename: ONNX file, replaced as a whole.\n"
          "    form: 'training': the model as it was read, and optimizer state. 'inference': the network alone, as\n"
          "        inference_form makes it, with the outputs of the file but for losses.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: Another form, a file that cannot be written, or no output but losses.")
      .def("updateExternallySavedTensorLocations", &Session::updateExternallySavedTensorLocations,
           nb::arg("fromLocation"), nb::arg("toLocation"),
           "Move weights that are stored outside the model to another file, from the next modelToHost on.\n"
           "\n"
           "Args:\n"
           "    fromLocation: File that holds them.\n"
           "    toLocation: New file.")
      .def(
          "resetHostWeights",
          [](Session &s, nb::object model, bool ignore) {
            const ModelText text(model);
            ReleaseGil unlocked;
            s.resetHostWeights(std::string(text.view()), ignore);
          },
          nb::arg("modelProtoOrFilename"), nb::arg("ignoreWeightsInModelWithoutCorrespondingHostWeight") = false,
          "Take the host's values from another model of the same structure; weightsFromHost sends them.\n"
          "\n"
          "Args:\n"
          "    modelProtoOrFilename: The name of a file or the bytes of a model.\n"
          "    ignoreWeightsInModelWithoutCorrespondingHostWeight: Skip weights that the session does not have.")
      .def(
          "run", [](Session &s, IStepIO &stepIO) { s.run(stepIO); }, nb::arg("stepio"), release,
          "Run one step.\n"
          "\n"
          "Args:\n"
          "    stepio: Arrays or callbacks.\n"
          "    debugName: Name in the log.\n"
          "    programHandle: Of another program: copyNamedBuffers, see buffersFromHost; implicitPipeliningFwdOnly,\n"
          "        see SessionOptions.createImplicitPipeliningFwdOnlyProgram.\n"
          "\n"
          "Raises:\n"
          "    popart_runtime_error: Not prepared, weights not sent (training), or buffers that do not fit.")
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
           nb::arg("saveVariables") = true, release,
           "Write the compiled program and the values of its variables.\n"
           "\n"
           "Args:\n"
           "    path: File, or folder for executable.popef. Missing folders are made.\n"
           "    savePopartMetadata: Kept, no effect.\n"
           "    saveVariables: Also write the values.")
      .def("saveVariables", &Session::saveVariables, nb::arg("path"), release,
           "Write the values of the variables.\n"
           "\n"
           "Args:\n"
           "    path: File, or folder for variables.popef.")
      .def("loadExecutable", &Session::loadExecutableFromFile, nb::arg("filename"), release,
           "Take the program and the values of its variables from a file of saveExecutable or saveVariables.\n"
           "\n"
           "prepareDevice then runs no compiler pass, and weightsFromHost sends the values to the device.\n"
           "\n"
           "Args:\n"
           "    filename: The file. It must hold the program of this session, for hardware of this kind.")
      .def("setRandomSeed", &Session::setRandomSeed, nb::arg("seedValue"),
           "Set the seed of random operators.\n"
           "\n"
           "Args:\n"
           "    seedValue: Whole number of 64 bits.")
      .def("getRandomSeed", &Session::getRandomSeed, "The seed as the device has it; it moves on with every batch.")
      .def("getRNGState", &Session::getRNGState,
           "The state of stochastic rounding: two numbers, which every run moves on.\n"
           "\n"
           "It needs the option enableLoadAndOffloadRNGState.")
      .def("setRNGState", &Session::setRNGState, nb::arg("rngValue"),
           "Set the state of stochastic rounding. setRandomSeed sets it as well, so it comes first.\n"
           "\n"
           "It needs the option enableLoadAndOffloadRNGState.\n"
           "\n"
           "Args:\n"
           "    rngValue: Numbers of getRNGState.")
      .def("getInfo", &Session::getInfo, nb::arg("id"),
           "Type and shape of a tensor.\n"
           "\n"
           "Args:\n"
           "    id: The tensor.")
      .def("_setInputShapes", nb::overload_cast<const InputShapeInfo &>(&Session::setInputShapes), nb::arg("shapes"),
           release)
      .def("hasOpenShapes", &Session::hasOpenShapes,
           "Whether input shapes are open: the model leaves them so, and engineOptions has max_shape_programs.")
      .def("getIr", &Session::getIrPtr, "The program.")
      .def("getSummaryReport", &Session::getSummaryReport, nb::arg("resetProfile") = true,
           "Memory by kind in bytes and, with engineOptions autoReport.all, the time of the first runs by step, as "
           "text.\n"
           "\n"
           "Args:\n"
           "    resetProfile: Forget the runs so far.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: Before prepareDevice, or the program is not loaded.")
      .def("_report", &Session::getReport)
      .def(
          "_loweredModel",
          [](const Session &s, bool values) {
            const std::string bytes = s.getLoweredModel(values ? PrintData::Full : PrintData::Summary);
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("values"))
      .def("_isPrepared", &Session::isPrepared)
      .def("_runsToProfile", &Session::runsToProfile)
      .def("_endProfile", &Session::endProfile, release)
      .def("_profileRuns", &Session::profileRuns, nb::arg("runs"), nb::arg("before") = 0, release)
      .def("getThreadReport", &Session::getThreadReport,
           "Every kernel with the threads it uses, its tasks and the predicted share of busy threads, as text.")
      .def(
          "getSerializedGraph",
          [](const Session &s) {
            const std::string text = s.getSerializedGraph();
            return nb::bytes(text.data(), text.size());
          },
          "The program as JSON, in bytes.")
      .def("_serializeIr", &Session::serializeIr, nb::arg("format"))
      .def("getCycleCount", &Session::getCycleCount, nb::arg("id") = "",
           "Ticks of the host's clock, one per nanosecond, that the last run took.\n"
           "\n"
           "Needs the option instrumentWithHardwareCycleCounter and a run.\n"
           "\n"
           "Args:\n"
           "    id: \"\": the whole run. There is no other counter.")
      .def("statistics", &Session::statistics,
           "What runs have moved and how long they took since the program was loaded.")
      .def("memoryFit", &Session::memoryFit,
           "How prepareDevice made the program fit into the memory limit, with what is predicted; None where it did "
           "not have to.")
      .def("buffersFromHost", &Session::buffersFromHost, release,
           "Send the host's values of the variables in the option updatableNamedBuffers to the device.")
      .def("checkInplacingAmbiguity", &Session::checkInplacingAmbiguity,
           "Raise popart_exception when the result depends on an order that nothing fixes.")
      .def("broadcastWeights", &Session::broadcastWeights, nb::arg("rootRank") = 0, release,
           "Give all processes the host's weights and optimizer state of one. All of them call it, before\n"
           "weightsFromHost.\n"
           "\n"
           "Args:\n"
           "    rootRank: Number of that process.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: There is no such process, one does not come, or has other variables.")
      .def("setEngineIsLoaded", &Session::setEngineIsLoaded, nb::arg("isLoaded"),
           "Say that the device holds the program no more.\n"
           "\n"
           "Args:\n"
           "    isLoaded: False unloads.")
      .def("_variableIds", &Session::variableIds);
  explainMisfits<Session>(
      "run",
      "a StepIO, such as run(popart.PyStepIO({\"x\": x}, session.initAnchorArrays())). A model as a "
      "function of arrays: model = popart.load(\"model.onnx\"); model(x)");
}

void bindTrainableTensor(nb::module_ &m) {
  nb::class_<TrainableTensor>(m, "TrainableTensor", "A floating-point initializer of a model, and whether it trains.")
      .def_ro(
          "name", &TrainableTensor::name,
          "Name of the initializer; of one of a body of If, Loop or Scan, with the body's place where another tensor "
          "has it too.")
      .def_prop_ro(
          "shape", [](const TrainableTensor &t) { return t.info.shape(); }, "Its dimensions, as stored.")
      .def_prop_ro(
          "type", [](const TrainableTensor &t) { return toText(t.info.dataType()); },
          "Its element type: \"float32\" ….")
      .def_ro("trains", &TrainableTensor::trains, "Whether training updates it by its gradient.")
      .def_ro("reason", &TrainableTensor::reason, "Why, for people.")
      .def_ro("source", &TrainableTensor::source,
              "The initializer with its first values: `name`, or one that the file stores once for several weights.")
      .def_ro("doubtful", &TrainableTensor::doubtful,
              "Whether it is a guess: name the tensor in `trainable` or `frozen` of the session to settle it.")
      .def("__repr__", [](const TrainableTensor &t) {
        return "TrainableTensor(name='" + t.name + "', shape=" + toText(t.info.shape()) +
               ", trains=" + (t.trains ? "True" : "False") + ", reason='" + t.reason + "')";
      });
}

void bindMemoryFit(nb::module_ &m) {
  auto fit = nb::class_<MemoryFit>(m, "MemoryFit",
                                   "What the compiler chose for a program that did not fit into the memory limit as it "
                                   "is.\n\nBytes are those of one replica on the device.");
  nb::class_<MemoryFit::Choice>(fit, "Choice", "One kind of choice.")
      .def_ro("what", &MemoryFit::Choice::what,
              "\"computed again\", or \"activations\", \"optimizer state\", \"accumulators\" or \"weights\" with "
              "\"off chip\".")
      .def_ro("tensors", &MemoryFit::Choice::tensors, "How many tensors.")
      .def_ro("bytes", &MemoryFit::Choice::bytes, "Their bytes.")
      .def_ro("milliseconds", &MemoryFit::Choice::milliseconds, "Time predicted for these alone, in one update.");
  fit.def_ro("limitBytes", &MemoryFit::limitBytes, "The limit.")
      .def_ro("plainBytes", &MemoryFit::plainBytes, "What the program needs without changes.")
      .def_ro("bytes", &MemoryFit::bytes, "What it needs with the changes.")
      .def_ro("remoteBytes", &MemoryFit::remoteBytes, "What it then keeps off chip.")
      .def_ro("plainMilliseconds", &MemoryFit::plainMilliseconds, "Predicted time of a run without the changes.")
      .def_ro("milliseconds", &MemoryFit::milliseconds, "Predicted time of a run with the changes.")
      .def_ro("choices", &MemoryFit::choices, "What was chosen, by kind.")
      .def_ro("compilations", &MemoryFit::compilations, "Programs that were compiled to find it.");
}

}  // namespace

void bindSessions(nb::module_ &m) {
  nb::class_<RunStatistics>(
      m, "RunStatistics",
      "What runs have moved and how long they took since the program was loaded.\n\nA transfer is "
      "one value of one stream of one replica.")
      .def_ro("runs", &RunStatistics::runs, "Runs that ended without an error.")
      .def_ro("transfersFromHost", &RunStatistics::transfersFromHost, "Values taken from the host.")
      .def_ro("bytesFromHost", &RunStatistics::bytesFromHost, "Their bytes.")
      .def_ro("transfersToHost", &RunStatistics::transfersToHost, "Values given to the host.")
      .def_ro("bytesToHost", &RunStatistics::bytesToHost, "Their bytes.")
      .def_ro("seconds", &RunStatistics::seconds,
              "Time in the runs that ended without an error, transfers included; None where runs are not timed.")
      .def("__repr__", [](const RunStatistics &s) {
        return "RunStatistics(runs=" + std::to_string(s.runs) +
               ", transfersFromHost=" + std::to_string(s.transfersFromHost) +
               ", bytesFromHost=" + std::to_string(s.bytesFromHost) +
               ", transfersToHost=" + std::to_string(s.transfersToHost) +
               ", bytesToHost=" + std::to_string(s.bytesToHost) +
               ", seconds=" + (s.seconds ? std::to_string(*s.seconds) : "None") + ")";
      });
  bindMemoryFit(m);
  bindTrainableTensor(m);
  bindSessionBase(m);
  nb::class_<LossObject>(m, "_LossObject")
      .def(
          "__init__",
          [](LossObject *self, const std::string &type, const std::vector<TensorId> &inputs, const TensorId &output,
             float lambda, ReductionType reduction, std::optional<int64_t> virtualGraph,
             std::optional<int64_t> pipelineStage) {
            new (self) LossObject{type, inputs, output, lambda, reduction, virtualGraph, pipelineStage};
          },
          nb::arg("type"), nb::arg("inputs"), nb::arg("output"), nb::arg("lambda_") = 1.0f,
          nb::arg("reduction") = ReductionType::Sum, nb::arg("virtualGraph") = nb::none(),
          nb::arg("pipelineStage") = nb::none());

  nb::class_<InferenceSession, Session>(m, "_InferenceSessionCore")
      .def(
          "__init__",
          [](InferenceSession *self, nb::object model, const DataFlow &dataFlow, std::shared_ptr<DeviceInfo> device,
             const InputShapeInfo &shapes, const Patterns &patterns, const SessionOptions &options,
             const std::string &name) {
            const ModelText text(model);
            ReleaseGil release;
            new (self) InferenceSession(std::move(*InferenceSession::createFromOnnxModel(
                text.view(), dataFlow, device, shapes, options, patterns, name)));
          },
          nb::arg("fnModel"), nb::arg("dataFlow"), nb::arg("deviceInfo").none(), nb::arg("inputShapeInfo"),
          nb::arg("patterns"), nb::arg("userOptions"), nb::arg("name"))
      .def(
          "__init__",
          [](InferenceSession *self, std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> device,
             const std::string &name, int batchesPerStep) {
            ReleaseGil release;
            new (self) InferenceSession(
                std::move(*InferenceSession::createFromIr(std::move(ir), device, name, batchesPerStep)));
          },
          nb::arg("ir"), nb::arg("deviceInfo").none(), nb::arg("name"), nb::arg("batchesPerStep"))
      .def("getAllTensorIds", &Session::getAllTensorIds, "Ids of the program's tensors.");
  nb::class_<TrainingSession, Session>(m, "_TrainingSessionCore")
      .def(
          "__init__",
          [](TrainingSession *self, nb::object model, const DataFlow &dataFlow, nb::object loss,
             const Optimizer &optimizer, std::shared_ptr<DeviceInfo> device, const InputShapeInfo &shapes,
             const Patterns &patterns, const SessionOptions &options, const std::string &name) {
            const ModelText text(model);
            if (!PyUnicode_Check(loss.ptr())) {
              const std::vector<LossObject> losses = toLosses(loss);
              ReleaseGil release;
              new (self) TrainingSession(std::move(*TrainingSession::createFromOnnxModel(
                  text.view(), dataFlow, losses, optimizer, device, shapes, options, patterns, name)));
              return;
            }
            const auto lossId = nb::cast<TensorId>(loss);
            ReleaseGil release;
            new (self) TrainingSession(std::move(*TrainingSession::createFromOnnxModel(
                text.view(), dataFlow, lossId, optimizer, device, shapes, options, patterns, name)));
          },
          nb::arg("fnModel"), nb::arg("dataFlow"), nb::arg("loss"), nb::arg("optimizer"), nb::arg("deviceInfo").none(),
          nb::arg("inputShapeInfo"), nb::arg("patterns"), nb::arg("userOptions"), nb::arg("name"))
      .def("getTensorIds", &Session::getAllTensorIds, "Ids of the program's tensors.")
      .def("updateOptimizerFromHost", &TrainingSession::updateOptimizerFromHost, nb::arg("optimizer"),
           "Use other hyper-parameters from now on.\n"
           "\n"
           "Args:\n"
           "    optimizer: Of the same class, with the same constant values.\n"
           "\n"
           "Raises:\n"
           "    popart_runtime_error: It is not a valid replacement.")
      .def("trainableTensors", &TrainingSession::trainableTensors,
           "What trains and why.\n"
           "\n"
           "Returns:\n"
           "    One `TrainableTensor` for each floating-point initializer of the model, in the order of the file; "
           "empty\n"
           "    for a session made from an Ir.");
}

}  // namespace popart::python
