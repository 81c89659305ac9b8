// Temporary files are called <target>.tmp.<process>.<number>. Their writer holds a lock (flock) on them. If the lock of
// a file is free, its writer has died. Between creation and lock another process may therefore remove the file, so the
// writer checks that its file still exists after it has the lock.
#include "base/files/pending_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <popart/error.hpp>

namespace popart {
namespace fs = std::filesystem;
namespace {

constexpr const char *kMark = ".tmp.";

bool isNumbers(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Whether `path` still names the file that `fd` has open.
bool isAt(int fd, const std::string &path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

void removeIfLost(const std::string &path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && isAt(fd, path))
    ::unlink(path.c_str());
  ::close(fd);
}

void removeLostFiles(const std::string &path) {
  const fs::path target(path);
  const std::string start = target.filename().string() + kMark;
  std::error_code failure;
  for (fs::directory_iterator it(target.has_parent_path() ? target.parent_path() : fs::path("."), failure), end;
       !failure && it != end; it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(start) && isNumbers(std::string_view(name).substr(start.size())))
      removeIfLost(it->path().string());
  }
}

}  // namespace

PendingFile::PendingFile(const std::string &path) : path_(path) {
  removeLostFiles(path);
  while (!create()) {
  }
}

// Returns false if the name was taken, or another process took the file for abandoned.
bool PendingFile::create() {
  static std::atomic<uint64_t> next{0};
  temporary_ = path_ + kMark + std::to_string(::getpid()) + "." + std::to_string(next++);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0 && errno == EEXIST) return false;
  if (fd_ < 0) fail("cannot be created");
  if (::flock(fd_, LOCK_EX) == 0 && !isAt(fd_, temporary_)) {
    ::close(fd_);
    return false;
  }
  return true;
}

PendingFile::~PendingFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void PendingFile::write(const void *data, size_t bytes) {
  const auto *p = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot be written");
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

void PendingFile::commit() {
  if (::fsync(fd_) != 0) fail("cannot be synced");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed into place");
  ::close(fd_);
  fd_ = -1;
  const std::string folder = fs::path(path_).parent_path().string();
  const int folderFd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folderFd >= 0) {
    ::fsync(folderFd);
    ::close(folderFd);
  }
}

void PendingFile::fail(const char *what) const {
  throw error("File '{}': {}: {}. Check that the folder exists, is writable and has space", path_, what,
              std::strerror(errno));
}

}  // namespace popart
