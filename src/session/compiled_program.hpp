// CompiledProgram: the steps from an Ir to a run: compile (Ir → executable), load (device memory, threads), values of
// variables, run. Sessions of popart and popxl and the single-op programs of tests add their own host side. Each state
// needs the earlier ones; compiling unloads.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <popart/devicemanager.hpp>
#include <popart/ir.hpp>
#include <popart/runstatistics.hpp>

#include "ir/constant_hashes.hpp"
#include "lower/program.hpp"
#include "runtime/rank_collectives.hpp"
#include "runtime/replicas.hpp"
#include "session/ahead_streams.hpp"
#include "session/job.hpp"
#include "session/program_file.hpp"
#include "session/replica_streams.hpp"
#include "session/run_limits.hpp"
#include "session/value_comparison.hpp"

namespace popart::session {

// Whether to accept a program whose result depends on an order that nothing determines.
enum class OrderRule { Accept, Refuse };

// How a program is compiled and run.
struct CompileOptions {
  const runtime::Device *device = nullptr;          // set; lives as long as the program
  EvaluateOp evaluate;                              // folds constants of the program; empty: they are not folded
  int threads = 1;                                  // threads of each replica
  int replicas = 1;                                 // replicas of all processes
  int locals = 0;                                   // replicas of this process; 0: all
  int firstLocal = 0;                               // number of the first replica of this process
  std::shared_ptr<Job> job;                         // the job with the other processes; null: none, or not yet
  std::shared_ptr<const Placement> expected;        // the others, without a job, for programs that do not run
  executable::Collectives *communicator = nullptr;  // used instead of the job's; must live while loaded
  runtime::WakePolicy wakePolicy = runtime::WakePolicy::WhenFaster;  // how these threads are woken
  int64_t maxMemoryBytes = 0;  // for all replicas of this process together; 0: no limit
  OrderRule order = OrderRule::Accept;
  lower::LaneRule lanes = lower::LaneRule::Auto;  // whether stages of a pipeline run at the same time
  bool checkFloats = false;               // end runs with runtime_error at the first op that makes a NaN or an infinity
  bool roundStochastically = false;       // round results of 16-bit floats stochastically
  bool ignoreLabelsOutOfRange = false;    // such labels have no loss and no gradient; otherwise they end the run
  bool checkLog2Scales = true;            // end runs if a log2 scale of FLOAT8 values is out of range
  lower::CollectiveRules collectives;     // how collectives over replicas are merged and split
  bool timesSteps = false;                // time every step
  int64_t mostEvents = 0;                 // largest number of timed steps to keep for a run
  bool timesRuns = false;                 // optional: reading the clock twice costs more than an empty program
  std::string cacheFolder;                // folder of compiled programs; empty: none
  bool cacheVariables = true;             // store initial values of variables with compiled programs
  std::set<TensorId> broadcastInputs;     // streams whose values are the same for all replicas
  AheadRules ahead;                       // how far host data may be ahead, if host code provides or takes them
  std::set<std::string> passesOff;        // names of lowering passes that are switched off (pipeline/passes_off.hpp)
  RunLimits limits;                       // limits of one run
  Compared compared = Compared::Nothing;  // what to compare between the processes of the job after each run
  std::shared_ptr<CompileTimes> times;    // times of passes; null: not recorded
  // Other programs in memory: large constants that this program has in common with them are stored once.
  std::vector<std::shared_ptr<const executable::Executable>> otherPrograms;
  ConstantHashes *constants = nullptr;  // from earlier keys of the same Ir; null: constants are read for each key
  // A program from a file whose description matches the Ir and these options; the passes then do not run.
  std::shared_ptr<const lower::Program> program;
  int localReplicas() const { return locals > 0 ? locals : replicas; }
  // The placement of all processes; null: all replicas are in this process.
  std::shared_ptr<const Placement> placement() const {
    return job ? std::shared_ptr<const Placement>(job, &job->placement()) : expected;
  }
};

// How a program is lowered and planned for these options; the memory limit is the share of one replica.
lower::LowerOptions lowerOptions(const CompileOptions &options);

// The description that identifies the compiled program of an Ir: its text (names, attributes, constants, but not values
// of variables), the target, the numbers of threads and replicas, and checks. It is the same in all processes. `held`:
// receives the constants of 64 KiB and more, by content.
ProgramDescription describeProgram(const Ir &ir, const CompileOptions &options, ValueTable *held = nullptr);
// The device, its kernel providers and the instruction set they use: "cpu (cpu AVX3_ZEN4, user, ref)".
std::string targetOf(const CompileOptions &options);

class CompiledProgram {
 public:
  explicit CompiledProgram(std::string name) : name_(std::move(name)) {}  // name: name of the session, for messages

