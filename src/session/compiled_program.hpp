// CompiledProgram: the one way from an Ir to a run: compile (Ir → executable), load (device memory, threads), values of
// variables, run. popart's sessions, popxl's and the single-op programs of tests are this and their own host side.
// A later state needs the earlier ones; compiling unloads.
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

// Whether a program is accepted whose result depends on an order that nothing fixes.
enum class OrderRule { Accept, Refuse };

// How a program is compiled and run.
struct CompileOptions {
  const runtime::Device *device = nullptr;           // set; lives as long as the program
  EvaluateOp evaluate;                               // constants of the program; empty: they stay as they are
  int threads = 1;                                   // of each replica
  int replicas = 1;                                  // that run at the same time, in all processes
  int locals = 0;                                    // of these in this one; 0: all of them
  int firstLocal = 0;                                // number of the first one here
  std::shared_ptr<Job> job;                          // in which the others are; null: none, or not yet
  std::shared_ptr<const Placement> expected;         // of the others without a job, of a program that does not run
  executable::Collectives *communicator = nullptr;   // in place of the job's, alive while loaded
  runtime::Waking waking = runtime::Waking::AsPays;  // of these threads
  int64_t maxMemoryBytes = 0;                        // of all replicas here together; 0: no limit
  OrderRule order = OrderRule::Accept;
  lower::LaneRule lanes = lower::LaneRule::Auto;  // whether stages of a pipeline run at the same time
  bool checkFloats = false;               // runs end with runtime_error at the first op that makes a NaN or an infinity
  bool roundStochastically = false;       // results of 16-bit floats are rounded at random
  bool ignoreLabelsOutOfRange = false;    // of losses: no loss and no gradient; otherwise they end the run
  bool checkLog2Scales = true;            // runs end where a log2 scale of FLOAT8 values is out of range
  lower::CollectiveRules collectives;     // how collectives over replicas are put together
  bool timesSteps = false;                // every step is timed
  int64_t mostEvents = 0;                 // of timed steps that are kept of a run
  bool timesRuns = false;                 // two looks at the clock cost more than an empty program
  std::string cacheFolder;                // where compiled programs are looked for and kept; empty: nowhere
  bool cacheVariables = true;             // kept programs have the first values of their variables with them
  std::set<TensorId> broadcastInputs;     // streams of which all replicas get the same values
  AheadRules ahead;                       // how far host data go ahead, where code of the host gives or takes them
  std::set<std::string> passesOff;        // names of passes of lowering that do not run (pipeline/passes_off.hpp)
  RunLimits limits;                       // of one run
  Compared compared = Compared::Nothing;  // over the processes of the job, after each run
  std::shared_ptr<CompileTimes> times;    // of passes; null: nobody asks
  // Programs that stay beside this one: what it has in common with them of large constants is in memory once.
  std::vector<std::shared_ptr<const executable::Executable>> beside;
  ConstantHashes *constants = nullptr;  // of earlier keys of the same Ir; null: constants are read for each key
  // From a file whose description is that of the Ir and these options: runs in place of what the passes would make.
  std::shared_ptr<const lower::Program> program;
  int localReplicas() const { return locals > 0 ? locals : replicas; }
  // Of all processes; null: all replicas are here.
  std::shared_ptr<const Placement> placement() const {
    return job ? std::shared_ptr<const Placement>(job, &job->placement()) : expected;
  }
};

// How a program is lowered and planned for these options; the limit is one replica's share.
lower::LowerOptions lowerOptions(const CompileOptions &options);

// What names the compiled program of an Ir: its text (names, attributes, constants; not values of variables), the
// target, the numbers of threads and replicas and what is checked; the same in all processes. `held`: receives the
// constants of 64 KiB and more by content.
ProgramDescription describeProgram(const Ir &ir, const CompileOptions &options, ValueTable *held = nullptr);
// The device, its kernel providers and the instruction set they use: "cpu (cpu AVX3_ZEN4, user, ref)".
std::string targetOf(const CompileOptions &options);

class CompiledProgram {
 public:
  explicit CompiledProgram(std::string name) : name_(std::move(name)) {}  // name: of the session, in messages

  // Takes the lowered program from options.program, from the cache, or makes it; then makes the executable. Logs what
  // falls back to the reference backend, and sizes. Throws memory_allocation_err when the program does not fit
  // or the system has no memory, popart::error when an op has no kernel or the order is open (OrderRule). A failure
  // leaves no program.
  void compile(const Ir &ir, const CompileOptions &options);
  // Takes memory and starts threads; variables have the values of the Ir. Attaches the device. With a job all processes
  // load. Throws runtime_error before compile, for an offline device, when the system refuses a thread and when the
  // processes of the job have different programs, naming one, popart::error when the device is in use,
  // memory_allocation_err.
  void load(DeviceInfo &device);
  void attach(DeviceInfo &device) const;  // that part of load
  void unload();
  void drop();  // back to before compile
  bool isCompiled() const { return executable_ != nullptr; }
  bool isLoaded() const { return replicas_ != nullptr; }
  // Throw runtime_error naming `what`, and the call that must precede it, unless the program is compiled, or loaded.
  void requireCompiled(const std::string &what) const;
  void requireLoaded(const std::string &what) const;

