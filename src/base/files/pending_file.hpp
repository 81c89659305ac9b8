// PendingFile: a file under a temporary name beside its target that takes the target's place when it is complete. A
// process that is killed leaves the temporary file; the next write of the same target removes it (decisions/0013).
#pragma once
#include <cstddef>
#include <string>

namespace popart {

class PendingFile {
 public:
  // Removes temporary files of the same target that no process writes any more. Throws popart::error naming `path` when
  // the folder does not take a new file; so do write and commit when the system refuses.
  explicit PendingFile(const std::string &path);
  ~PendingFile();  // without commit the file vanishes
  PendingFile(const PendingFile &) = delete;
  PendingFile &operator=(const PendingFile &) = delete;

  void write(const void *data, size_t bytes);
  void commit();  // on the disk and under its name when this returns

 private:
  bool create();
  [[noreturn]] void fail(const char *what) const;
  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace popart
