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
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  file->status_ = status;
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

bool MappedFile::isUnchanged() const noexcept {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0 || now.st_dev != status_.st_dev || now.st_ino != status_.st_ino) return true;
  return now.st_size == status_.st_size && now.st_mtim.tv_sec == status_.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == status_.st_mtim.tv_nsec;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char *>(data_), size_);
}

}  // namespace popart
