// MappedFile: the bytes of a file as memory, which the system loads when they are read. If a mapped file is truncated,
// reading its end ends the process: writers here replace files (PendingFile), and readers ask isUnchanged before they
// read values long after the file was opened.
#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace popart {

// A read-only mapping of a whole file.
class MappedFile {
 public:
  // Number of names that the file may have. One: a hard link is refused, because its other names cannot be checked.
  enum class Links { Any, One };
  // Throws popart::error naming `shownName` if it is not a readable regular file.
  static std::shared_ptr<const MappedFile> open(const std::string &path, const std::string &shownName,
                                                Links links = Links::Any);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  const char *data() const { return data_; }
  size_t size() const { return size_; }
  // Whether the file that is mapped still has its size and its time of modification. Otherwise data() has other bytes,
  // or none: reading beyond the new end of a file ends the process. A file that was removed, or replaced by another
  // one, stays mapped as it was.
  bool isUnchanged() const noexcept;

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
  struct stat status_ {};  // when it was opened
  const char *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace popart
