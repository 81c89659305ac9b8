// ProgramCache: a folder of compiled programs, `<key>.popef` each. Processes may share it: a file appears whole or not
// at all, and a program that is in use stays readable when another process removes its file. The programs that were
// used longest ago go first when the folder outgrows its limits.
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
// POPART_CACHE_MAX_FILES and POPART_CACHE_MAX_BYTES, or what docs/environment.md says. Throws popart::error: no
// numbers.
CacheLimits cacheLimits();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  // The program of that key, which counts as used now; nullopt when there is none. A file that cannot be used is warned
  // about with its reason and counts as none: store puts a good one in its place. Large values that `held` has are
  // taken from there.
  std::optional<lower::Program> find(const ProgramDescription &description, const ValueTable &held,
                                     const lower::FirstValues &first) const;
  // Writes the program and removes what is beyond the limits. Makes the folder. A folder that does not take it (read
  // only, full) is warned about: the session has its program already.
  void store(const ProgramDescription &description, const lower::Program &program,
             const VariableValues &variables) const;

  // A file of the folder. Files of other names belong to somebody else and are left alone.
  struct Entry {
    std::string key;
    int64_t bytes = 0;
    int64_t lastUse = 0;  // nanoseconds since 1970
  };
  std::vector<Entry> entries() const;  // used longest ago first; none when there is no folder
  std::string path(const std::string &key) const;
  // Removes the programs that were used longest ago until the limits hold; returns those removed. Zero limits: all.
  std::vector<Entry> prune(const CacheLimits &limits) const;

 private:
  std::string folder_;
};

}  // namespace popart::session
