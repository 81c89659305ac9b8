// popart-cache: looks after a folder of compiled programs (SessionOptions::enableEngineCaching).
#include <ctime>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <popart/error.hpp>
#include <popart/sessionoptions.hpp>

#include "base/byte_size.hpp"
#include "base/units.hpp"
#include "session/program_cache.hpp"
#include "shared/command.hpp"

namespace {

using Json = nlohmann::ordered_json;
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

struct Row {
  ProgramCache::Entry entry;
  std::string target{}, damage{};  // damage: why the file cannot be used
  int threads = 0;
};

Json jsonOf(const Row &row) {
  Json json = {{"key", row.entry.key}, {"lastUse", timeText(row.entry.lastUse)}, {"bytes", row.entry.bytes}};
  if (!row.damage.empty()) json["damage"] = row.damage;
  if (!row.target.empty()) json.update({{"target", row.target}, {"threads", row.threads}});
  return json;
}

// `what`: "programs" or "removed". For people only `listed` has a line for each program.
void print(const std::vector<Row> &rows, const std::string &what, bool asJson, bool listed) {
  int64_t bytes = 0;
  for (const Row &row : rows) bytes += row.entry.bytes;
  if (asJson) {
    Json json = {{what, Json::array()}, {"bytes", bytes}};
    for (const Row &row : rows) json[what].push_back(jsonOf(row));
    std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    return;
  }
  if (listed)
    for (const Row &row : rows)
      std::cout << fmt::format(
          "{}  {}  {:>9}  {}\n", row.entry.key, timeText(row.entry.lastUse),
          popart::bytesText(static_cast<double>(row.entry.bytes)),
          row.damage.empty() ? fmt::format("{}, {} threads", row.target, row.threads) : row.damage);
  std::cout << fmt::format("{}{} programs, {}\n", listed ? "" : what + " ", rows.size(),
                           popart::bytesText(static_cast<double>(bytes)));
}

std::vector<Row> rowsOf(const ProgramCache &cache) {
  std::vector<Row> rows;
  for (const ProgramCache::Entry &entry : cache.entries()) {
    Row &row = rows.emplace_back(Row{.entry = entry});
    try {
      const auto file = popart::session::ProgramFile::open(cache.path(entry.key), entry.key);
      row.target = file.description().target, row.threads = file.description().threads;
    } catch (const popart::error &damage) {
      row.damage = damage.what();
    }
  }
  return rows;
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app("Looks after a folder of compiled programs, which sessions with enableEngineCaching share.",
               "popart-cache");
  app.footer("examples:\n  popart-cache ls\n  popart-cache --folder session_cache prune --max-bytes 2G\n");
  app.require_subcommand(1);
  app.fallthrough();
  std::string folder = popart::SessionOptions().cachePath, maxBytes;
  int64_t maxFiles = 0;
  app.add_option("--folder", folder, "The folder (default: POPXL_CACHE_DIR, POPART_CACHE_DIR or the sessions' default)")
      ->capture_default_str();
  bool json = false;
  app.add_flag("--json", json, "Print a JSON object, with sizes in bytes");
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
      print(rowsOf(cache), "programs", json, true);
      return;
    }
    CacheLimits limits;  // none: clear
    if (app.got_subcommand(prune)) {
      limits = popart::session::cacheLimits();
      if (prune->count("--max-files")) limits.files = maxFiles;
      if (!maxBytes.empty()) limits.bytes = popart::byteSizeFromText(maxBytes, "--max-bytes");
    }
    std::vector<Row> removed;
    for (const ProgramCache::Entry &entry : cache.prune(limits)) removed.push_back({.entry = entry});
    print(removed, "removed", json, false);
  });
}
