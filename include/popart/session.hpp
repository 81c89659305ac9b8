// Session: a compiled model on a device (docs/compat/sessions.md). Order of calls: create… → prepareDevice →
// weightsFromHost (training) → run … → weightsToHost → readWeights, or modelToHost. Creation builds and checks the
// whole program (backward pass, updates, host streams); prepareDevice compiles and loads it. Functions that only read
// the program are available after creation: data flow, infos, names, the Ir and its JSON.
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

// Losses in the form of older programs: an op that is added to the model. Several losses are summed.
struct LossObject {
  std::string type;                              // "Nll", "L1" or "IdentityLoss"
  std::vector<TensorId> inputs;                  // values, and labels for Nll
  TensorId output;                               // name of the loss tensor to make
  float lambda = 1.0f;                           // L1
  ReductionType reduction = ReductionType::Sum;  // over the elements of the loss
  std::optional<int64_t> virtualGraph{};         // virtual graph of the loss; none: that of its first input
  std::optional<int64_t> pipelineStage{};        // the same for the pipeline stage
};

// Shared by both kinds of session. One thread at a time; the caller owns the device, StepIO and arrays.
class Session {
 public:
  virtual ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  Session(Session &&) noexcept;  // the source may only be destroyed

  // ---- compile and load
  // If a program exceeds the memory limit (engineOptions["max_memory"]), it recomputes activations or keeps tensors off
  // chip until it fits, with the same results: memoryFit() describes this. Throws memory_allocation_err if it cannot
  // fit or the system has no memory, popart::error if an op has no kernel or the device does not suit the program or is
  // in use, runtime_error if an offline device should be loaded or the system refuses a thread. loadEngine false, or
  // option compileEngine off: compile only. Weights on the device are lost.
  void prepareDevice(bool loadEngine = true);
  void loadEngineAndConnectStreams();  // runtime_error before prepareDevice; no effect if loaded
  bool isPrepared() const;             // compiled, but possibly not loaded

  // ---- open shapes: with engineOptions["max_shape_programs"], inputs may have open dimensions. A program is then
  // compiled for each set of shapes at its first use. The option is the number of programs that are kept; the least
  // recently used ones are dropped. All have the same weights, optimizer state and random numbers. Until the first
  // shapes are known, calls of prepareDevice and weightsFromHost are deferred; functions that read the program, weights
  // or device throw runtime_error.
  bool hasOpenShapes() const;  // whether the session was created with open shapes
  // Switches to the program for these shapes of one micro-batch. Every open input needs an entry, unless the names of
  // its dimensions determine its shape. Throws popart::error if a shape does not fit the model or the program cannot be
  // compiled; the session then continues with the previous program. No effect in sessions with fixed shapes.
  void setInputShapes(const InputShapeInfo &shapes);
  // The same with the shapes of a step's arrays, as run() does. These are the shapes of a micro-batch after dimensions
  // for batches per step, micro-batches per update and replicas, unless these are 1; or the first dimension counts the
  // samples of all. An array of rank 1 may have the values of any shape with one open dimension. An input without an
  // array (callbacks) keeps its shape; popart::error if it has none yet.
  void setInputShapes(IStepIO &stepIO);

  // ---- run: one step. Loads a program that was only compiled, unless option compileEngine is off. Throw
  // runtime_error: not prepared, not loaded (compileEngine off), weights not loaded (training), another run in
  // progress, tensors missing in stepIO, buffers of wrong type or shape (docs/compat/sessions.md).
  void run(IStepIO &stepIO, std::string debugName = "");
  // Runs the program with this handle: "copyNamedBuffers" is buffersFromHost, if option updatableNamedBuffers names
  // any; "implicitPipeliningFwdOnly" runs the forward passes of a step, with option
  // createImplicitPipeliningFwdOnlyProgram. Throws runtime_error for another handle, otherwise as above.
  void run(std::string programHandle, IStepIO &stepIO, std::string debugName = "");
  // Statistics of the runs since the program was loaded; all 0 before. Must not be called during a run. Synthetic data
  // causes no transfers. Runs are timed with option instrumentWithHardwareCycleCounter.
  RunStatistics statistics() const;

