// The state of a session, shared by the files that implement Session.
// Invariant: from creation on, hostWeights holds one plain value per variable of the Ir. Device values exist only while
// `program` is loaded.
#pragma once
#include <array>
#include <functional>
#include <optional>

#include <popart/session.hpp>

#include "api/forward_program.hpp"
#include "api/profile.hpp"
#include "api/step_streams.hpp"
#include "api/stepio_sizes.hpp"
#include "api/synthetic_streams.hpp"
#include "fitting/fit.hpp"
#include "onnx/data_files.hpp"
#include "onnx/reader.hpp"
#include "onnx/training/trainable_tensors.hpp"
#include "pipeline/prepare.hpp"
#include "session/compiled_program.hpp"

namespace popart {

// What Session points to.
struct Session::Impl {
  explicit Impl(const std::string &sessionName) : name(sessionName), program(sessionName) {}

  // Whether this is an InferenceSession or a TrainingSession.
  enum class Mode { Inference, Training };

  Mode mode = Mode::Inference;
  std::string name;
  std::optional<onnx::Model> model;  // absent: made from an Ir
  pipeline::Prepared prepared;       // the Ir with all passes run; never without an Ir
  // Makes the request for `prepared`, again at each call; empty: the session was made from an Ir.
  fitting::MakeRequest prepareRequest;
  std::function<std::unique_ptr<Ir>(const std::set<TensorId> &variables)> makeIr;  // makes the Ir from the model again
  Patterns patterns;                                                               // of `prepareRequest`
  // Which initializers are variables; null: none is, or the session was made from an Ir.
  std::shared_ptr<const onnx::TrainableTensors> trainable;
  std::set<TensorId> constantWeights;     // of `model`: in inference sessions, and those that training does not change
  std::optional<fitting::Fitted> fitted;  // replaces `prepared` if that does not fit the memory limit
  std::unique_ptr<Optimizer> optimizer;   // null: inference, or made from an Ir
  std::vector<TensorId> weightsOfGroups;  // names among which the optimizer's groups find their weights
  std::optional<OptimizerValue> chosenLossScaling;  // with option precision, if the optimizer does not set one
  std::set<TensorId> losses;  // of training sessions made from a model: tensors of the model, or made for it
  DataFlow dataFlow;          // if made from an Ir, the batches per step only say how many slices its streams hold
  SessionOptions options;
  std::shared_ptr<DeviceInfo> device;
  std::set<TensorId> modelInputs;            // graph inputs of the model without initializers
  std::set<TensorId> broadcastInputs;        // streams with the same values for all replicas
  session::AheadRules ahead;                 // of the streams
  std::map<TensorId, TensorId> tensorNames;  // names the program uses -> tensor ids, where they differ

  std::map<TensorId, TensorData> hostWeights;       // the values that weightsFromHost sends
  std::map<TensorId, onnx::DataPlace> movedPlaces;  // new places of values that were written at the end of data files
  std::map<TensorId, TensorData> streamBuffers;     // the values that weightsToHost received: one per group of replicas
  std::map<TensorId, TensorData> allReplicas;       // the same for all replicas, for variables that return them all

  // The initial random seed and state of stochastic rounding, used if the loaded program has no variables for them.
  std::array<uint32_t, 2> seed{}, rngState{};

  std::shared_ptr<session::Job> job;  // null: all replicas are here, or nothing needed the others yet
  session::CompiledProgram program;
  mutable ConstantHashes constantHashes;                // of the model; an Ir may have constants of a caller
  std::shared_ptr<const lower::Program> loadedProgram;  // from loadExecutable: prepareDevice runs no passes
  std::unique_ptr<StepStreams> streams;                 // null before load()
  std::unique_ptr<SyntheticStreams> synthetic;          // null: data come from the step IO
  popx::Executablex sizes;                              // stepIO is checked against it
  std::unique_ptr<ForwardProgram> forward;              // null: not requested
  Profile profile;                                      // of the runs, if engineOptions request it
  std::shared_ptr<CompileTimes> compileTimes = std::make_shared<CompileTimes>();
  bool weightsLoaded = false;
  bool hostWeightsInSync = false;  // hostWeights are the device's values
  bool hasReadDevice = false;      // streamBuffers and allReplicas are the device's values
  bool hasWeights = false;         // the loaded program has variables other than the random seed

