// ProgramCache: a folder of compiled programs, each a file `<key>.popef`. Processes may share it: files are written
// completely or not at all, and a program in use stays readable if another process removes its file. If the folder
// exceeds its limits, the least recently used programs are removed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "session/program_file.hpp"

namespace popart::session {

struct CacheLimits {
  int64_t files = 0;
  int64_t bytes = 0;
};
// POPART_CACHE_MAX_FILES and POPART_CACHE_MAX_BYTES, or the defaults in docs/environment.md. Throws popart::error if
// they are not numbers.
CacheLimits cacheLimits();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  // The program with this key, which counts as a use; nullopt if there is none. A file that cannot be used causes a
  // warning with the reason and counts as absent; store then replaces it. Large values that `held` contains are taken
  // from there.
  std::optional<lower::Program> find(const ProgramDescription &description, const ValueTable &held,
                                     const lower::FirstValues &first) const;
  // Writes the program, and removes programs beyond the limits. Creates the folder. If the folder cannot be written
  // (read only, full), warns: the session already has its program.
  void store(const ProgramDescription &description, const lower::Program &program,
             const VariableValues &variables) const;

  // A file of the folder. Files with other names are not ours and are ignored.
  struct Entry {
    std::string key;
    int64_t bytes = 0;
    int64_t lastUse = 0;  // nanoseconds since 1970
  };
  std::vector<Entry> entries() const;  // least recently used first; empty if there is no folder
  std::string path(const std::string &key) const;
  // Removes the least recently used programs until the limits hold; returns those removed. Limits of zero: all.
  std::vector<Entry> prune(const CacheLimits &limits) const;

 private:
  std::string folder_;
};

}  // namespace popart::session
