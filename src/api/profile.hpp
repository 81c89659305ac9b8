// Profile: records how long the steps of a session's first runs took, and makes the report of memory and time for
// programs (Session::getReport, decision 0042). Active if engineOptions enable it.
#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <popart/devicemanager.hpp>
#include <popart/runstatistics.hpp>

#include "base/compile_times.hpp"
#include "executable/executable.hpp"
#include "runtime/step_times.hpp"

namespace popart {

namespace session {
class CompiledProgram;
}

class Profile {
 public:
  struct Step {
    int number = 0;  // in the order of the program; steps inside loops come before the steps after the loop
    int64_t calls = 0, nanoseconds = 0;
  };
  // What one replica did in a run.
  struct Work {
    std::vector<Step> steps;                        // that ran, in order
    std::vector<runtime::StepTimes::Event> events;  // empty unless profile or profileRuns asks
    size_t lostEvents = 0;                          // which did not fit
  };
  struct Run {
    std::string name;
    int64_t begin = 0, nanoseconds = 0;   // begin: of the clock of StepTimes
    Work first;                           // of the first replica here
    std::vector<Work> others;             // of the other replicas here
    int64_t exchangeNanoseconds = 0;      // in which operations between processes were under way
    int64_t exchangeWaitNanoseconds = 0;  // in which the first replica waited for them
  };

  Profile() = default;
  // Throws popart::error for an invalid number of runs in `engineOptions`.
  explicit Profile(const std::map<std::string, std::string> &engineOptions);
  bool isOn() const { return on_; }
  int64_t mostEvents() const { return keepsEvents_ ? kMostEvents : 0; }
  // Records `runs` runs with their events, after skipping `before` runs; 0: none.
  void ask(size_t runs, size_t before);
  // The number of runs to skip, and the number of runs to record after them.
  std::pair<size_t, size_t> runsToCome() const {
    return on_ ? std::pair(skipped_, mostRuns_ - std::min(mostRuns_, runs_.size())) : std::pair<size_t, size_t>();
  }
  bool timesRuns() const { return timesRuns_; }  // an option of reports is set, so that whole runs are timed
  // Adds the run that has just ended, until autoReport.executionProfileProgramRunCount runs (default 2) are recorded.
  void record(session::CompiledProgram &program, const std::string &name);
  void reset(session::CompiledProgram &program);
  static void resetTimes(session::CompiledProgram &program);  // of all replicas here
  const std::vector<Run> &runs() const { return runs_; }
  const std::string &nameOf(const Step &step) const { return names_[static_cast<size_t>(step.number)].name; }
  const std::string &kernelOf(const Step &step) const { return names_[static_cast<size_t>(step.number)].kernel; }
  std::string summary() const;  // lines of getSummaryReport

 private:
  static Work workOf(const runtime::StepTimes &times);

  static constexpr int64_t kMostEvents = int64_t{1} << 18;
  static constexpr size_t kProfiled = 5, kWarmUp = 2;  // runs, with engineOptions["profile"]
  static constexpr size_t kMostReserved = 1024;        // runs whose places are made before the first one

  bool on_ = false, timesRuns_ = false, keepsEvents_ = false;
  size_t mostRuns_ = 2, skipped_ = 0;
  std::vector<Run> runs_;
  int64_t exchanged_ = 0, waited_ = 0;  // nanoseconds up to the last run that was recorded
  struct Name {
    std::string name, title, kernel;
  };
  std::vector<Name> names_;  // of all steps of the program that was recorded, by number
};

// The cycles that one run would take on the IPUs of a model; empty for other devices.
std::optional<double> modelCycles(const executable::Executable &executable, const DeviceInfo &device);
// The cycles of `statistics.runs` runs: for a model of IPUs those of modelCycles, otherwise the time that the runs took
// or, where runs are not timed, the predicted time on `threads` threads.
double totalCycles(const executable::Executable &executable, const DeviceInfo &device, const RunStatistics &statistics,
                   int threads);
// The inputs of a report.
struct ProfileFacts {
  const executable::Executable &executable;
  const Ir &lowered;  // that it was made from
  const DeviceInfo &device;
  const Profile &profile;
  const CompileTimes &compileTimes;
  std::string session;
  int replicas;                      // of all processes
  executable::LocalReplicas locals;  // which are recorded
  int threads;
  double totalCycles;
};
// Memory, program, runs and passes as JSON (docs/guides/profiling.md).
std::string profileJson(const ProfileFacts &facts);

}  // namespace popart
