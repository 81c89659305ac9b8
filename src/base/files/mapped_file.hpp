// MappedFile: the bytes of a file in memory, brought in by the system as they are read. A file that another process
// cuts short while it is mapped ends this process: writers replace files (PendingFile), they do not write into them.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace popart {

// A read-only mapping of a whole file.
class MappedFile {
 public:
  // How many names the file may have. One: a hard link is refused, for it may lead anywhere and cannot be followed.
  enum class Links { Any, One };
  // Throws popart::error naming `shownName` when it is no readable regular file.
  static std::shared_ptr<const MappedFile> open(const std::string &path, const std::string &shownName,
                                                Links links = Links::Any);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  const char *data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile() = default;
  const char *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace popart
