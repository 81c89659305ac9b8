// Whole vectors of the target are streamed; bytes before the first vector and after the last one are written normally.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/stream_copy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/stream_copy.hpp"
// clang-format on
#include <algorithm>
#include <cstring>

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void streamVectors(char *to, const char *from, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(step));
  const int64_t head = std::min(bytes, beyond == 0 ? 0 : step - beyond);
  std::memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + step <= bytes; i += step)
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t *>(from + i)), d, reinterpret_cast<uint8_t *>(to + i));
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(streamVectors);

bool exceedsCaches(int64_t bytesRead, int64_t bytesWritten) {
  const int64_t cache = lastLevelCacheBytes();
  return bytesWritten > cache / 4 && bytesRead + bytesWritten > cache;
}

void streamBytes(void *to, const void *from, int64_t bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(streamVectors)(static_cast<char *>(to), static_cast<const char *>(from), bytes);
}
void flushStreams() noexcept { hwy::FlushStream(); }

}  // namespace popart::cpu
#endif
