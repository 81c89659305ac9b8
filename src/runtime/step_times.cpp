// Prints measured steps as a table, see step_times.hpp.
#include "runtime/step_times.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace popart::runtime {

std::string kernelName(const executable::Step &step) {
  switch (step.kind) {
    case executable::Step::Kind::Kernel:
      return step.kernel->name();
    case executable::Step::Kind::HostLoad:
      return "host load";
    case executable::Step::Kind::HostStore:
      return "host store";
    case executable::Step::Kind::RemoteLoad:
      return "remote load";
    case executable::Step::Kind::RemoteStore:
      return "remote store";
    case executable::Step::Kind::Copy:
      return "copy";
    case executable::Step::Kind::Loop:
      return "loop";
    case executable::Step::Kind::If:
      return "if";
    case executable::Step::Kind::Lanes:
      return "lanes";
  }
  return "";
}

void StepTimes::reset() {
  for (Entry &entry : entries_) entry.nanoseconds = entry.calls = 0;
}

int StepTimes::registerStep(const executable::Step &step) {
  entries_.push_back({&step});
  return static_cast<int>(entries_.size()) - 1;
}

std::string StepTimes::table() const {
  std::vector<Entry> sorted = entries_;
  std::erase_if(sorted, [](const Entry &e) { return e.calls == 0; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry &a, const Entry &b) { return a.nanoseconds > b.nanoseconds; });
  int64_t total = 0;
  std::map<std::string, int64_t> perKernel;
  for (const Entry &e : sorted) total += e.nanoseconds, perKernel[kernelName(*e.step)] += e.nanoseconds;
  auto share = [&](int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, total));
  };
  std::string text = fmt::format("{:>7}  {:>8}  {:>10}  {:>8}  step, kernel\n", "share", "calls", "mean us", "GFLOP/s");
  for (const Entry &e : sorted) {
    const double nanoseconds = static_cast<double>(e.nanoseconds) / static_cast<double>(e.calls);
    const double flops = e.step->kernel ? e.step->kernel->flops() : 0.0;
    const std::string rate = flops > 0 && nanoseconds > 0 ? fmt::format("{:.1f}", flops / nanoseconds) : "";
    text += fmt::format("{:>6.2f}%  {:>8}  {:>10.2f}  {:>8}  {}, {}\n", share(e.nanoseconds), e.calls,
                        nanoseconds / 1e3, rate, e.step->name, kernelName(*e.step));
  }
  std::vector<std::pair<std::string, int64_t>> kernels(perKernel.begin(), perKernel.end());
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  text += fmt::format("{:.3f} ms in all; by kernel:\n", static_cast<double>(total) / 1e6);
  for (const auto &[name, ns] : kernels) text += fmt::format("{:>6.2f}%  {}\n", share(ns), name);
  return text;
}

}  // namespace popart::runtime
