// Reads cache sizes once, see cache_sizes.hpp.
#include "backends/cpu/kernels/cache_sizes.hpp"

#include <unistd.h>

#include <algorithm>

namespace popart::cpu {
namespace {

constexpr int64_t kDefaultBytes = int64_t{1} << 20;
// Larger panels gain nothing, smaller ones are read too often.
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

int64_t panelBytesAtOnce() {
  return std::clamp<int64_t>(secondLevelCacheBytes() * 3 / 8, kLeastPanelBytes, kMostPanelBytes);
}

}  // namespace popart::cpu
