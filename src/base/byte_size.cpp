// Limits come from the files of /proc and of control groups (versions 1 and 2); an unreadable file sets no limit.
#include "base/byte_size.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include <popart/error.hpp>

#include "base/control_groups.hpp"

namespace popart {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number at the start of a file; `missing` if there is none ("max").
int64_t numberIn(const std::string &path, int64_t missing) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value >= 0 ? value : missing;
}

// A line "<key> <number> kB" of a file of /proc, in bytes.
int64_t kilobytesIn(const char *path, const std::string &key, int64_t missing) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t value = 0;
    if (word == key && file >> value) return value * 1024;
  }
  return missing;
}

// Bytes that the group uses, without page cache, which the system frees when memory is short.
int64_t groupUse(const std::string &group) {
  int64_t use = std::max(numberIn(group + "/memory.current", 0), numberIn(group + "/memory.usage_in_bytes", 0));
  std::ifstream file(group + "/memory.stat");
  std::string key;
  for (int64_t value = 0; file >> key >> value;)
    if (key == "inactive_file" || key == "active_file") use -= value;
  return use;
}

struct GroupMemory {
  int64_t limit = kNoLimit, free = kNoLimit;
};
GroupMemory groupMemory(const std::string &root = "") {
  GroupMemory least;
  for (const std::string &group : controlGroups("memory", root)) {
    const int64_t limit =
        std::min(numberIn(group + "/memory.max", kNoLimit), numberIn(group + "/memory.limit_in_bytes", kNoLimit));
    if (limit == kNoLimit) continue;
    least.limit = std::min(least.limit, limit);
    least.free = std::min(least.free, limit - groupUse(group));
  }
  return least;
}

int64_t addressSpaceLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit)));
}

int64_t installed() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? pages * size : kNoLimit;
}

}  // namespace

int64_t byteSizeFromText(const std::string &text, const std::string &what) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
  check(failure == std::errc() && (unit.empty() || shift > 0) && value >= 0 && value <= (int64_t{1} << 62) >> shift,
        "{}: got '{}', expected a number of bytes, with K, M or G at the end for powers of 1024", what, text);
  return value << shift;
}

std::optional<int64_t> groupMemoryLimit(const std::string &root) {
  const int64_t limit = groupMemory(root).limit;
  return limit == kNoLimit ? std::nullopt : std::optional(limit);
}

int64_t machineMemoryBytes() { return std::min({installed(), groupMemory().limit, addressSpaceLimit()}); }

int64_t freeMemoryBytes() {
  const int64_t available = kilobytesIn("/proc/meminfo", "MemAvailable:", installed());
  const int64_t space =
      addressSpaceLimit() == kNoLimit ? kNoLimit : addressSpaceLimit() - kilobytesIn("/proc/self/status", "VmSize:", 0);
  return std::max<int64_t>(0, std::min({available, groupMemory().free, space}));
}

}  // namespace popart
