// RemoteMemory: one remote variable of one engine, in memory that the system may page out or, with
// POPART_REMOTE_MEMORY, in a file of that folder, which nobody else sees and which is gone with the process, however
// that ends.
#pragma once
#include <cstdint>

namespace popart::runtime {

class RemoteMemory {
 public:
  // Zeros. The space of a file is taken at once, so that a full disk shows here and not in a run. Throws
  // memory_allocation_err naming the folder, or when the system has no memory; runtime_error for a folder in which no
  // file can be made.
  explicit RemoteMemory(int64_t bytes);
  ~RemoteMemory();
  RemoteMemory(RemoteMemory &&other) noexcept;
  RemoteMemory &operator=(RemoteMemory &&) = delete;

  char *data() const { return data_; }
  // Asks the system to read these bytes of any mapped memory, if they are not in memory, while the caller goes on.
  static void expect(const void *data, int64_t bytes) noexcept;

 private:
  int64_t bytes_;
  char *data_ = nullptr;
};

}  // namespace popart::runtime
