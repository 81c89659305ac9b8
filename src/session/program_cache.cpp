// The modification time of a file is the time of its last use: find sets it.
#include "session/program_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/byte_size.hpp"
#include "base/environment.hpp"

namespace popart::session {
namespace fs = std::filesystem;
namespace {

constexpr const char *kEnding = ".popef";
constexpr size_t kKeyDigits = 32;

// The key in a file's name; empty for other files.
std::string keyOf(const fs::path &path) {
  const std::string key = path.stem().string();
  const bool ours = path.extension() == kEnding && key.size() == kKeyDigits &&
                    key.find_first_not_of("0123456789abcdef") == std::string::npos;
  return ours ? key : std::string();
}

}  // namespace

CacheLimits cacheLimits() {
  const std::optional<std::string> bytes = environment::cacheMaxBytes();
  return {environment::cacheMaxFiles().value_or(1000),
          byteSizeFromText(bytes.value_or("16G"), "environment variable POPART_CACHE_MAX_BYTES")};
}

std::string ProgramCache::path(const std::string &key) const { return (fs::path(folder_) / (key + kEnding)).string(); }

std::optional<lower::Program> ProgramCache::find(const ProgramDescription &description, const ValueTable &held,
                                                 const lower::FirstValues &first) const {
  const std::string file = path(description.key);
  std::error_code failure;
  if (!fs::exists(file, failure)) return std::nullopt;
  try {
    ProgramFile stored = ProgramFile::open(file, "cached program '" + file + "'");
    check(stored.description().key == description.key && stored.description().target == description.target,
          "cached program '{}': its content does not match its name", file);
    lower::Program program = stored.checkedProgram(description.threads, held, first);
    ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // fails if the folder cannot be written
    return program;
  } catch (const error &e) {
    logging::session::warn("{}. The program is compiled again", e.what());
    return std::nullopt;
  }
}

void ProgramCache::store(const ProgramDescription &description, const lower::Program &program,
                         const VariableValues &variables) const {
  try {
    std::error_code failure;
    fs::create_directories(folder_, failure);
    check(!failure, "cannot make the folder '{}': {}", folder_, failure.message());
    saveProgramFile(path(description.key), description, &program, variables);
    prune(cacheLimits());
  } catch (const error &e) {
    logging::session::warn("the compiled program is not stored: {}", e.what());
  }
}

std::vector<ProgramCache::Entry> ProgramCache::entries() const {
  std::vector<Entry> entries;
  std::error_code failure;
  for (fs::directory_iterator it(folder_, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string key = keyOf(it->path());
    struct stat status {};
    if (key.empty() || ::lstat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    entries.push_back({key, static_cast<int64_t>(status.st_size),
                       int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.lastUse != b.lastUse ? a.lastUse < b.lastUse : a.key < b.key;
  });
  return entries;
}

std::vector<ProgramCache::Entry> ProgramCache::prune(const CacheLimits &limits) const {
  const std::vector<Entry> all = entries();
  auto files = static_cast<int64_t>(all.size());
  int64_t bytes = 0;
  for (const Entry &e : all) bytes += e.bytes;
  std::vector<Entry> removed;
  for (const Entry &e : all) {
    if (files <= limits.files && bytes <= limits.bytes) break;
    std::error_code failure;
    if (fs::remove(path(e.key), failure)) removed.push_back(e);  // false: another process has removed it
    check(!failure, "cache folder '{}': cannot remove '{}': {}", folder_, path(e.key), failure.message());
    --files, bytes -= e.bytes;
  }
  return removed;
}

}  // namespace popart::session
