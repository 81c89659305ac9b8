// Channels of the logger on spdlog: one logger per module over one shared sink, made on first use from the environment.
// The library prints only through it.
#include <popart/logging.hpp>

#include <array>
#include <atomic>
#include <cctype>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "base/environment.hpp"

namespace popart::logging {
namespace {

constexpr std::array<std::string_view, kModuleCount> kNames = {
    "popart", "session", "ir", "devicex", "transform", "pattern", "builder", "op", "opx", "ces", "python", "none"};
constexpr const char *kDefaultPattern = "%Y-%m-%dT%H:%M:%S.%fZ %n %P.%t %L: %v";

std::string upper(std::string_view text) {
  std::string result(text);
  for (char &c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

spdlog::level::level_enum toSpdlog(Level level) { return static_cast<spdlog::level::level_enum>(level); }

struct Channels {
  std::array<std::unique_ptr<spdlog::logger>, kModuleCount> loggers;
  std::array<std::atomic<int>, kModuleCount> levels;
};

std::optional<Level> findLevel(std::string_view name) {
  const std::string text = upper(name);
  if (text == "TRACE") return Level::Trace;
  if (text == "DEBUG") return Level::Debug;
  if (text == "INFO") return Level::Info;
  if (text == "WARN" || text == "WARNING") return Level::Warn;
  if (text == "ERR" || text == "ERROR") return Level::Err;
  if (text == "CRITICAL") return Level::Critical;
  if (text == "OFF") return Level::Off;
  return std::nullopt;
}

// Problems with environment variables. A bad value ends no program: its default is used.
using Warnings = std::vector<std::string>;

Level levelOf(const std::string &name, Level fallback, const std::string &what, Warnings &warnings) {
  const std::optional<Level> level = findLevel(name);
  if (!level)
    warnings.push_back(
        formatText("{}: got '{}', expected TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF. The default "
                   "level stays",
                   {what, name}));
  return level.value_or(fallback);
}

std::shared_ptr<spdlog::sinks::sink> makeSink(Warnings &warnings) {
  const std::string name = environment::logDestination().value_or("stderr");
  if (name == "stdout") return std::make_shared<spdlog::sinks::stdout_sink_mt>();
  if (name != "stderr") try {
      return std::make_shared<spdlog::sinks::basic_file_sink_mt>(name, true);
    } catch (const spdlog::spdlog_ex &e) {
      warnings.push_back(formatText(
          "environment variable POPART_LOG_DEST: got '{}', expected stdout, stderr or a file that can be written: {}. "
          "Log lines go to stderr",
          {name, e.what()}));
    }
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

// Reads the levels of single modules from the file of POPART_LOG_CONFIG.
void readConfig(const std::string &path, Channels &channels, Warnings &warnings) {
  const std::string what = "environment variable POPART_LOG_CONFIG";
  nlohmann::json json;
  try {
    std::ifstream file(path);
    json = nlohmann::json::parse(file, nullptr, false);
  } catch (const std::exception &) {  // from the stream, if the path is a folder
  }
  if (!json.is_object()) {
    warnings.push_back(formatText(
        "{}: got '{}', expected the path of a JSON object of module names and levels. It has no effect", {what, path}));
    return;
  }
  for (const auto &[key, value] : json.items()) {
    const std::string name = key.rfind("popart:", 0) == 0 ? key.substr(7) : key;
    const std::string level = value.is_string() ? value.get<std::string>() : value.dump();
    if (!findLevel(level)) {
      levelOf(level, Level::Warn, what + ", module '" + key + "'", warnings);
      continue;
    }
    for (int i = 0; i < kModuleCount; ++i)
      if (name == kNames[i] || name == "all") channels.levels[i] = static_cast<int>(*findLevel(level));
  }
}

std::unique_ptr<Channels> makeChannels() {
  auto channels = std::make_unique<Channels>();
  Warnings warnings;
  auto sink = makeSink(warnings);
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(environment::logFormat().value_or(kDefaultPattern),
                                                                  spdlog::pattern_time_type::utc));
  const std::optional<std::string> levelText = environment::logLevel();
  const Level level =
      levelText ? levelOf(*levelText, Level::Warn, "environment variable POPART_LOG_LEVEL", warnings) : Level::Warn;
  for (int i = 0; i < kModuleCount; ++i) {
    channels->loggers[i] = std::make_unique<spdlog::logger>("popart:" + std::string(kNames[i]), sink);
    channels->loggers[i]->set_level(spdlog::level::trace);
    channels->loggers[i]->flush_on(spdlog::level::warn);
    channels->levels[i] = static_cast<int>(level);
  }
  if (const std::optional<std::string> config = environment::logConfig()) readConfig(*config, *channels, warnings);
  constexpr auto kChannel = static_cast<int>(Module::popart);
  if (static_cast<Level>(channels->levels[kChannel].load()) <= Level::Warn)
    for (const std::string &text : warnings) channels->loggers[kChannel]->warn(text);
  return channels;
}

Channels &channels() {
  // Never destroyed: other static objects may log while the process ends.
  static Channels *instance = makeChannels().release();
  return *instance;
}

}  // namespace

std::string_view moduleName(Module module) { return kNames[static_cast<int>(module)]; }

Module moduleFromString(std::string_view name) {
  for (int i = 0; i < kModuleCount; ++i)
    if (kNames[i] == name) return static_cast<Module>(i);
  return Module::none;
}

Level levelFromString(std::string_view name) { return findLevel(name).value_or(Level::Off); }

void configure(const std::map<std::string, std::string> &levels) {
  auto all = levels.find("all");
  if (all != levels.end())
    for (int i = 0; i < kModuleCount; ++i) setLogLevel(static_cast<Module>(i), levelFromString(all->second));
  for (const auto &[name, level] : levels)
    if (name != "all") setLogLevel(moduleFromString(name), levelFromString(level));
}

void setLogLevel(Module module, Level level) { channels().levels[static_cast<int>(module)] = static_cast<int>(level); }

Level getLogLevel(Module module) {
  return static_cast<Level>(channels().levels[static_cast<int>(module)].load(std::memory_order_relaxed));
}

bool shouldLog(Module module, Level level) { return level != Level::Off && level >= getLogLevel(module); }

void flush(Module module) { channels().loggers[static_cast<int>(module)]->flush(); }

void log(Module module, Level level, std::string_view message) {
  if (shouldLog(module, level))
    channels().loggers[static_cast<int>(module)]->log(toSpdlog(level),
                                                      spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace popart::logging
