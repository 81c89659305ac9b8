// Reads cache sizes once, see cache_sizes.hpp.
#include "backends/cpu/kernels/cache_sizes.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace popart::cpu {
namespace {

constexpr int64_t kDefaultBytes = int64_t{1} << 20;
// Larger panels are not faster, and smaller ones are read too often.
constexpr int64_t kLeastPanelBytes = int64_t{96} << 10, kMostPanelBytes = int64_t{384} << 10;

}  // namespace

int64_t secondLevelCacheBytes() {
  static const int64_t bytes = [] {
#ifdef _SC_LEVEL2_CACHE_SIZE
    if (const long size = sysconf(_SC_LEVEL2_CACHE_SIZE); size > 0) return int64_t{size};
#endif
    return kDefaultBytes;
  }();
  return bytes;
}

// sysconf adds the caches of a processor that has several; a core uses only one of them.
int64_t lastLevelCacheBytes() {
  static const int64_t bytes = [] {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
    int64_t kibibytes = 0;
    return file >> kibibytes && kibibytes > 0 ? kibibytes << 10 : int64_t{32} << 20;
  }();
  return bytes;
}

int64_t panelBytesAtOnce() {
  return std::clamp<int64_t>(secondLevelCacheBytes() * 3 / 8, kLeastPanelBytes, kMostPanelBytes);
}

}  // namespace popart::cpu
