// RemoteMemory: memory for one remote variable of one engine. The system may page it out. With POPART_REMOTE_MEMORY it
// is a file in that folder; the file is invisible to other programs and disappears when the process ends, however it
// ends.
#pragma once
#include <cstdint>

namespace popart::runtime {

class RemoteMemory {
 public:
  // The memory is zeroed. The space of a file is allocated at once, so that a full disk is reported here and not in a
  // run. Throws memory_allocation_err, with the name of the folder if there is one, when there is no memory or space,
  // and runtime_error for a folder in which no file can be made.
  explicit RemoteMemory(int64_t bytes);
  ~RemoteMemory();
  RemoteMemory(RemoteMemory &&other) noexcept;
  RemoteMemory &operator=(RemoteMemory &&) = delete;

  char *data() const { return data_; }
  // Asks the system to read these bytes of mapped memory in advance, while the caller continues.
  static void expect(const void *data, int64_t bytes) noexcept;

 private:
  int64_t bytes_;
  char *data_ = nullptr;
};

}  // namespace popart::runtime
