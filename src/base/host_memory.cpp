// See host_memory.hpp.
#include "base/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <popart/error.hpp>

namespace popart {
namespace {

constexpr size_t kAlign = 64;

}  // namespace

HostMemory::HostMemory(int64_t bytes) : bytes_(bytes > 0 ? static_cast<size_t>(aligned(bytes)) : kAlign) {
  if (bytes_ >= kHugePage) {
    takePages();
    return;
  }
  data_ = static_cast<char *>(std::aligned_alloc(kAlign, bytes_));
  if (!data_) refuse();
  std::memset(data_, 0, bytes_);
}

HostMemory::~HostMemory() {
  if (pages_) {
    munmap(pages_, bytes_ + kHugePage);
  } else {
    std::free(data_);
  }
}

HostMemory::HostMemory(HostMemory &&other) noexcept
    : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)), pages_(std::exchange(other.pages_, nullptr)) {}

void HostMemory::touch(int64_t begin, int64_t end) const {
  static const auto kPage = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  for (int64_t at = begin; pages_ && at < std::min(end, bytes()); at += kPage)
    *const_cast<volatile char *>(data_ + at) = 0;
}

int64_t HostMemory::aligned(int64_t bytes) {
  constexpr auto kStep = static_cast<int64_t>(kAlign);
  return (bytes + kStep - 1) / kStep * kStep;
}

void HostMemory::takePages() {
  void *pages = mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) refuse();
  pages_ = pages;
  data_ = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(pages) + kHugePage - 1) / kHugePage * kHugePage);
#ifdef MADV_HUGEPAGE
  madvise(data_, bytes_ / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

void HostMemory::refuse() const {
  throw memory_allocation_err(
      "the engine cannot allocate " + toText(bytes_) + " bytes. Use a smaller batch or free memory", "");
}

}  // namespace popart