  // Takes the lowered program from options.program or from the cache, or lowers the Ir; then makes the executable. Logs
  // ops that fall back to the reference backend, and sizes. Throws memory_allocation_err if the program does not fit or
  // the system has no memory, popart::error if an op has no kernel or the order is not determined (OrderRule). After an
  // error there is no program.
  void compile(const Ir &ir, const CompileOptions &options);
  // Allocates memory, starts threads, gives variables the values of the Ir, and attaches the device. With a job, all
  // processes must call it. Throws runtime_error before compile, for an offline device, if the system refuses a thread,
  // and if the processes of the job have different programs (naming one); popart::error if the device is in use;
  // memory_allocation_err.
  void load(DeviceInfo &device);
  // The same for a program that is loaded: its variables keep the values of each replica. Throws like load.
  void reload(DeviceInfo &device);
  void attach(DeviceInfo &device) const;  // only attaches the device
  void unload();
  void drop();  // returns to the state before compile
  bool isCompiled() const { return executable_ != nullptr; }
  bool isLoaded() const { return replicas_ != nullptr; }
  // Throw runtime_error naming `what`, and the call that must precede it, unless the program is compiled or loaded.
  void requireCompiled(const std::string &what) const;
  void requireLoaded(const std::string &what) const;

  const std::shared_ptr<const executable::Executable> &executable() const { return executable_; }  // null: not compiled
  // The program that the executable was made from. Compiled programs only.
  const lower::Program &lowered() const { return *lowered_; }
  // The program that runs, for people (session/lowered_view.hpp). Throws runtime_error before compile.
  std::string loweredModel(PrintData values) const;
  VariableValues firstValues() const;  // initial values of variables, by name
  // Index of a variable in executable()->variables; -1 if the program does not have it (it may be unused).
  int findVariable(const TensorId &id) const;
  // Values in plain C order. The program must be loaded and have the variable. With several groups of replicas, `data`
  // has one value for each group, which all replicas of the group get. Reading returns the value of a group's lowest
  // replica, or, for floating-point variables that return AllReduceReplicas, the mean of all. Writing changes only the
  // replicas of this process. Values of groups without a replica in this process are read from others, so then all must
  // read.
  void writeVariable(int variable, const void *data);
  void readVariable(int variable, void *data) const;
  // The values of all replicas, in order. With a job, all processes must read.
  void readReplicas(int variable, void *data) const;
  // Row `row` of a remote variable: one value for each replica, in order. The program must be loaded and have the row.
  void writeRow(int variable, int64_t row, const void *data);
  void readRow(int variable, int64_t row, void *data) const;
  int replicas() const { return settings_.replicas; }  // in all processes
  executable::LocalReplicas localReplicas() const { return {settings_.replica, settings_.locals}; }
  // Memory of the replicas of this process: on the device, and in remote memory. Compiled programs only.
  int64_t deviceBytes() const;
  int64_t remoteBytes() const { return settings_.locals * executable_->memory.remoteBytes; }
  // Memory of collectives with other processes. Compiled programs only.
  int64_t exchangeBytes() const { return executable_->memory.exchangeBytes; }
  // Times of exchanges since load; zeros without other processes.
  runtime::RankCollectives::Times exchangeTimes() const {
    return collectives_ ? collectives_->times() : runtime::RankCollectives::Times();
  }
  // Memory of values under way between host and program, if host code provides or takes them.
  int64_t aheadBytes() const { return ahead_ ? ahead_->bytes() : 0; }

