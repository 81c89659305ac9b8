// Debug contexts, version, logger, and what popart-info says of the machine.
#include <popart/debugcontext.hpp>
#include <popart/devicemanager.hpp>
#include <popart/logging.hpp>
#include <popart/version.hpp>

#include "base/byte_size.hpp"
#include "base/threads/processors.hpp"
#include "base/units.hpp"
#include "bindings.hpp"

namespace popart::python {
namespace {

// The Python caller's position, as far as a frame is there.
SourceLocation callerLocation() {
  PyFrameObject *frame = PyEval_GetFrame();
  if (!frame) return {};
  nb::object code = nb::steal(reinterpret_cast<PyObject *>(PyFrame_GetCode(frame)));
  return {nb::cast<std::string>(code.attr("co_name")), nb::cast<std::string>(code.attr("co_filename")),
          static_cast<unsigned>(PyFrame_GetLineNumber(frame))};
}

// What popart.getLogger returns: sets levels of one module or all, and writes to channel python.
struct Logger {
  std::string name;
  void setLevel(const std::string &level) const { logging::configure({{name, level}}); }
};

void bindLogger(nb::module_ &m) {
  nb::class_<Logger> logger(m, "Logger",
                            "Sets the level of one log channel or of all; its texts go to channel python.");
  logger.def("setLevel", &Logger::setLevel, nb::arg("level"),
             "Set the least level that shows.\n"
             "\n"
             "Args:\n"
             "    level: TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF; any other text means OFF.");
  const std::pair<const char *, logging::Level> levels[] = {{"debug", logging::Level::Debug},
                                                            {"info", logging::Level::Info},
                                                            {"warn", logging::Level::Warn},
                                                            {"error", logging::Level::Err},
                                                            {"critical", logging::Level::Critical}};
  for (const auto &[name, level] : levels)
    logger.def(
        name,
        [level = level](const Logger &, const std::string &message) {
          logging::log(logging::Module::python, level, message);
        },
        nb::arg("message"), "Write a line.\n\nArgs:\n    message: Its text.");
  m.def(
      "getLogger",
      [](const std::string &name) {
        const bool known = name == "all" || logging::moduleFromString(name) != logging::Module::none;
        return Logger{known ? name : "none"};
      },
      nb::arg("name") = "all",
      "The logger of a channel.\n"
      "\n"
      "Args:\n"
      "    name: session, ir, devicex, popart, transform, pattern, builder, op, opx, ces, python, or 'all'.");
}

}  // namespace

void bindDebug(nb::module_ &m) {
  nb::class_<SourceLocation>(m, "SourceLocation", "A line of a program.")
      .def(nb::init<std::string, std::string, unsigned>(), nb::arg("functionName"), nb::arg("fileName"),
           nb::arg("lineNumber"),
           "Name the line.\n"
           "\n"
           "Args:\n"
           "    functionName: Function.\n"
           "    fileName: File.\n"
           "    lineNumber: Line, from 1.");
  nb::class_<DebugInfo>(m, "DebugInfo", "Values that a layer of a program records about a DebugContext.")
      .def(nb::init<const DebugContext &, std::string>(), nb::arg("debugContext"), nb::arg("layer"),
           "Start recording.\n"
           "\n"
           "Args:\n"
           "    debugContext: What the values are about.\n"
           "    layer: Name of the layer that records.")
      .def(
          "setValue",
          [](DebugInfo &info, const std::string &name, nb::object value) { return info.setValue(name, pyText(value)); },
          nb::arg("name"), nb::arg("value"),
          "Record a value.\n"
          "\n"
          "Args:\n"
          "    name: Its name.\n"
          "    value: Anything with a text form.\n"
          "\n"
          "Returns:\n"
          "    Whether it was recorded.")
      .def("getId", &DebugInfo::getId, "Number of this record in the file that initializePoplarDebugInfo opened.");
  nb::class_<DebugContext>(
      m, "DebugContext",
      "A name and the line of the program where something was made. A plain string does where one is asked "
      "for.")
      .def(
          "__init__", [](DebugContext *self) { new (self) DebugContext(callerLocation()); },
          "Make a context; without loc the caller's line is taken.\n"
          "\n"
          "Args:\n"
          "    name: Name, empty by default.\n"
          "    loc: SourceLocation.\n"
          "    debugInfo: Record that the name stands below.")
      .def(
          "__init__",
          [](DebugContext *self, const std::string &name) { new (self) DebugContext(name, callerLocation()); },
          nb::arg("name"))
      .def(
          "__init__",
          [](DebugContext *self, const std::string &name, const SourceLocation &loc) {
            new (self) DebugContext(name, loc);
          },
          nb::arg("name"), nb::arg("loc"))
      .def(
          "__init__",
          [](DebugContext *self, const DebugInfo &info, const std::string &name) {
            new (self) DebugContext(info, name, callerLocation());
          },
          nb::arg("debugInfo"), nb::arg("name") = "")
      .def(
          "__init__",
          [](DebugContext *self, const DebugInfo &info, const std::string &name, const SourceLocation &loc) {
            new (self) DebugContext(info, name, loc);
          },
          nb::arg("debugInfo"), nb::arg("name"), nb::arg("loc"))
      .def("getPathName", &DebugContext::getPathName, "The names of all records above and this one, '/' between them.");
  nb::implicitly_convertible<std::string, DebugContext>();

  m.def(
      "initializePoplarDebugInfo",
      [](const std::string &filename, const std::string &format) {
        check(format == "json" || format == "cbor",
              "initializePoplarDebugInfo: unknown format: got '{}', expected 'json' or 'cbor'", format);
        DebugInfo::initializeStreamer(
            filename, format == "json" ? DebugInfo::SerializationFormat::JSON : DebugInfo::SerializationFormat::CBOR);
      },
      nb::arg("filename"), nb::arg("format") = "json",
      "Write what DebugInfo objects record to a file from now on.\n"
      "\n"
      "Args:\n"
      "    filename: File to write.\n"
      "    format: 'json' or 'cbor'.");
  m.def("closePoplarDebugInfo", &DebugInfo::closeStreamer, "Finish the file of initializePoplarDebugInfo.");

  bindLogger(m);
  m.attr("_ownVersion") = POPART_OWN_VERSION;  // of the distribution openpopart (pyproject.toml)
  m.def("_bytes_text", &bytesText, nb::arg("count"));
  m.def("_bytes_from_text", &byteSizeFromText, nb::arg("text"), nb::arg("what"));
  m.def("_time_text", &timeText, nb::arg("seconds"));
  m.def("_flops_text", &flopsText, nb::arg("count"));
  m.def(
      "_processorQuota", [](const std::string &root) { return readProcessorLimits({}, root).quota; }, nb::arg("root"));
  m.def("_groupMemoryLimit", &groupMemoryLimit, nb::arg("root"));
  m.def("versionString", &core::versionString, "Version of this library, 'major.minor.patch'.");
  m.def("versionNumber", &core::versionNumber, "Version of this library as (major, minor, patch).");
  m.def("packageHash", &core::packageHash, "Short hash that names this build.");
  m.def("syncPatternFromString", &syncPatternFromString, nb::arg("pattern"),
        "The SyncPattern of a name.\n"
        "\n"
        "Args:\n"
        "    pattern: 'full', 'singlePipeline' or 'replicaAndLadder'.\n"
        "\n"
        "Raises:\n"
        "    popart_exception: Another name.");
  m.def("syncPatternToString", &syncPatternToString, nb::arg("pattern"),
        "The name of a SyncPattern.\n"
        "\n"
        "Args:\n"
        "    pattern: The value.");
}

}  // namespace popart::python
