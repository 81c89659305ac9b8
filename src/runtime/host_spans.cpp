// See host_spans.hpp.
#include "runtime/host_spans.hpp"

#include <algorithm>
#include <functional>
#include <ranges>

namespace popart::runtime {

bool isAligned(const void *begin, int64_t valueBytes) {
  constexpr int64_t kAlignment = 16;  // alignment of memory from the system
  return reinterpret_cast<uintptr_t>(begin) % kAlignment == 0 && valueBytes % kAlignment == 0;
}

void findUsable(std::vector<HostSpan> &spans) {
  std::ranges::sort(spans, std::less<>(), &HostSpan::begin);
  const char *end = nullptr, *writtenEnd = nullptr;  // the furthest end among the spans that begin before
  for (HostSpan &s : spans) {
    s.isUsable &= s.begin >= (s.isWritten ? end : writtenEnd);
    end = std::max(end, s.end());
    if (s.isWritten) writtenEnd = std::max(writtenEnd, s.end());
  }
  const char *last = reinterpret_cast<const char *>(UINTPTR_MAX);
  const char *begin = last, *writtenBegin = last;  // the nearest begin among the spans that begin after
  for (HostSpan &s : std::views::reverse(spans)) {
    s.isUsable &= s.end() <= (s.isWritten ? begin : writtenBegin);
    begin = s.begin;
    if (s.isWritten) writtenBegin = s.begin;
  }
}

}  // namespace popart::runtime
