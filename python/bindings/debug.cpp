// Debug contexts, version and logger.
#include <popart/debugcontext.hpp>
#include <popart/devicemanager.hpp>
#include <popart/logging.hpp>
#include <popart/version.hpp>

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
  nb::class_<Logger> logger(m, "Logger");
  logger.def("setLevel", &Logger::setLevel, nb::arg("level"));
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
        nb::arg("message"));
  m.def(
      "getLogger",
      [](const std::string &name) {
        const bool known = name == "all" || logging::moduleFromString(name) != logging::Module::none;
        return Logger{known ? name : "none"};
      },
      nb::arg("name") = "all");
}

}  // namespace

void bindDebug(nb::module_ &m) {
  nb::class_<SourceLocation>(m, "SourceLocation")
      .def(nb::init<std::string, std::string, unsigned>(), nb::arg("functionName"), nb::arg("fileName"),
           nb::arg("lineNumber"));
  nb::class_<DebugInfo>(m, "DebugInfo")
      .def(nb::init<const DebugContext &, std::string>(), nb::arg("debugContext"), nb::arg("layer"))
      .def(
          "setValue",
          [](DebugInfo &info, const std::string &name, nb::object value) { return info.setValue(name, pyText(value)); },
          nb::arg("name"), nb::arg("value"))
      .def("getId", &DebugInfo::getId);
  nb::class_<DebugContext>(m, "DebugContext")
      .def("__init__", [](DebugContext *self) { new (self) DebugContext(callerLocation()); })
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
      .def("getPathName", &DebugContext::getPathName);
  nb::implicitly_convertible<std::string, DebugContext>();

  m.def(
      "initializePoplarDebugInfo",
      [](const std::string &filename, const std::string &format) {
        check(format == "json" || format == "cbor",
              "initializePoplarDebugInfo: unknown format: got '{}', expected 'json' or 'cbor'", format);
        DebugInfo::initializeStreamer(
            filename, format == "json" ? DebugInfo::SerializationFormat::JSON : DebugInfo::SerializationFormat::CBOR);
      },
      nb::arg("filename"), nb::arg("format") = "json");
  m.def("closePoplarDebugInfo", &DebugInfo::closeStreamer);

  bindLogger(m);
  m.def("versionString", &core::versionString);
  m.def("versionNumber", &core::versionNumber);
  m.def("packageHash", &core::packageHash);
  m.def("syncPatternFromString", &syncPatternFromString, nb::arg("pattern"));
  m.def("syncPatternToString", &syncPatternToString, nb::arg("pattern"));
}

}  // namespace popart::python
