// MappedFile: the bytes of a file as memory, which the system loads when they are read. If another process truncates a
// mapped file, this process ends; so writers replace files (PendingFile) instead of writing into them.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

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

 private:
  MappedFile() = default;
  const char *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace popart
