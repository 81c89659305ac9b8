// See estimate.hpp. The times of parallel lanes are added: on an IPU they share the tiles, and how many lanes run at
// the same time on the host depends only on the host's threads.
#include "backends/ipu_model/estimate.hpp"

namespace popart::ipu_model {
namespace {

using executable::Program;
using executable::Step;
using Kind = Step::Kind;

class Walk {
 public:
  Walk(const executable::Executable &executable, const Machine &machine, int64_t tiles)
      : executable_(executable),
        flopsPerCycle_(machine.flopsPerCycle * static_cast<double>(tiles)),
        bytesPerCycle_(machine.bytesPerCycle * static_cast<double>(tiles)) {}

  Estimate whole() {
    result_.cycles = cyclesOf(executable_.main, 1);
    return std::move(result_);
  }

 private:
  // Cycles of one execution of a program that a run executes `calls` times; its steps are added to the result.
  double cyclesOf(const Program &program, double calls) {
    double sum = 0;
    for (const Step &step : program.steps) {
      StepCycles own = alone(step);
      own.calls = calls;
      result_.steps.push_back(own);
      sum += own.total() + inside(step, calls);
    }
    return sum;
  }

  // Cycles of the programs in a step.
  double inside(const Step &step, double calls) {
    if (step.kind == Kind::If) return longerBranch(step, calls);
    const double iterations = iterationsOf(step);
    if (step.kind == Kind::Loop && step.tripCount < 0) ++result_.openLoops;
    double sum = 0;
    for (const auto &program : step.programs) sum += iterations * cyclesOf(*program, calls * iterations);
    return sum;
  }

  // Returns the cycles of the longest branch. The steps of the other branches get no calls.
  double longerBranch(const Step &step, double calls) {
    double longest = 0;
    size_t longestBegin = result_.steps.size(), longestEnd = longestBegin;
    const size_t begin = longestBegin;
    for (const auto &program : step.programs) {
      const size_t first = result_.steps.size();
      const double cycles = cyclesOf(*program, calls);
      if (cycles < longest) continue;
      longest = cycles, longestBegin = first, longestEnd = result_.steps.size();
    }
    for (size_t i = begin; i < result_.steps.size(); ++i)
      if (i < longestBegin || i >= longestEnd) result_.steps[i].calls = 0;
    return longest;
  }

  static double iterationsOf(const Step &step) {
    return step.kind == Kind::Loop ? static_cast<double>(std::max<int64_t>(step.tripCount, 1)) : 1;
  }

  StepCycles alone(const Step &step) const {
    switch (step.kind) {
      case Kind::Kernel:
        return {.sync = kSyncCycles,
                .compute = step.kernel->flops() / flopsPerCycle_,
                .memory = step.kernel->bytes() / bytesPerCycle_};
      case Kind::HostLoad:
        return overLink(bytesOf(step.out));
      case Kind::HostStore:
        return overLink(bytesOf(step.in));
      case Kind::RemoteLoad:
      case Kind::RemoteStore:
        return overLink(step.bytes);
      case Kind::Copy:
        return {.sync = kSyncCycles, .memory = 2 * static_cast<double>(step.bytes) / bytesPerCycle_};
      case Kind::Loop:
        return {.memory = 2 *
                          (bytesOf(step.initial) + bytesOf(step.results) + iterationsOf(step) * bytesOf(step.carried)) /
                          bytesPerCycle_};
      case Kind::If:
      case Kind::Lanes:
        return {};
    }
    return {};
  }

  static StepCycles overLink(int64_t bytes) {
    const auto moved = static_cast<double>(bytes);
    return {.sync = kSyncCycles, .link = moved / kLinkBytesPerCycle, .linkBytes = moved};
  }

  int64_t bytesOf(const std::vector<executable::BufferIndex> &list) const {
    return list.empty() || list[0] < 0 ? 0 : executable_.buffers[static_cast<size_t>(list[0])].bytes;
  }
  static double bytesOf(const std::vector<Step::Move> &moves) {
    int64_t bytes = 0;
    for (const Step::Move &move : moves) bytes += move.bytes;
    return static_cast<double>(bytes);
  }

  const executable::Executable &executable_;
  double flopsPerCycle_, bytesPerCycle_;  // of all tiles
  Estimate result_;
};

}  // namespace

Estimate estimate(const executable::Executable &executable, const Machine &machine, int64_t tiles) {
  return Walk(executable, machine, tiles).whole();
}

}  // namespace popart::ipu_model
