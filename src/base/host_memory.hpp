// Blocks of the host's memory: of the host device, and of exchanges between processes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart {

// Aligned, zeroed block. Large blocks are mapped pages, huge ones where the system offers them, except for the tail,
// which would be rounded up. Pages are committed at first touch, near the thread that touches them.
class HostMemory {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  // Throws memory_allocation_err.
  explicit HostMemory(int64_t bytes);
  ~HostMemory();
  HostMemory(HostMemory &&other) noexcept;
  HostMemory &operator=(HostMemory &&) = delete;

  char *data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }  // those asked for, rounded up by aligned()
  // First-touches bytes [begin, end), which stay zero. Not for bytes that were written.
  void touch(int64_t begin, int64_t end) const;
  // Bytes as multiples of the alignment.
  static int64_t aligned(int64_t bytes);

 private:
  void takePages();
  [[noreturn]] void refuse() const;

  size_t bytes_;
  char *data_ = nullptr;
  void *pages_ = nullptr;
};

}  // namespace popart
