// Logging through named channels (docs/compat/values.md). A line reads
//   <UTC timestamp>Z popart:<module> <pid>.<tid> <initial>: <message>
// Environment: POPART_LOG_LEVEL (all modules), POPART_LOG_CONFIG (JSON file: module -> level), POPART_LOG_DEST (stderr,
// stdout or a file), POPART_LOG_FORMAT (spdlog pattern). Default level WARN. Arguments are formatted only when they
// show.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include <popart/error.hpp>

namespace popart::logging {

// As spdlog's levels; Off hides everything.
enum class Level { Trace = 0, Debug, Info, Warn, Err, Critical, Off };
// The channels of PopART; "none" is for messages without a channel.
enum class Module { popart = 0, session, ir, devicex, transform, pattern, builder, op, opx, ces, python, none };
constexpr int kModuleCount = 12;  // of Module

// Keys: "all" or a module's name (an unknown one means the channel none); values: TRACE DEBUG INFO WARN ERR CRITICAL
// OFF (any case; another text means OFF). "all" is applied first.
void configure(const std::map<std::string, std::string> &levels);
// Thread-safe. The first use of a channel warns about bad values of the environment; they have no effect.
void setLogLevel(Module module, Level level);
Level getLogLevel(Module module);
bool shouldLog(Module module, Level level);
void flush(Module module);
void log(Module module, Level level, std::string_view message);

Level levelFromString(std::string_view name);    // as configure's values
std::string_view moduleName(Module module);      // the enumerator's name
Module moduleFromString(std::string_view name);  // none if unknown

// Replaces each "{}" by the next argument.
template <class... Args>
std::string format(std::string_view fmt, const Args &...args) {
  return formatText(fmt, {toText(args)...});
}

// toText of each element, `separator` between them.
template <class Iterator>
std::string join(Iterator begin, Iterator end, const std::string &separator) {
  std::string text;
  for (auto it = begin; it != end; ++it) {
    if (it != begin) text += separator;
    text += toText(*it);
  }
  return text;
}

// Formats only if the level is shown. Throws popart::error if "{}" and arguments differ in number.
template <class... Args>
void log(Module module, Level level, std::string_view fmt, const Args &...args) requires(sizeof...(Args) > 0) {
  if (shouldLog(module, level)) log(module, level, std::string_view(format(fmt, args...)));
}

// One set of level functions per module: logging::session::info("…", …). Without a module: channel popart.
#define POPART_LOGGING_LEVEL(MODULE, NAME, LEVEL)             \
  template <class... Args>                                    \
  void NAME(std::string_view fmt, const Args &...args) {      \
    logging::log(Module::MODULE, Level::LEVEL, fmt, args...); \
  }
#define POPART_LOGGING_LEVELS(MODULE)        \
  POPART_LOGGING_LEVEL(MODULE, trace, Trace) \
  POPART_LOGGING_LEVEL(MODULE, debug, Debug) \
  POPART_LOGGING_LEVEL(MODULE, info, Info)   \
  POPART_LOGGING_LEVEL(MODULE, warn, Warn)   \
  POPART_LOGGING_LEVEL(MODULE, err, Err)     \
  POPART_LOGGING_LEVEL(MODULE, critical, Critical)

namespace popart {
POPART_LOGGING_LEVELS(popart)
}
namespace session {
POPART_LOGGING_LEVELS(session)
}
namespace ir {
POPART_LOGGING_LEVELS(ir)
}
namespace devicex {
POPART_LOGGING_LEVELS(devicex)
}
namespace transform {
POPART_LOGGING_LEVELS(transform)
}
namespace pattern {
POPART_LOGGING_LEVELS(pattern)
}
namespace builder {
POPART_LOGGING_LEVELS(builder)
}
namespace op {
POPART_LOGGING_LEVELS(op)
}
namespace opx {
POPART_LOGGING_LEVELS(opx)
}
namespace ces {
POPART_LOGGING_LEVELS(ces)
}
namespace python {
POPART_LOGGING_LEVELS(python)
}
POPART_LOGGING_LEVELS(popart)
#undef POPART_LOGGING_LEVELS
#undef POPART_LOGGING_LEVEL

}  // namespace popart::logging