  const Ir &ir() const { return *prepared.ir; }  // the program before fitting: used for names and file keys
  const Ir &running() const { return fitted ? *fitted->prepared.ir : ir(); }
  // The program as the options request it: without operators for transfers, without loops over batches and without
  // recomputed values unless the options add them.
  std::string serialisedIr() const;
  const TensorId &tensorId(const TensorId &name) const {
    const auto found = tensorNames.find(name);
    return found == tensorNames.end() ? name : found->second;
  }
  bool roundsStochastically() const;  // by option, or because some ops request it
  void writeRngState();               // rngState -> a loaded program that rounds at random
  // Variables that are weights or optimizer state, but not optimizer scalars or the seed.
  bool isModelVariable(const TensorId &id) const;
  // Throws runtime_error for arrays with names that are no weights and, if `writes`, for constants.
  void checkKnown(const char *what, const IWeightsIO &weightsIO, bool writes) const;
  // Throws popart::error for an optimizer with values for a weight that the model does not have.
  void requireSpecificWeights(const Optimizer &given) const;
  // Optimizer state that options keep on the device: it is not sent to the device, read from it or saved.
  bool staysOnDevice(const TensorId &id) const;
  void initialiseHostWeights();  // from the values in the Ir
  // The values of the tensors that a training program does not change, for the names in `weightsIO`.
  std::map<TensorId, TensorData> constantsOf(const IWeightsIO &weightsIO) const;
  // Throws runtime_error if `id` is a constant of a training program and `value` is a different value.
  void checkConstant(const TensorId &id, const TensorData &value) const;
  // Takes over weights, optimizer state and random numbers from another program of the same session. If `from` has them
  // on the device, this program is loaded as well, and then `from` is unloaded if it has weights.
  void takeStateOf(Impl &from);
  TensorData deviceValues(int variable) const;  // in the host's form: plain, with parts joined
  // The state that prepareDevice keeps on the device when it is called again.
  struct DeviceState {
    std::map<TensorId, TensorData> values;  // of variables
    bool weightsLoaded = false;
  };
  std::optional<DeviceState> deviceState();  // of the loaded program, rngState included; none: nothing is loaded
  void restore(const DeviceState &state);    // to a program that was loaded again
  // Copies between the host's values of a variable and the loaded program's; divides or joins the parts of replicas.
  void writeToDevice(int variable, const TensorData &host);
  void readFromDevice(int variable);                                 // into streamBuffers and allReplicas
  const transforms::Sharding *shardingOf(const TensorId &id) const;  // null: every replica has it whole
  // Memory that the session uses in addition to the executable: the model's message and the plain values of weights.
  int64_t hostBytes() const;
  // An estimate of the memory of operations, tensors, steps and kernels.
  int64_t programBytes() const;
  // For all replicas; constants are counted once.
  int64_t deviceBytes() const;
  int64_t remoteBytes() const;    // of all replicas; no part of the device's
  int64_t exchangeBytes() const;  // between processes
  int64_t predictedPeakBytes() const;
  session::CompileOptions compileOptions() const;
  bool isInJob() const;  // it has replicas in other processes
  session::JobSettings jobSettings() const;
  // Joins the other processes (all call this), unless that is done; does nothing if all replicas are here.
  void join();
  void joinToRun();                                           // the same, unless the device only compiles
  int threads() const;                                        // with which the replicas of this process compute
  void compile();                                             // like prepareDevice(false)
  bool fits(const session::CompileOptions &compiling) const;  // whether the compiled program is within the limit
  void fit(session::CompileOptions compiling);                // makes `program`, compiled without a limit, fit
  session::VariableValues savedVariables() const;             // as last read from the device, or as the host has them
  // Takes the program and the values of variables; `what` starts the messages. Throws popart::error if the file is for
  // other hardware, has another program or is damaged.
  void use(session::ProgramFile file, const std::string &what);
  void load();                         // loads a compiled program; throws like prepareDevice
  void loadToRun();                    // at the first run after prepareDevice(false); throws like run
  void requireUnchangedFiles() const;  // popart::error: a data file of the model has changed; its values are mapped
  void requireWeights() const;         // runtime_error: training before weightsFromHost
  void fillSizes();                    // `sizes` from the Ir
  void checkDeviceFits() const;        // popart::error: too few IPUs
  std::vector<std::shared_ptr<const executable::Executable>>
      otherPrograms;    // other programs of the session, for compile
  void writeScalars();  // optimizer scalars -> hostWeights
};

}  // namespace popart