  // ---- weights. Throw runtime_error if they must access the device and no program is loaded.
  void weightsFromHost();  // host values of all variables, except the random seed -> device
  void buffersFromHost();  // only those of option updatableNamedBuffers; runtime_error if it names none
  void weightsToHost();    // device -> the buffers that readWeights reads
  // Whether these buffers have the device's values: after weightsFromHost and weightsToHost, until the next run, or as
  // marked.
  bool areHostWeightsInSync() const;
  void markHostWeightsInSync();
  void markHostWeightsOutOfSync();
  // Both throw runtime_error for names that are neither weights of the model nor optimizer state, with the nearest
  // names, and for arrays of another type or shape; readWeights also for read-only arrays, writeWeights and
  // resetHostWeights for an inference session with constantWeights (without updatableNamedBuffers). They then copy
  // nothing. readWeights returns the device's values; it calls weightsToHost if the device may have changed them. It
  // skips weights that are constants of the program or that the program does not need.
  void readWeights(const IWeightsIO &weightsIO);
  void writeWeights(const IWeightsIO &weightsIO);  // to the host values; weightsFromHost sends them to the device
  // Sets host values to the initializers of another model of the same structure. Throws runtime_error for another type
  // or shape, and for an initializer without counterpart unless those are ignored (integer ones always are).
  void resetHostWeights(const std::string &modelProtoOrFilename,
                        const bool ignoreWeightsInModelWithoutCorrespondingHostWeight = false);
  // Writes the model with current values (weightsToHost if loaded) and optimizer state as an ONNX file. The values read
  // become the host values, which weightsFromHost sends. Throws runtime_error before prepareDevice and if the session
  // was not created from an ONNX model, popart::error if the file cannot be written. Inference: only the network, in
  // the form of writeInferenceForm (popart/graphtransformer.hpp), with the file's outputs except losses. Its weights
  // are in the file itself, or in "<file name>.data" if they exceed 2 GiB.
  void modelToHost(const std::string &fileName, ModelForm form = ModelForm::Training);
  // From now on, the weights that saveInitializersExternally wrote to `fromLocation` are stored in the new file
  // `toLocation`, where modelToHost writes them. Throws popart::error: the target exists, the source does not exist, or
  // no weights are stored in it.
  void updateExternallySavedTensorLocations(const std::string &fromLocation, const std::string &toLocation);
  // The values that weightsFromHost would send, by variable.
  const std::map<TensorId, TensorData> &hostWeights() const;
  // Names of the variables that a model file would contain.
  std::vector<TensorId> variableIds() const;

  // ---- files of compiled programs: the lowered program, its constants and the values of its variables. If the path is
  // a folder, the file is <folder>/executable.popef (variables.popef); missing parent folders are created. Throw
  // runtime_error before prepareDevice, popart::error if a file cannot be written.
  void saveExecutable(const std::string &path, const bool savePopartMetadata = true, const bool saveVariables = true);
  void saveVariables(const std::string &path);
  void saveExecutableToFile(const std::string &filename);
  void saveExecutableToStream(std::ostream &out);
  // The program that the device runs as an ONNX model for inspection, with the kernel and layer of each step: the
  // output of popart-opt --onnx. Throws runtime_error before prepareDevice, popart::error above 2 GiB.
  std::string getLoweredModel(PrintData values) const;
  void compileAndExport(const std::string &filename);  // prepareDevice(false), saveExecutable
  void compileAndExport(std::ostream &out);            // the same with saveExecutableToStream
  // Reads the program, so that prepareDevice runs no pass, and the values of the variables, which weightsFromHost sends
  // to the device. Throws popart::error if the file has another format, is damaged, is for another instruction set, or
  // has another program.
  void loadExecutableFromFile(const std::string &filename);
  void loadExecutableFromStream(std::shared_ptr<std::istream> in);

  // ---- random numbers: a 64-bit seed, which each run advances; the first one is random. Throw runtime_error before
  // the program is loaded, unless the program uses no random numbers.
  void setRandomSeed(uint64_t seed);  // also sets the state of rounding; without random numbers, only warns
  uint64_t getRandomSeed();           // 0 if the program uses no random numbers
  // The state of stochastic rounding: two numbers, which each run advances. To continue with the same bits, set first
  // the seed and then the state. Throw runtime_error: without option enableLoadAndOffloadRNGState, before the program
  // is loaded, for a state of another length.
  std::vector<uint32_t> getRNGState();
  void setRNGState(const std::vector<uint32_t> state);

