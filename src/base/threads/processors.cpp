// Cores and quotas, see processors.hpp. The smallest quota of the control groups applies.
#include "base/threads/processors.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "base/control_groups.hpp"

namespace popart {
namespace {

std::vector<int> allowedProcessorNumbers() {
  std::vector<int> numbers;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) numbers.push_back(cpu);
#endif
  if (numbers.empty())
    for (int cpu = 0; cpu < std::max(1, static_cast<int>(std::thread::hardware_concurrency())); ++cpu)
      numbers.push_back(cpu);
  return numbers;
}

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<double> ratio(double quota, double period) {
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

// Version 2: "max 100000" or "150000 100000".
std::optional<double> quotaOfUnified(const std::string &group) {
  std::istringstream text(firstLine(group + "/cpu.max"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period)) return std::nullopt;
  return ratio(quota, period);
}

// Version 1: the quota is -1 without a limit.
std::optional<double> quotaOfController(const std::string &group) {
  std::istringstream quotaText(firstLine(group + "/cpu.cfs_quota_us"));
  std::istringstream periodText(firstLine(group + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  if (!(quotaText >> quota) || !(periodText >> period)) return std::nullopt;
  return ratio(quota, period);
}

std::optional<double> quotaOfProcess(const std::string &root) {
  std::optional<double> least;
  for (const std::string &group : controlGroups("cpu", root))
    for (const auto &quota : {quotaOfUnified(group), quotaOfController(group)})
      if (quota && (!least || *quota < *least)) least = quota;
  return least;
}

}  // namespace

int allowedProcessors() { return static_cast<int>(allowedProcessorNumbers().size()); }

int ProcessorLimits::threads() const {
  const double most = quota ? std::ceil(*quota) : static_cast<double>(cores.size());
  return static_cast<int>(std::clamp<double>(most, 1, std::max<double>(1, static_cast<double>(cores.size()))));
}

ProcessorLimits ProcessorLimits::part(int number, int parts) const {
  if (parts <= 1) return *this;
  const auto count = static_cast<int64_t>(cores.size());
  int64_t begin = count * number / parts, end = count * (number + 1) / parts;
  if (begin == end && count > 0) begin = number % count, end = begin + 1;
  ProcessorLimits own{{cores.begin() + begin, cores.begin() + end}, quota};
  if (own.quota) *own.quota /= parts;
  return own;
}

ProcessorLimits readProcessorLimits(const std::vector<int> &processors, const std::string &root) {
  ProcessorLimits limits;
  std::map<std::string, size_t> coreOf;  // index of a core by the list of its hyper-threads
  for (int cpu : processors) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = firstLine(folder + "thread_siblings_list");
    if (siblings.empty()) siblings = "cpu" + std::to_string(cpu);
    const auto [it, fresh] = coreOf.try_emplace(siblings, limits.cores.size());
    if (fresh) limits.cores.emplace_back();
    limits.cores[it->second].push_back(cpu);
  }
  limits.quota = quotaOfProcess(root);
  return limits;
}

ProcessorLimits processorLimits() { return readProcessorLimits(allowedProcessorNumbers()); }

}  // namespace popart
