// Session: a compiled model on a device (docs/compat/sessions.md). Order of calls: create… → prepareDevice →
// weightsFromHost (training) → run … → weightsToHost → readWeights, or modelToHost.
// Creation builds and checks the whole program (backward pass, updates, host streams); prepareDevice compiles and loads
// it. What only reads the program may be asked from creation on: data flow, infos, names, the Ir and its JSON.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/inferenceform.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/istepio.hpp>
#include <popart/memoryfit.hpp>
#include <popart/optimizer.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/runstatistics.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/tensordata.hpp>
#include <popart/trainabletensor.hpp>

namespace popart {

class Ir;
enum class PrintData;  // of ir.hpp

// Losses in the form of old programs: an op added at the end of the model. Several losses are summed.
struct LossObject {
  std::string type;                              // "Nll", "L1" or "IdentityLoss"
  std::vector<TensorId> inputs;                  // values, and labels for Nll
  TensorId output;                               // name of the loss tensor to make
  float lambda = 1.0f;                           // L1
  ReductionType reduction = ReductionType::Sum;  // over the elements of the loss
  std::optional<int64_t> virtualGraph{};         // where it is computed; none: where its first input is
  std::optional<int64_t> pipelineStage{};        // likewise
};

// What both kinds share. One thread at a time; the device, StepIO and arrays stay the caller's.
class Session {
 public:
  virtual ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  Session(Session &&) noexcept;  // the source may only be destroyed

  // ---- compile and load
  // A program above the memory limit (engineOptions["max_memory"]) computes activations again or keeps tensors off
  // chip, with the same results, until it fits: memoryFit says how.
  // Throws memory_allocation_err when nothing makes it fit or the system has no memory, popart::error when an op has no
  // kernel, the device does not suit the program or is in use, runtime_error when an offline device is to load or the
  // system refuses a thread. loadEngine false, or option compileEngine off: compile only. Weights on the device are
  // lost.
  void prepareDevice(bool loadEngine = true);
  void loadEngineAndConnectStreams();  // runtime_error before prepareDevice; nothing happens when loaded
  bool isPrepared() const;             // compiled; perhaps not loaded

  // ---- open shapes: with engineOptions["max_shape_programs"] inputs may have open dimensions. A program is then made
  // for each set of shapes when it is first used; so many are kept, and those used longest ago go. All have the same
  // weights, optimizer state and random numbers. Until the first shapes are known prepareDevice and weightsFromHost are
  // noted and done then; what reads the program, weights or device throws runtime_error.
  bool hasOpenShapes() const;  // whether the session was made so
  // Goes on with the program for these shapes of one micro-batch. Every open input has an entry, unless the dimensions'
  // names say its shape. Throws popart::error when a shape does not fit the model or the program cannot be made; the
  // session then goes on as before. Nothing happens in sessions of fixed shapes.
  void setInputShapes(const InputShapeInfo &shapes);
  // The same for the arrays of a step, as run does: their shapes are those of a micro-batch, behind dimensions for
  // batches per step, micro-batches per update and replicas, where these are not 1; or their first dimension counts
  // the samples of all. An array of rank 1 may stand for any shape with one open dimension. An input without array
  // (callbacks) keeps its shape; popart::error when it has none yet.
  void setInputShapes(IStepIO &stepIO);

  // ---- run: one step. A program that was only compiled is loaded first, except where option compileEngine is off.
  // Throw runtime_error: not prepared, not loaded (compileEngine off), weights not loaded (training), another run
  // going on, tensors missing in stepIO, buffers of wrong type or shape (docs/compat/sessions.md).
  void run(IStepIO &stepIO, std::string debugName = "");
  // The program of that handle: "copyNamedBuffers" is buffersFromHost, where option updatableNamedBuffers names any;
  // "implicitPipeliningFwdOnly" runs the forward passes of a step, with option createImplicitPipeliningFwdOnlyProgram.
  // Throws runtime_error for another handle, otherwise as above.
  void run(std::string programHandle, IStepIO &stepIO, std::string debugName = "");
  // Of the runs since the program was loaded; all 0 before. Not while a run is going on. With synthetic data no
  // transfers. Runs are timed with option instrumentWithHardwareCycleCounter.
  RunStatistics statistics() const;