  // ---- inspection, at any time; getSummaryReport throws runtime_error before the program is loaded. Names are those
  // that the program used for anchors: `output` is the model's only output if no tensor has that name.
  TensorInfo getInfo(TensorId id) const;  // popart::error with the nearest names for an unknown id
  bool hasInfo(TensorId id) const;
  std::set<TensorId> getAllTensorIds() const;
  // Readable text: memory in bytes, and the time of steps if engineOptions request it (autoReport.all). `resetProfile`
  // discards the runs so far.
  std::string getSummaryReport(bool resetProfile = true) const;
  // The same and more as JSON, which the Python package pva reads (decision 0042). Throws runtime_error before
  // prepareDevice.
  std::string getReport() const;
  // Records times of steps and threads of the next `runs` runs after `before` other ones, for getReport; 0: none. The
  // program is loaded again if this changes what is timed; values on the device are kept. In a job of several
  // processes, all must call it, and always load again. Throws runtime_error before the program is loaded,
  // popart::error for negative numbers.
  void profileRuns(int runs, int before = 0);
  // As profileRuns(0), but one process of a job may call it alone, because it does not load the program again.
  void endProfile();
  // Number of runs still to be skipped, and number of runs to be recorded after them.
  std::pair<size_t, size_t> runsToProfile() const;
  // How prepareDevice made the program fit into the memory limit; nullopt if it did not have to.
  std::optional<MemoryFit> memoryFit() const;
  // Readable text: every kernel with the threads it will use, its tasks and the predicted share of busy threads. Throws
  // runtime_error before prepareDevice.
  std::string getThreadReport() const;
  std::string getSerializedGraph() const;                 // as serializeIr
  std::string serializeIr(IrSerializationFormat format);  // docs/compat/serialised-ir.md
  // Duration of the last run in ticks of the host's clock, one per nanosecond: from the first step to the last one of
  // all replicas, including host transfers; at least 1. On a model of IPUs: estimated cycles of an IPU (decision 0042).
  // Throws runtime_error without option instrumentWithHardwareCycleCounter, for an id other than "", without
  // Instrumentation::Outer among hardwareInstrumentations, and before the first run.
  uint64_t getCycleCount(std::string id = "");
  // Throws popart::error if an op modifies memory that another op reads and nothing orders the two ops.
  void checkInplacingAmbiguity() const;
  const Ir &getIr() const;               // the whole program; valid as long as the session
  std::shared_ptr<Ir> getIrPtr() const;  // the same, shared
  const DataFlow &getDataFlow() const;   // these two: as given at creation
  const SessionOptions &getSessionOptions() const;
  std::shared_ptr<DeviceInfo> getDeviceInfo() const;           // never null
  DeviceInfo &getDevice() const { return *getDeviceInfo(); }   // the same
  void setDeviceInfo(std::shared_ptr<DeviceInfo> deviceInfo);  // unloads; popart::error for null
  void setEngineIsLoaded(bool isLoaded);                       // false unloads; true changes nothing
  // With replicas in several processes: all get process `rootRank`'s host values of variables, which weightsFromHost
  // sends to the device. All processes must call it, before or after prepareDevice. Throws runtime_error for a rank
  // that does not exist, and naming a process that does not call it or has other variables.
  void broadcastWeights(int rootRank = 0);

 protected:
  struct Impl;
  struct OpenShapes;  // the programs of a session of open shapes
  // The program in use. Throws runtime_error if there is none, because no input shapes are known yet.
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
  // `ir`: a main graph with host stream ops, which executes once per run; streams have batchesPerStep slices. Throws
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
  // Throws popart::error in the same cases as inference (except that anchors may be none), for a loss that does not
  // exist or has more than one element, for ops without gradient that the loss depends on, and for optimizers and
  // options that contradict each other.
  static std::unique_ptr<TrainingSession> createFromOnnxModel(std::string_view model, const DataFlow &dataFlow,
                                                              const TensorId &loss, const Optimizer &optimizer,
                                                              std::shared_ptr<DeviceInfo> deviceInfo,
                                                              const InputShapeInfo &inputShapeInfo = InputShapeInfo(),
                                                              const SessionOptions &userOptions = SessionOptions(),
                                                              const Patterns &patterns = Patterns(),
                                                              const std::string name = "training");
  // The older form: losses are ops that are added to the model. Inputs of theirs that the model does not have become
  // streams, with the types of inputShapeInfo.
  static std::unique_ptr<TrainingSession> createFromOnnxModel(
      std::string_view model, const DataFlow &dataFlow, const std::vector<LossObject> &losses,
      const Optimizer &optimizer, std::shared_ptr<DeviceInfo> deviceInfo,
      const InputShapeInfo &inputShapeInfo = InputShapeInfo(), const SessionOptions &userOptions = SessionOptions(),
      const Patterns &patterns = Patterns(), const std::string name = "training");
  // `ir`: forward pass, backward pass and updates as ops. One batch per run. Throws popart::error for null pointers.
  static std::unique_ptr<TrainingSession> createFromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> deviceInfo,
                                                       const std::string name = "training");

  // Sets new hyper-parameter values; sends them to the device at once if loaded. Throws popart::error for null,
  // runtime_error "New optimizer is not a valid replacement…" if the program was built for another kind of optimizer or
  // for other constant values, and if the session was created from an Ir.
  void updateOptimizerFromHost(const Optimizer *optimizer);
  // Which initializers train, with reasons: one entry for each floating-point initializer of the model, in the order of
  // the file; empty for a session created from an Ir.
  const std::vector<TrainableTensor> &trainableTensors() const;

 private:
  using Session::Session;
};

}  // namespace popart
