#include "base/files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <popart/error.hpp>

namespace popart {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path, const std::string &shownName, Links links) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(fd >= 0, "File '{}': cannot be opened for reading. Check that it exists and is readable", shownName);
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(fd);
    throw error("File '{}': is not a regular file. Give the name of a file", shownName);
  }
  if (links == Links::One && status.st_nlink > 1) {
    ::close(fd);
    throw error(
        "File '{}': has several names (hard links), one of which may be outside the model's folder: got {} links, "
        "expected 1. Copy the file",
        shownName, static_cast<long>(status.st_nlink));
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->size_ = static_cast<size_t>(status.st_size);
  if (file->size_ > 0) {
    void *address = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      ::close(fd);
      throw error("File '{}': cannot be mapped into memory: got size {} bytes", shownName,
                  static_cast<long>(file->size_));
    }
    file->data_ = static_cast<const char *>(address);
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char *>(data_), size_);
}

}  // namespace popart