  // ---- weights. Throw runtime_error where something is to be read or written on the device and nothing is loaded.
  void weightsFromHost();  // host values of all variables, without the random seed -> device
  void buffersFromHost();  // those of option updatableNamedBuffers alone; runtime_error where it names none
  void weightsToHost();    // device -> buffers that readWeights reads
  // Whether those are the device's values: after weightsFromHost and weightsToHost, until the next run, or as marked.
  bool areHostWeightsInSync() const;
  void markHostWeightsInSync();
  void markHostWeightsOutOfSync();
  // Both throw runtime_error for names that are no weight of the model or optimizer state, with the nearest ones, and
  // for arrays of another type or shape; readWeights also for read-only arrays, writeWeights and resetHostWeights for
  // an inference session with constantWeights (without updatableNamedBuffers); then nothing was copied. readWeights
  // gives what the device has, as weightsToHost does, which it calls where the device may have changed since; weights
  // that the program has as constants, or does not need, it leaves alone.
  void readWeights(const IWeightsIO &weightsIO);
  void writeWeights(const IWeightsIO &weightsIO);  // into the host values; weightsFromHost brings them to the device
  // Host values from the initializers of another model of the same structure. Throws runtime_error for another type or
  // shape, and for an initializer without counterpart unless those are ignored (integer ones always are).
  void resetHostWeights(const std::string &modelProtoOrFilename,
                        const bool ignoreWeightsInModelWithoutCorrespondingHostWeight = false);
  // The model with current values (weightsToHost when loaded) and optimizer state, as an ONNX file. The values read
  // become the host values: weightsFromHost sends them. Throws runtime_error before prepareDevice and when the session
  // was not made from an ONNX model, popart::error when the file cannot be written. Inference: the network alone, as
  // writeInferenceForm (popart/graphtransformer.hpp) makes it, with the file's outputs but for losses; its weights
  // are in the file itself, or in "<file name>.data" where they exceed 2 GiB.
  void modelToHost(const std::string &fileName, ModelForm form = ModelForm::Training);
  // From now on the weights that saveInitializersExternally wrote to `fromLocation` lie in the new file `toLocation`:
  // modelToHost writes them there. Throws popart::error: the target exists, the source does not, nothing is stored in
  // it.
  void updateExternallySavedTensorLocations(const std::string &fromLocation, const std::string &toLocation);
  // The values weightsFromHost would send, by variable.
  const std::map<TensorId, TensorData> &hostWeights() const;
  // Names of the variables a model file would hold.
  std::vector<TensorId> variableIds() const;

  // ---- files of compiled programs: the lowered program, its constants and the values of its variables. A folder as
  // path means <folder>/executable.popef (variables.popef); missing parent folders are made. Throw runtime_error before
  // prepareDevice, popart::error when a file cannot be written.
  void saveExecutable(const std::string &path, const bool savePopartMetadata = true, const bool saveVariables = true);
  void saveVariables(const std::string &path);
  void saveExecutableToFile(const std::string &filename);
  void saveExecutableToStream(std::ostream &out);
  // The program that the device runs as an ONNX model to look at, with the kernel and layer of each step: what
  // popart-opt --onnx writes. Throws runtime_error before prepareDevice, popart::error above 2 GiB.
  std::string getLoweredModel(PrintData values) const;
  void compileAndExport(const std::string &filename);  // prepareDevice(false), saveExecutable
  void compileAndExport(std::ostream &out);            // the same with saveExecutableToStream
  // Takes the program, so that prepareDevice runs no pass, and the values of the variables, which weightsFromHost
  // brings to the device. Throws popart::error when the file is no such file, is damaged, is for another instruction
  // set, or holds another program.
  void loadExecutableFromFile(const std::string &filename);
  void loadExecutableFromStream(std::shared_ptr<std::istream> in);

