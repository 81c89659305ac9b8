// Blocks of the host's memory, as the host device hands them out.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::runtime {

// Aligned, zeroed block. Large blocks are pages of the system, which come zeroed: huge ones where it offers them, but for
// the last part, which would be rounded up. They come into memory when they are touched, near the thread that does.
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
  // Brings bytes [begin, end) into memory; they keep their zeros. Not for bytes that were written.
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

}  // namespace popart::runtime
