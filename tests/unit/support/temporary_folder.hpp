// A folder for the files of one test, whatever other runs of the tests do at the same time.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace popart::test {

/// An empty folder with a name of its own, removed with all that is in it at the end. Throws std::runtime_error when
/// none can be made.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "popart-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("Folder '" + pattern + "': cannot be made");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  const std::filesystem::path &path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace popart::test
