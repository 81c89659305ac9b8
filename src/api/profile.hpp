// Profile: what the first runs of a session took, step by step, and the report of memory and time that programs read
// (Session::getReport, decision 0042). On where engineOptions ask for it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <popart/devicemanager.hpp>
#include <popart/runstatistics.hpp>

#include "executable/executable.hpp"

namespace popart {

namespace session {
class CompiledProgram;
}

class Profile {
 public:
  struct Step {
    std::string name, kernel;
    int64_t calls = 0, nanoseconds = 0;
  };
  struct Run {
    std::string name;
    int64_t nanoseconds = 0;
    std::vector<Step> steps;              // that ran, in order
    int64_t exchangeNanoseconds = 0;      // in which operations between processes were under way
    int64_t exchangeWaitNanoseconds = 0;  // in which the first replica waited for them
  };

  Profile() = default;
  // Throws popart::error for a bad number of runs in `engineOptions`.
  explicit Profile(const std::map<std::string, std::string> &engineOptions);
  bool isOn() const { return on_; }
  bool timesRuns() const { return timesRuns_; }  // some option of reports is set, so that whole runs are timed
  // Adds the run that has just ended, as long as fewer were recorded than autoReport.executionProfileProgramRunCount
  // says (2).
  void record(session::CompiledProgram &program, const std::string &name);
  void reset(session::CompiledProgram &program);
  const std::vector<Run> &runs() const { return runs_; }
  std::string summary() const;  // lines of getSummaryReport

 private:
  bool on_ = false, timesRuns_ = false;
  size_t mostRuns_ = 2;
  std::vector<Run> runs_;
  int64_t exchanged_ = 0, waited_ = 0;  // nanoseconds up to the last run that was recorded
};

// Cycles that one run would take on the IPUs of a model; nothing for other devices.
std::optional<double> modelCycles(const executable::Executable &executable, const DeviceInfo &device);
// Cycles of `statistics.runs` runs: of a model of IPUs those of modelCycles, else the time that they took, or are
// predicted to take on `threads` threads where they are not timed.
double totalCycles(const executable::Executable &executable, const DeviceInfo &device, const RunStatistics &statistics,
                   int threads);
// Memory, program and runs as JSON.
std::string profileJson(const executable::Executable &executable, const DeviceInfo &device, const Profile &profile,
                        double totalCycles);

}  // namespace popart