  // Runs once, with the streams that `connect()` returns; connect is called when no other run can start. Replicas take
  // and return values in their order, micro-batch by micro-batch (ReplicaStreams); host data may be ahead
  // (AheadStreams). Throws runtime_error if another run is active, or if processes of the job have other values after
  // the run (ValueComparison); and the exceptions of connect, streams and users' kernels. Loaded programs only.
  template <class Connect>
  void run(Connect connect) {
    const OneRun one(*this);
    runtime::StreamSource &given = connected(connect);
    runtime::StreamSource &source = comparison_ ? comparison_->watch(given) : given;
    const auto start = timesRuns_ ? Clock::now() : Clock::time_point();
    if (ahead_ && source.callsHost()) [[unlikely]] {
      ahead_->run(source, [this](runtime::StreamSource &streams) { runEngines(streams); });
    } else {
      runEngines(source);
    }
    ++runs_;
    if (timesRuns_) {
      lastStart_ = start;
      lastRun_ = Clock::now() - start;
      inRuns_ += lastRun_;
    }
    if (comparison_) [[unlikely]]
      comparison_->compare(replicas_->engine(0), runs_);
  }
  // Statistics of the runs since load. Not while a run is active.
  RunStatistics statistics() const;
  // Times of a replica of this process since load or the last reset; null: not timed or not loaded.
  runtime::StepTimes *stepTimes(int local = 0);
  std::chrono::nanoseconds lastRun() const { return lastRun_; }  // its duration; 0 if runs are not timed
  std::chrono::steady_clock::time_point lastStart() const { return lastStart_; }
  // Sets whether steps, and so runs, are timed after the next load, and how many events of a run are kept.
  void timeSteps(bool times, int64_t mostEvents);

 private:
  using Clock = std::chrono::steady_clock;
  // The result of connect(). If it throws, the other processes do not wait for this one.
  template <class Connect>
  runtime::StreamSource &connected(Connect connect) {
    if (!collectives_) [[likely]]
      return connect();
    try {
      return connect();
    } catch (const std::exception &e) {
      collectives_->fail(&e);
      throw;
    }
  }
  void runEngines(runtime::StreamSource &source) {
    if (streams_) {
      replicas_->run(streams_->lanes(source));
    } else {
      runtime::StreamSource *const only = &source;
      replicas_->run({&only, 1});
    }
  }
  struct OneRun {
    explicit OneRun(CompiledProgram &program);
    ~OneRun() { running.store(false, std::memory_order_release); }
    OneRun(const OneRun &) = delete;
    std::atomic<bool> &running;
  };

  // Calls f(engine, number of the replica) for the replicas of this process.
  template <class F>
  void forEachLocal(F f) const {
    for (int local = 0; local < settings_.locals; ++local) f(replicas_->engine(local), settings_.replica + local);
  }
  const runtime::Engine &engineOf(int replica) const { return replicas_->engine(replica - settings_.replica); }
  bool isHere(int replica) const {
    return replica >= settings_.replica && replica < settings_.replica + settings_.locals;
  }
  // Throws runtime_error if values are in other processes and there is no job.
  void complete(void *data, int64_t valueBytes, std::span<const int> replicas) const;
  std::vector<int> allReplicas() const;
  void joinOthers();

  lower::Program obtain(const Ir &ir, const CompileOptions &options, const lower::LowerOptions &lowering,
                        const lower::Backends &backends) const;

  std::string name_;
  std::optional<lower::Program> lowered_;
  schedule::Schedule schedule_;  // of `lowered_`, for people
  std::shared_ptr<const executable::Executable> executable_;
  std::unordered_map<TensorId, int> variables_;
  const runtime::Device *device_ = nullptr;
  runtime::RunSettings settings_;
  std::shared_ptr<Job> job_;                               // null: all replicas are in this process
  std::string key_;                                        // key of the program, equal in all processes of the job
  std::unique_ptr<exchange::Transport> transport_;         // transport of collectives_
  std::unique_ptr<runtime::RankCollectives> collectives_;  // null: not loaded, or no job
  std::unique_ptr<runtime::Replicas> replicas_;
  std::unique_ptr<ReplicaStreams> streams_;      // null: one replica in this process
  std::unique_ptr<AheadStreams> ahead_;          // null: nothing would be ahead
  std::unique_ptr<ValueComparison> comparison_;  // null: nothing is compared
  std::atomic<bool> running_{false};
  bool timesRuns_ = false;
  int64_t runs_ = 0;  // number of successful runs
  Clock::time_point lastStart_;
  std::chrono::nanoseconds lastRun_{0}, inRuns_{0};
};

}  // namespace popart::session
