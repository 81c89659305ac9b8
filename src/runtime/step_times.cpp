// Prints measured steps as a table, see step_times.hpp.
#include "runtime/step_times.hpp"
#include "ir/layer_names.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <popart/error.hpp>

namespace popart::runtime {

constexpr int kScopes = 2;  // of a layer's name, in the table

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
  for (Entry &entry : entries_) {
    entry.earlierNanoseconds += std::exchange(entry.nanoseconds, 0);
    entry.earlierCalls += std::exchange(entry.calls, 0);
  }
  added_ = 0;
}

int StepTimes::numberOf(const executable::Step &step) const {
  for (size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].step == &step) return static_cast<int>(i);
  throw internal_error("step times: '{}' is not registered", step.name);
}

int StepTimes::registerStep(const executable::Step &step) {
  entries_.push_back({&step});
  return static_cast<int>(entries_.size()) - 1;
}

std::string StepTimes::table() const {
  std::vector<Entry> sorted = entries_;
  for (Entry &e : sorted) e.nanoseconds += e.earlierNanoseconds, e.calls += e.earlierCalls;
  std::erase_if(sorted, [](const Entry &e) { return e.calls == 0; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry &a, const Entry &b) { return a.nanoseconds > b.nanoseconds; });
  int64_t total = 0;
  std::map<std::string, int64_t> perKernel, perScope;
  for (const Entry &e : sorted) {
    total += e.nanoseconds;
    perKernel[kernelName(*e.step)] += e.nanoseconds;
    perScope[scopeOf(layerOf(e.step->layer).layer, kScopes)] += e.nanoseconds;
  }
  auto share = [&](int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, total));
  };
  std::string text = fmt::format("{:>7}  {:>8}  {:>10}  {:>8}  step, kernel\n", "share", "calls", "mean us", "GFLOP/s");
  for (const Entry &e : sorted) {
    const double nanoseconds = static_cast<double>(e.nanoseconds) / static_cast<double>(e.calls);
    const double flops = e.step->kernel ? e.step->kernel->flops() : 0.0;
    const std::string rate = flops > 0 && nanoseconds > 0 ? fmt::format("{:.1f}", flops / nanoseconds) : "";
    text += fmt::format("{:>6.2f}%  {:>8}  {:>10.2f}  {:>8}  {}, {}\n", share(e.nanoseconds), e.calls,
                        nanoseconds / 1e3, rate, stepTitle(e.step->name, e.step->layer), kernelName(*e.step));
  }
  const auto addSums = [&](const std::map<std::string, int64_t> &sums) {
    std::vector<std::pair<std::string, int64_t>> rows(sums.begin(), sums.end());
    std::stable_sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
    for (const auto &[name, ns] : rows)
      text += fmt::format("{:>6.2f}%  {}\n", share(ns), name.empty() ? "(no layer)" : name);
  };
  text += fmt::format("{:.3f} ms in all; by kernel:\n", static_cast<double>(total) / 1e6);
  addSums(perKernel);
  text += "by scope:\n";
  addSums(perScope);
  return text;
}

}  // namespace popart::runtime
