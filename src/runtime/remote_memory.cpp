// See remote_memory.hpp.
#include "runtime/remote_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <popart/error.hpp>

#include "base/environment.hpp"

namespace popart::runtime {
namespace {

class File {
 public:
  // A file without a name in the folder. On file systems that cannot make one, it has a name for a moment.
  File(const std::string &folder, int64_t bytes) {
#ifdef O_TMPFILE
    number_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
    if (number_ < 0) {
      std::string name = folder + "/popart-remote-XXXXXX";
      number_ = mkostemp(name.data(), O_CLOEXEC);
      if (number_ >= 0) unlink(name.c_str());
    }
    if (number_ < 0)
      throw runtime_error("POPART_REMOTE_MEMORY: no file can be made in '{}': {}. Name a folder that can be written",
                          folder, std::strerror(errno));
    if (const int status = posix_fallocate(number_, 0, bytes)) {
      close(number_);
      const std::string text = formatText("POPART_REMOTE_MEMORY: '{}' has no place for {} bytes: {}",
                                          {folder, toText(bytes), std::strerror(status)});
      throw memory_allocation_err(text + ". Free space or name another folder", text);
    }
  }
  ~File() { close(number_); }  // mappings keep the file
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  int number() const { return number_; }

 private:
  int number_ = -1;
};

void *mapFile(const std::string &folder, int64_t bytes) {
  const File file(folder, bytes);
  return mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
}

}  // namespace

RemoteMemory::RemoteMemory(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 1)) {
  const auto folder = environment::remoteMemory();
  void *mapped =
      folder ? mapFile(*folder, bytes_)
             : mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw memory_allocation_err("the engine cannot allocate " + toText(bytes) +
                                    " bytes of remote memory. Free memory, or set POPART_REMOTE_MEMORY to a folder",
                                "");
  data_ = static_cast<char *>(mapped);
}

RemoteMemory::~RemoteMemory() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

RemoteMemory::RemoteMemory(RemoteMemory &&other) noexcept
    : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}

void RemoteMemory::expect(const void *data, int64_t bytes) noexcept {
  static const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes);
  madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);  // advice: a refusal changes nothing
}

}  // namespace popart::runtime