  // ---- random numbers: a 64-bit seed, which each run moves on; the first one is random. Throw runtime_error before
  // the program is loaded, unless nothing is random.
  void setRandomSeed(uint64_t seed);  // sets the state of rounding too; nothing random: a warning and nothing else
  uint64_t getRandomSeed();           // 0 when nothing is random
  // The state of stochastic rounding: two numbers, which each run moves on. A run goes on with the same bits when the
  // seed is set first and the state afterwards. Throw runtime_error: without option enableLoadAndOffloadRNGState,
  // before the program is loaded, for a state of another length.
  std::vector<uint32_t> getRNGState();
  void setRNGState(const std::vector<uint32_t> state);

  // ---- inspection, at any time; getSummaryReport throws runtime_error before the program is loaded. Names are those
  // the program used for anchors: `output` is the model's only output where no tensor has that name.
  TensorInfo getInfo(TensorId id) const;  // popart::error with the nearest names for an unknown id
  bool hasInfo(TensorId id) const;
  std::set<TensorId> getAllTensorIds() const;
  // Memory in bytes, and the time of steps where engineOptions ask for it (autoReport.all), for people; `resetProfile`
  // forgets the runs so far.
  std::string getSummaryReport(bool resetProfile = true) const;
  // The same and more as JSON: what the Python package pva reads (decision 0042). Throws runtime_error before
  // prepareDevice.
  std::string getReport() const;
  // Times steps and threads of the next `runs` runs behind `before` others, for getReport; 0: no more. The program is
  // loaded anew where that changes what it times; values on the device go on. In a job of several processes all of them
  // call it, and load anew in any case. Throws runtime_error before the program is loaded, popart::error for negative
  // numbers.
  void profileRuns(int runs, int before = 0);
  // As profileRuns(0), which one process of a job may call alone: there the program is not loaded anew.
  void endProfile();
  // Runs that are still to be left out, and behind them to be recorded.
  std::pair<size_t, size_t> runsToProfile() const;
  // How prepareDevice made the program fit into the memory limit; nothing: it did not have to.
  std::optional<MemoryFit> memoryFit() const;
  // Every kernel with the threads it will use, its tasks and the predicted share of busy threads; for people. Throws
  // runtime_error before prepareDevice.
  std::string getThreadReport() const;
  std::string getSerializedGraph() const;                 // as serializeIr
  std::string serializeIr(IrSerializationFormat format);  // docs/compat/serialised-ir.md
  // Ticks of the host's clock, one per nanosecond, that the last run took: from its first step to its last, of all
  // replicas, host transfers included; at least 1. On a model of IPUs: estimated cycles of an IPU (decision 0042).
  // Throws runtime_error without option instrumentWithHardwareCycleCounter, for an id other than "", without
  // Instrumentation::Outer among hardwareInstrumentations and before the first run.
  uint64_t getCycleCount(std::string id = "");
  // Throws popart::error when an op modifies memory that another op reads and nothing orders the two.
  void checkInplacingAmbiguity() const;
  const Ir &getIr() const;               // the whole program; valid as long as the session
  std::shared_ptr<Ir> getIrPtr() const;  // the same, shared
  const DataFlow &getDataFlow() const;   // these two: as given at creation
  const SessionOptions &getSessionOptions() const;
  std::shared_ptr<DeviceInfo> getDeviceInfo() const;           // never null
  DeviceInfo &getDevice() const { return *getDeviceInfo(); }   // the same
  void setDeviceInfo(std::shared_ptr<DeviceInfo> deviceInfo);  // unloads; popart::error for null
  void setEngineIsLoaded(bool isLoaded);                       // false unloads; true changes nothing
  // With replicas in several processes: all get the host's values of variables that process `rootRank` has, to be sent
  // to the device by weightsFromHost. All processes call it, before or after prepareDevice. Throws runtime_error for a
  // rank that there is not, and naming a process that does not come or has other variables.
  void broadcastWeights(int rootRank = 0);