  const std::shared_ptr<const executable::Executable> &executable() const { return executable_; }  // null: not compiled
  // What the executable was made from. Compiled programs only.
  const lower::Program &lowered() const { return *lowered_; }
  VariableValues firstValues() const;  // of its variables, by name
  // Number of a variable in executable()->variables; -1: the program has none of that name (it may be unused).
  int findVariable(const TensorId &id) const;
  // Values in plain C order. The program is loaded and has the variable. With several groups of replicas: one value of
  // each group; each replica gets that of its group, and the lowest replica of a group gives it, or, for floating-point
  // variables that return AllReduceReplicas, all of them give their mean. What is written reaches the replicas of this
  // process. What a process of the job has no replica for comes from the others, and then all of them read.
  void writeVariable(int variable, const void *data);
  void readVariable(int variable, void *data) const;
  // The values of all replicas, in their order. With a job all processes read.
  void readReplicas(int variable, void *data) const;
  // Row `row` of a remote variable: one value of each replica, in their order. The program is loaded and has the row.
  void writeRow(int variable, int64_t row, const void *data);
  void readRow(int variable, int64_t row, void *data) const;
  int replicas() const { return settings_.replicas; }  // in all processes
  executable::LocalReplicas localReplicas() const { return {settings_.replica, settings_.locals}; }
  // Of the replicas here together: on the device, and in remote memory. Compiled programs only.
  int64_t deviceBytes() const;
  int64_t remoteBytes() const { return settings_.locals * executable_->memory.remoteBytes; }
  // Of collectives with other processes. Compiled programs only.
  int64_t exchangeBytes() const { return executable_->memory.exchangeBytes; }
  // Since load; zeros without other processes.
  runtime::RankCollectives::Times exchangeTimes() const {
    return collectives_ ? collectives_->times() : runtime::RankCollectives::Times();
  }
  // Of values on their way between host and program, where code of the host gives or takes them.
  int64_t aheadBytes() const { return ahead_ ? ahead_->bytes() : 0; }

  // Runs once with the streams that `connect()` returns; it is called when no other run can start. Replicas take and
  // give values in their order, micro-batch by micro-batch (ReplicaStreams); host data go ahead as the options say
  // (AheadStreams). Throws runtime_error when a run is going on and, after a run, where processes of the job have other
  // values (ValueComparison); and what connect, the streams and kernels of users throw. Loaded programs only.
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
  // Of the runs since load, nothing before it; not while one is going on.
  RunStatistics statistics() const;
  // Of a replica here, since load or the last reset; null: not timed or not loaded.
  runtime::StepTimes *stepTimes(int local = 0);
  std::chrono::nanoseconds lastRun() const { return lastRun_; }  // how long it took; 0 where runs are not timed
  std::chrono::steady_clock::time_point lastStart() const { return lastStart_; }
  // Whether steps, and so runs, are timed once the program is loaded again, and how many events are kept of a run.
  void timeSteps(bool times, int64_t mostEvents);

 private:
  using Clock = std::chrono::steady_clock;
  // What connect() gives. Where it throws, the other processes do not wait for this one.
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

  // Calls f(engine, number of the replica) for those of this process.
  template <class F>
  void forEachLocal(F f) const {
    for (int local = 0; local < settings_.locals; ++local) f(replicas_->engine(local), settings_.replica + local);
  }
  const runtime::Engine &engineOf(int replica) const { return replicas_->engine(replica - settings_.replica); }
  bool isHere(int replica) const {
    return replica >= settings_.replica && replica < settings_.replica + settings_.locals;
  }
  // Throws runtime_error where values are in other processes and there is no job.
  void complete(void *data, int64_t valueBytes, std::span<const int> replicas) const;
  std::vector<int> allReplicas() const;
  void joinOthers();

  lower::Program obtain(const Ir &ir, const CompileOptions &options, const lower::LowerOptions &lowering,
                        const lower::Backends &backends) const;

  std::string name_;
  std::optional<lower::Program> lowered_;
  std::shared_ptr<const executable::Executable> executable_;
  std::unordered_map<TensorId, int> variables_;
  const runtime::Device *device_ = nullptr;
  runtime::RunSettings settings_;
  std::shared_ptr<Job> job_;                               // null: all replicas are here
  std::string key_;                                        // of the program, as all processes of the job have it
  std::unique_ptr<exchange::Transport> transport_;         // of collectives_
  std::unique_ptr<runtime::RankCollectives> collectives_;  // null: not loaded, or no job
  std::unique_ptr<runtime::Replicas> replicas_;
  std::unique_ptr<ReplicaStreams> streams_;      // null: one replica in this process
  std::unique_ptr<AheadStreams> ahead_;          // null: nothing would be ahead
  std::unique_ptr<ValueComparison> comparison_;  // null: nothing is compared
  std::atomic<bool> running_{false};
  bool timesRuns_ = false;
  int64_t runs_ = 0;  // those that ended well
  Clock::time_point lastStart_;
  std::chrono::nanoseconds lastRun_{0}, inRuns_{0};
};

}  // namespace popart::session
