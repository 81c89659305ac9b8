// Blocks of the host's memory: of the host device, and of exchanges between processes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart {

// Aligned, zeroed block. Large blocks are mapped in huge pages if the system has them, except for the last part,
// which would waste most of a page. A page gets memory at its first use, near the thread that uses it.
class HostMemory {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  // Throws memory_allocation_err.
  explicit HostMemory(int64_t bytes);
  ~HostMemory();
  HostMemory(HostMemory &&other) noexcept;
  HostMemory &operator=(HostMemory &&) = delete;

  char *data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }  // the requested number, rounded up by aligned()
  // Touches bytes [begin, end), which stay zero. Only before they are written.
  void touch(int64_t begin, int64_t end) const;
  // Rounds up to a multiple of the alignment.
  static int64_t aligned(int64_t bytes);

 private:
  void takePages();
  [[noreturn]] void refuse() const;

  size_t bytes_;
  char *data_ = nullptr;
  void *pages_ = nullptr;
};

}  // namespace popart
