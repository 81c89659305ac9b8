// popart-cache: looks after a folder of compiled programs (SessionOptions::enableEngineCaching).
#include <ctime>
#include <filesystem>
#include <iostream>

#include <popart/error.hpp>
#include <popart/sessionoptions.hpp>

#include "base/byte_size.hpp"
#include "session/program_cache.hpp"
#include "shared/command.hpp"

namespace {

using popart::session::CacheLimits;
using popart::session::ProgramCache;

std::string timeText(int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc);
  return text;
}

void list(const ProgramCache &cache) {
  int64_t bytes = 0;
  const auto entries = cache.entries();
  for (const auto &e : entries) {
    std::string about;
    try {
      const auto file = popart::session::ProgramFile::open(cache.path(e.key), e.key);
      about = file.description().target + ", " + std::to_string(file.description().threads) + " threads";
    } catch (const popart::error &damage) {
      about = damage.what();
    }
    std::cout << e.key << "  " << timeText(e.lastUse) << "  " << e.bytes << " bytes  " << about << "\n";
    bytes += e.bytes;
  }
  std::cout << entries.size() << " programs, " << bytes << " bytes\n";
}

void removed(const std::vector<ProgramCache::Entry> &entries) {
  int64_t bytes = 0;
  for (const auto &e : entries) bytes += e.bytes;
  std::cout << "removed " << entries.size() << " programs, " << bytes << " bytes\n";
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app("Looks after a folder of compiled programs, which sessions with enableEngineCaching share.",
               "popart-cache");
  app.footer("examples:\n  popart-cache ls\n  popart-cache --folder session_cache prune --max-bytes 2G\n");
  app.require_subcommand(1);
  std::string folder = popart::SessionOptions().cachePath, maxBytes;
  int64_t maxFiles = 0;
  app.add_option("--folder", folder, "The folder (default: POPXL_CACHE_DIR, POPART_CACHE_DIR or the sessions' default)")
      ->capture_default_str();
  app.add_subcommand("ls", "List the programs, the one used longest ago first, times in UTC");
  CLI::App *prune = app.add_subcommand("prune", "Remove the programs used longest ago until the limits hold");
  prune->add_option("--max-files", maxFiles, "Most programs to keep (default: POPART_CACHE_MAX_FILES or 1000)");
  prune->add_option("--max-bytes", maxBytes,
                    "Most bytes to keep, with K, M or G (default: POPART_CACHE_MAX_BYTES or 16G)");
  app.add_subcommand("clear", "Remove all programs; other files of the folder stay");
  return popart::tools::runCommand(app, argc, argv, [&] {
    if (std::filesystem::exists(folder) && !std::filesystem::is_directory(folder))
      throw popart::tools::UsageError("--folder: '" + folder + "' is a file, expected a folder");
    const ProgramCache cache(folder);
    if (app.got_subcommand("ls")) {
      list(cache);
    } else if (app.got_subcommand("clear")) {
      removed(cache.prune({0, 0}));
    } else {
      CacheLimits limits = popart::session::cacheLimits();
      if (prune->count("--max-files")) limits.files = maxFiles;
      if (!maxBytes.empty()) limits.bytes = popart::byteSizeFromText(maxBytes, "--max-bytes");
      removed(cache.prune(limits));
    }
  });
}