 protected:
  struct Impl;
  struct OpenShapes;  // the programs of a session of open shapes
  // The program in use. Throws runtime_error as long as there is none: no input shapes are known yet.
  class Program {
   public:
    explicit Program(std::unique_ptr<Impl> impl);
    ~Program();
    Program(Program &&) noexcept;
    Program &operator=(Program &&) noexcept;
    Impl *get() const { return impl_.get(); }
    Impl *release();
    Impl *operator->() const {
      if (!impl_) [[unlikely]]
        throwNone();
      return impl_.get();
    }
    Impl &operator*() const { return *operator->(); }

   private:
    [[noreturn]] static void throwNone();
    std::unique_ptr<Impl> impl_;
  };
  Session(std::unique_ptr<Impl> impl, std::unique_ptr<OpenShapes> open);  // one of them is null
  Program impl_;
  std::unique_ptr<OpenShapes> open_;  // null: shapes are fixed
};

// Runs a model forward. Weights are constants of the program unless option constantWeights is off.
class InferenceSession : public Session {
 public:
  ~InferenceSession() override;
  InferenceSession(InferenceSession &&) noexcept;  // the source may only be destroyed
  // `model`: the name of a file or ModelProto bytes. Throws popart::error: null device, batchesPerStep 0, no anchors,
  // unknown anchors, options that contradict each other or are not supported, reserved names, model errors.
  static std::unique_ptr<InferenceSession> createFromOnnxModel(std::string_view model, const DataFlow &dataFlow,
                                                               std::shared_ptr<DeviceInfo> deviceInfo,
                                                               const InputShapeInfo &inputShapeInfo = InputShapeInfo(),
                                                               const SessionOptions &userOptions = SessionOptions(),
                                                               const Patterns &patterns = Patterns(),
                                                               const std::string name = "inference");
  // `ir`: a main graph with host stream ops. It executes once per run; streams hold batchesPerStep slices. Throws
  // popart::error for null pointers.
  static std::unique_ptr<InferenceSession> createFromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> deviceInfo,
                                                        const std::string name = "fromIr", int batchesPerStep = 1);

 private:
  using Session::Session;
};

// Runs forward pass, backward pass and weight updates.
class TrainingSession : public Session {
 public:
  ~TrainingSession() override;
  TrainingSession(TrainingSession &&) noexcept;  // the source may only be destroyed
  // Throws popart::error as inference does (anchors may be none), and for a loss that does not exist or has more than
  // one element, for ops without gradient on the way to it and for optimizer and options that do not go together.
  static std::unique_ptr<TrainingSession> createFromOnnxModel(std::string_view model, const DataFlow &dataFlow,
                                                              const TensorId &loss, const Optimizer &optimizer,
                                                              std::shared_ptr<DeviceInfo> deviceInfo,
                                                              const InputShapeInfo &inputShapeInfo = InputShapeInfo(),
                                                              const SessionOptions &userOptions = SessionOptions(),
                                                              const Patterns &patterns = Patterns(),
                                                              const std::string name = "training");
  // The older form: losses are ops added to the model; their inputs that the model lacks are streams of the types that
  // inputShapeInfo gives.
  static std::unique_ptr<TrainingSession> createFromOnnxModel(
      std::string_view model, const DataFlow &dataFlow, const std::vector<LossObject> &losses,
      const Optimizer &optimizer, std::shared_ptr<DeviceInfo> deviceInfo,
      const InputShapeInfo &inputShapeInfo = InputShapeInfo(), const SessionOptions &userOptions = SessionOptions(),
      const Patterns &patterns = Patterns(), const std::string name = "training");
  // `ir`: forward pass, backward pass and updates as ops. One batch per run. Throws popart::error for null pointers.
  static std::unique_ptr<TrainingSession> createFromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> deviceInfo,
                                                       const std::string name = "training");

  // New hyper-parameter values, sent to the device at once when loaded. Throws popart::error for null, runtime_error
  // "New optimizer is not a valid replacement…" when the program was built for another kind of optimizer or for other
  // constant values, and when the session was made from an Ir.
  void updateOptimizerFromHost(const Optimizer *optimizer);
  // What trains and why: one entry for each floating-point initializer of the model, in the order of the file; empty
  // for a session made from an Ir.
  const std::vector<TrainableTensor> &trainableTensors() const;

 private:
  using Session::Session;
};

}  // namespace popart
