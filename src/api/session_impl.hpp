// State of a session, shared by the files that implement Session.
// Invariant: hostWeights holds one plain value per variable of the Ir from creation on; device values exist only while
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

  // Which of the two session classes it is.
  enum class Mode { Inference, Training };

  Mode mode = Mode::Inference;
  std::string name;
  std::optional<onnx::Model> model;  // absent: made from an Ir
  pipeline::Prepared prepared;       // the Ir with all passes run; never without an Ir
  // What `prepared` was made from, anew at each call; empty: made from an Ir.
  fitting::MakeRequest prepareRequest;
  std::function<std::unique_ptr<Ir>(const std::set<TensorId> &variables)> makeIr;  // of the model, anew
  Patterns patterns;                                                               // of `prepareRequest`
  // Which initializers are variables; null: none is, or the session was made from an Ir.
  std::shared_ptr<const onnx::TrainableTensors> trainable;
  std::set<TensorId> constantWeights;     // of `model`: of inference sessions, and what training leaves as it is
  std::optional<fitting::Fitted> fitted;  // what runs in place of `prepared`, which does not fit the memory limit
  std::unique_ptr<Optimizer> optimizer;   // null: inference, or made from an Ir
  std::vector<TensorId> weightsOfGroups;  // names among which groups of the optimizer find their weights
  std::optional<OptimizerValue> chosenLossScaling;  // with option precision, where the optimizer states none
  std::set<TensorId> losses;  // of training sessions made from a model: tensors of it, or made for them
  DataFlow dataFlow;          // made from an Ir: the batches per step only say how many slices its streams hold
  SessionOptions options;
  std::shared_ptr<DeviceInfo> device;
  std::set<TensorId> modelInputs;            // graph inputs of the model without initializers
  std::set<TensorId> broadcastInputs;        // streams of which all replicas get the same values
  session::AheadRules ahead;                 // of the streams
  std::map<TensorId, TensorId> tensorNames;  // names the program uses -> tensor ids, where they differ

  std::map<TensorId, TensorData> hostWeights;       // what weightsFromHost sends
  std::map<TensorId, onnx::DataPlace> movedPlaces;  // behind the others of data files, once values were written there
  std::map<TensorId, TensorData> streamBuffers;     // what weightsToHost received: one value per group of replicas
  std::map<TensorId, TensorData> allReplicas;       // the same of all replicas, of variables that return them all

  // What random numbers start from where the loaded program has no variables for it: the seed, and the state of
  // stochastic rounding.
  std::array<uint32_t, 2> seed{}, rngState{};

  std::shared_ptr<session::Job> job;  // null: all replicas are here, or nothing was asked of the others yet
  session::CompiledProgram program;
  mutable ConstantHashes constantHashes;                // of the model; an Ir may have constants of a caller
  std::shared_ptr<const lower::Program> loadedProgram;  // of loadExecutable: prepareDevice runs no passes
  std::unique_ptr<StepStreams> streams;                 // null before load()
  std::unique_ptr<SyntheticStreams> synthetic;          // null: data are those of the step IO
  popx::Executablex sizes;                              // what stepIO is checked against
  std::unique_ptr<ForwardProgram> forward;              // null: not asked for
  Profile profile;                                      // of the runs, where engineOptions ask for it
  std::shared_ptr<CompileTimes> compileTimes = std::make_shared<CompileTimes>();
  bool weightsLoaded = false;
  bool hostWeightsInSync = false;  // what the host has are the device's values
  bool hasReadDevice = false;      // streamBuffers and allReplicas are the device's values
  bool hasWeights = false;         // variables beside the random seed, in the loaded program

  const Ir &ir() const { return *prepared.ir; }  // the program as it is asked for: names, keys of files
  const Ir &running() const { return fitted ? *fitted->prepared.ir : ir(); }
  // The program as the options ask for it: without operators for transfers, loops over batches and what is computed
  // again unless they do.
  std::string serialisedIr() const;
  const TensorId &tensorId(const TensorId &name) const {
    const auto found = tensorNames.find(name);
    return found == tensorNames.end() ? name : found->second;
  }
  bool roundsStochastically() const;  // by option, or some ops by themselves
  void writeRngState();               // rngState -> a loaded program that rounds at random
  // Variables that are weights or optimizer state, not optimizer scalars or the seed.
  bool isModelVariable(const TensorId &id) const;
  // Throws runtime_error for arrays of names that are no weight, and for constants where `writes`.
  void checkKnown(const char *what, const IWeightsIO &weightsIO, bool writes) const;
  // Throws popart::error for an optimizer with values for a weight that the model does not have.
  void requireSpecificWeights(const Optimizer &given) const;
  // Optimizer state that options keep on the device: it is neither sent to it, read from it nor saved.
  bool staysOnDevice(const TensorId &id) const;
  void initialiseHostWeights();  // from the values in the Ir
  // Values of the tensors that a training program leaves as they are, of the names that `weightsIO` has.
  std::map<TensorId, TensorData> constantsOf(const IWeightsIO &weightsIO) const;
  // Throws runtime_error where `id` is a constant of a training program and `value` another value.
  void checkConstant(const TensorId &id, const TensorData &value) const;
  // Weights, optimizer state and random numbers of another program of the same session, on the device too when they are
  // there: this program is then loaded as well, and `from` unloaded unless it has no weights there.
  void takeStateOf(Impl &from);
  TensorData deviceValues(int variable) const;  // as the host has them: plain, parts joined
  // What prepareDevice keeps on the device when it is called again.
  struct DeviceState {
    std::map<TensorId, TensorData> values;  // of variables
    bool weightsLoaded = false;
  };
  std::optional<DeviceState> deviceState();  // of the loaded program, rngState included; none: nothing is loaded
  void restore(const DeviceState &state);    // into a program that was loaded anew
  // Between the host's values of a variable and the loaded program's; parts of replicas are cut, or joined.
  void writeToDevice(int variable, const TensorData &host);
  void readFromDevice(int variable);                                 // into streamBuffers and allReplicas
  const transforms::Sharding *shardingOf(const TensorId &id) const;  // null: every replica has it whole
  // Memory that the session keeps beside the executable's: the model's message and the plain values of weights.
  int64_t hostBytes() const;
  // Estimate of the memory of operations, tensors, steps and kernels.
  int64_t programBytes() const;
  // Of all replicas; constants are there once.
  int64_t deviceBytes() const;
  int64_t remoteBytes() const;    // of all replicas; no part of the device's
  int64_t exchangeBytes() const;  // between processes
  int64_t predictedPeakBytes() const;
  session::CompileOptions compileOptions() const;
  bool isInJob() const;  // has replicas in other processes
  session::JobSettings jobSettings() const;
  // Joins the others unless that is done (all processes); nothing where all replicas are here.
  void join();
  void joinToRun();                                           // the same, unless the device only compiles
  int threads() const;                                        // that replicas of this process compute with
  void compile();                                             // as prepareDevice(false)
  bool fits(const session::CompileOptions &compiling) const;  // the compiled program into the limit
  void fit(session::CompileOptions compiling);                // `program`, which was compiled with no limit
  session::VariableValues savedVariables() const;             // as last read from the device, or as the host has them
  // Takes the program and the values of variables; `what` leads the messages. Throws popart::error: for other hardware,
  // of another program, damaged.
  void use(session::ProgramFile file, const std::string &what);
  void load();                   // a compiled program; throws as prepareDevice
  void loadToRun();              // the first run after prepareDevice(false); throws as run
  void requireWeights() const;   // runtime_error: training before weightsFromHost
  void fillSizes();              // `sizes` from the Ir
  void checkDeviceFits() const;  // popart::error: too few IPUs
  std::vector<std::shared_ptr<const executable::Executable>> beside;  // of other programs of the session, to compile
  void writeScalars();                                                // optimizer scalars -> hostWeights
};

}  // namespace popart
