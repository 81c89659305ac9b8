// Session: a compiled model on a device (PopART C++ API, "session"). Order of calls: create… → prepareDevice →
// weightsFromHost (training) → run … → weightsToHost → readWeights, or modelToHost.
// Creation builds and checks the whole program (backward pass, updates, host streams); prepareDevice compiles and loads
// it.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/istepio.hpp>
#include <popart/optimizer.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/tensordata.hpp>

namespace popart {

class Ir;

// Losses in the form of old programs: an op added at the end of the model. Several losses are summed.
struct LossObject {
  std::string type;  // "Nll", "L1" or "IdentityLoss"
  std::vector<TensorId> inputs;
  TensorId output;
  float lambda = 1.0f;  // L1
  ReductionType reduction = ReductionType::Sum;
};

class Session {
 public:
  virtual ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  Session(Session &&) noexcept;

  // ---- compile and load
  // Throws memory_allocation_err when the program does not fit, popart::error when an op has no kernel or the device
  // does not suit the program. loadEngine false: compile only.
  void prepareDevice(bool loadEngine = true);
  void loadEngineAndConnectStreams();
  bool isPrepared() const;

  // ---- run. Throw runtime_error: not prepared, offline device, weights not loaded (training), buffers of wrong size.
  void run(IStepIO &stepIO, std::string debugName = "");
  void run(std::string programHandle, IStepIO &stepIO, std::string debugName = "");

  // ---- weights
  void weightsFromHost();  // host values of all variables -> device
  void weightsToHost();    // device -> buffers that readWeights reads
  // Both throw runtime_error for names that are no variable of the session and for arrays of another type or size.
  void readWeights(const IWeightsIO &weightsIO);
  void writeWeights(const IWeightsIO &weightsIO);  // into the host values; weightsFromHost brings them to the device
  // Host values from the initializers of another model of the same structure.
  void resetHostWeights(const std::string &modelProtoOrFilename,
                        const bool ignoreWeightsInModelWithoutCorrespondingHostWeight = false);
  // The model with current values, as an ONNX file.
  void modelToHost(const std::string &fileName);
  // From now on the weights that saveInitializersExternally wrote to `fromLocation` lie in the new file `toLocation`:
  // modelToHost writes them there. Throws popart::error: the target exists, the source does not, nothing is stored in
  // it.
  void updateExternallySavedTensorLocations(const std::string &fromLocation, const std::string &toLocation);
  // The values weightsFromHost would send, by variable.
  const std::map<TensorId, TensorData> &hostWeights() const;
  // Names of the variables a model file would hold.
  std::vector<TensorId> variableIds() const;

  // ---- files of compiled programs: the program's identity and the values of its variables. A folder as path means
  // <folder>/executable.popef (variables.popef); missing parent folders are made. Throw runtime_error before
  // prepareDevice, popart::error when a file cannot be written.
  void saveExecutable(const std::string &path, const bool savePopartMetadata = true, const bool saveVariables = true);
  void saveVariables(const std::string &path);
  void saveExecutableToFile(const std::string &filename);
  void saveExecutableToStream(std::ostream &out);
  void compileAndExport(const std::string &filename);  // prepareDevice(false), saveExecutable
  // Takes the values of the variables; weightsFromHost brings them to the device. Kernels are chosen for this machine
  // by prepareDevice. Throws popart::error when the file is no such file, is damaged, or holds another program.
  void loadExecutableFromFile(const std::string &filename);
  void loadExecutableFromStream(std::shared_ptr<std::istream> in);

  // ---- random numbers
  void setRandomSeed(uint64_t seed);  // no random op: a warning and nothing else
  uint64_t getRandomSeed();           // 0 when nothing is random
  std::vector<uint32_t> getRNGState();
  void setRNGState(const std::vector<uint32_t> state);

  // ---- inspection. getInfo and getAllTensorIds throw runtime_error before prepareDevice. Names are those the program
  // used for anchors: `output` is the model's only output where no tensor has that name.
  TensorInfo getInfo(TensorId id) const;
  bool hasInfo(TensorId id) const;
  std::set<TensorId> getAllTensorIds() const;
  std::string getSummaryReport(bool resetProfile = true) const;
  std::string getSerializedGraph() const;
  std::string serializeIr(IrSerializationFormat format);
  uint64_t getCycleCount(std::string id = "");
  void checkInplacingAmbiguity() const;
  const Ir &getIr() const;
  std::shared_ptr<Ir> getIrPtr() const;
  const DataFlow &getDataFlow() const;
  const SessionOptions &getSessionOptions() const;
  std::shared_ptr<DeviceInfo> getDeviceInfo() const;
  void setDeviceInfo(std::shared_ptr<DeviceInfo> deviceInfo);
  void setEngineIsLoaded(bool isLoaded);
  void broadcastWeights(int rootRank = 0);  // one process: nothing to do

 protected:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::string serialiseExecutable(const bool withVariables) const;
  void readExecutable(const std::string &text, const std::string &what);
  std::unique_ptr<Impl> impl_;
};

class InferenceSession : public Session {
 public:
  ~InferenceSession() override;
  InferenceSession(InferenceSession &&) noexcept;
  // Throws popart::error: null device, no anchors, unknown anchors, model errors.
  static std::unique_ptr<InferenceSession> createFromOnnxModel(std::string_view model, const DataFlow &dataFlow,
                                                               std::shared_ptr<DeviceInfo> deviceInfo,
                                                               const InputShapeInfo &inputShapeInfo = InputShapeInfo(),
                                                               const SessionOptions &userOptions = SessionOptions(),
                                                               const Patterns &patterns = Patterns(),
                                                               const std::string name = "inference");
  // `ir`: a main graph with host stream ops. It executes once per run; streams hold batchesPerStep slices.
  static std::unique_ptr<InferenceSession> createFromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> deviceInfo,
                                                        const std::string name = "fromIr", int batchesPerStep = 1);

 private:
  using Session::Session;
};

class TrainingSession : public Session {
 public:
  ~TrainingSession() override;
  TrainingSession(TrainingSession &&) noexcept;
  // Throws popart::error as inference does, and for a loss that does not exist or has more than one element.
  static std::unique_ptr<TrainingSession> createFromOnnxModel(std::string_view model, const DataFlow &dataFlow,
                                                              const TensorId &loss, const Optimizer &optimizer,
                                                              std::shared_ptr<DeviceInfo> deviceInfo,
                                                              const InputShapeInfo &inputShapeInfo = InputShapeInfo(),
                                                              const SessionOptions &userOptions = SessionOptions(),
                                                              const Patterns &patterns = Patterns(),
                                                              const std::string name = "training");
  static std::unique_ptr<TrainingSession> createFromOnnxModel(
      std::string_view model, const DataFlow &dataFlow, const std::vector<LossObject> &losses,
      const Optimizer &optimizer, std::shared_ptr<DeviceInfo> deviceInfo,
      const InputShapeInfo &inputShapeInfo = InputShapeInfo(), const SessionOptions &userOptions = SessionOptions(),
      const Patterns &patterns = Patterns(), const std::string name = "training");
  static std::unique_ptr<TrainingSession> createFromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> deviceInfo,
                                                       const std::string name = "training");

  // New hyper-parameter values. Throws runtime_error "New optimizer is not a valid replacement…" when the program was
  // built for another kind of optimizer.
  void updateOptimizerFromHost(const Optimizer *optimizer);

 private:
  using Session::Session;
};

}  // namespace popart
