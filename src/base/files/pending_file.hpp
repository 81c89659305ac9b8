// PendingFile: a file with a temporary name next to its target, which it replaces when it is complete. If a process is
// killed, the temporary file remains; the next write of the same target removes it (decisions/0013).
#pragma once
#include <cstddef>
#include <string>

namespace popart {

class PendingFile {
 public:
  // Removes abandoned temporary files of the same target. Throws popart::error naming `path` if the folder does not
  // accept a new file; so do write and commit if the system refuses.
  explicit PendingFile(const std::string &path);
  ~PendingFile();  // removes the file unless it was committed
  PendingFile(const PendingFile &) = delete;
  PendingFile &operator=(const PendingFile &) = delete;

  void write(const void *data, size_t bytes);
  void commit();  // afterwards the file is on the disk under its name

 private:
  bool create();
  [[noreturn]] void fail(const char *what) const;
  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace popart
