// Exception classes, their hierarchy (docs/compat/values.md) and the _throw_… functions programs test with.
#include <atomic>

#include <nanobind/stl/string.h>

#include <popart/logging.hpp>

#include "bindings.hpp"

#include "base/unknown_value.hpp"
#include "executable/run_context.hpp"
#include "onnx/missing_data.hpp"

namespace popart::python {
namespace {

// Classes that programs catch; nothing here raises them but the _throw_… functions.
nb::object makeClass(nb::module_ &m, const char *name, nb::handle base) {
  const std::string qualified = std::string("popart_core.") + name;
  constexpr const char *kDoc = "An error of Poplar's libraries. Never raised here; kept for programs that catch it.";
  nb::object type = nb::steal(PyErr_NewExceptionWithDoc(qualified.c_str(), kDoc, base.ptr(), nullptr));
  m.attr(name) = type;
  return type;
}

[[noreturn]] void raise(const char *className, const std::string &message) {
  nb::object type = nb::module_::import_("popart_core").attr(className);
  nb::object instance = type(message);
  if (std::string_view(className) == "poplar_recoverable_runtime_error")
    instance.attr("recoveryAction") = nb::module_::import_("popart_core").attr("RecoveryAction").attr("IPU_RESET");
  PyErr_SetObject(type.ptr(), instance.ptr());
  throw nb::python_error();
}

// The innermost lines of the Python program, as " (at a.py:3 in f, b.py:9 in g)"; empty where no Python runs.
std::string pythonStack() {
  constexpr int kFrames = 4;
  std::string text;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
  for (int i = 0; i < kFrames && frame.is_valid() && !frame.is_none(); ++i) {
    auto *current = reinterpret_cast<PyFrameObject *>(frame.ptr());
    const nb::object code = nb::steal(reinterpret_cast<PyObject *>(PyFrame_GetCode(current)));
    text += (text.empty() ? " (at " : ", ") + nb::cast<std::string>(code.attr("co_filename")) + ":" +
            std::to_string(PyFrame_GetLineNumber(current)) + " in " + nb::cast<std::string>(code.attr("co_name"));
    frame = frame.attr("f_back");
  }
  return text.empty() ? text : text + ")";
}

// How many callers are ready for errors: these try something that may be refused.
std::atomic<int> errorsExpected = 0;

// Logs what goes to Python, and passes it on to the translators of the classes.
void logError(const std::exception_ptr &thrown, void *) {
  try {
    std::rethrow_exception(thrown);
  } catch (const error &e) {
    try {
      if (errorsExpected == 0 && logging::shouldLog(logging::Module::popart, logging::Level::Err))
        logging::err("{}{}", std::string(e.what()), pythonStack());
    } catch (const std::exception &) {  // a log that cannot be written hides no error
    }
    throw;
  }
}

enum class RecoveryAction { IPU_RESET = 0, LINK_RESET, PARTITION_RESET, FULL_RESET, POWER_CYCLE };

}  // namespace

void bindExceptions(nb::module_ &m) {
  // nanobind asks the newest translator first, so bases come before their subclasses.
  nb::object base = nb::exception<error>(m, "popart_exception");
  base.attr("__doc__") = "Something that a user can mend: a model, an option, a call.";
  nb::object internal = nb::exception<internal_error>(m, "popart_internal_exception", base);
  internal.attr("__doc__") = "A fault of the library.";
  nb::object atRunTime = nb::exception<runtime_error>(m, "popart_runtime_error", base);
  atRunTime.attr("__doc__") = "Device or data at run time.";
  nb::object missing = nb::exception<onnx::missing_data_error>(m, "missing_data_error",
                                                               nb::make_tuple(base, nb::handle(PyExc_RuntimeError)));
  missing.attr("__doc__") = "A file of external tensor data that is not there.";
  nb::object unknown = nb::exception<unknown_value_error>(m, "unknown_value_error", base);
  unknown.attr("__doc__") =
      "A value that the run computes must be known when the graph is built, for the structure of the program depends "
      "on "
      "it.";

  makeClass(m, "poplibs_exception", nb::handle(PyExc_Exception));
  nb::object poplar = makeClass(m, "poplar_exception", nb::handle(PyExc_Exception));
  nb::object poplarRuntime = makeClass(m, "poplar_runtime_error", poplar);
  nb::object application =
      nb::exception<executable::application_error>(m, "poplar_application_runtime_error", poplarRuntime);
  application.attr("__doc__") =
      "A log2 scale of FLOAT8 values that is out of range, or a program that stops itself (abort).";
  nb::object system = makeClass(m, "poplar_system_runtime_error", poplarRuntime);
  makeClass(m, "poplar_recoverable_runtime_error", system);
  makeClass(m, "poplar_unrecoverable_runtime_error", system);
  makeClass(m, "poplar_unknown_runtime_error", system);

  bindEnum<RecoveryAction>(m, "RecoveryAction", "What to do after a recoverable device error.",
                           {{"IPU_RESET", RecoveryAction::IPU_RESET},
                            {"LINK_RESET", RecoveryAction::LINK_RESET},
                            {"PARTITION_RESET", RecoveryAction::PARTITION_RESET},
                            {"FULL_RESET", RecoveryAction::FULL_RESET},
                            {"POWER_CYCLE", RecoveryAction::POWER_CYCLE}});

  m.def(
      "_expect_errors", [](bool begins) { errorsExpected += begins ? 1 : -1; }, nb::arg("begins"),
      "Errors are not logged between a call with True and one with False.");
  m.def("_throw_popart_error", [](const std::string &message) { throw error("{}", message); });
  m.def("_throw_popart_internal_error", [](const std::string &message) { throw internal_error("{}", message); });
  m.def("_throw_popart_runtime_error", [](const std::string &message) { throw runtime_error("{}", message); });
  m.def("_throw_poplibs_error", [](const std::string &message) { raise("poplibs_exception", message); });
  m.def("_throw_poplar_error", [](const std::string &message) { raise("poplar_exception", message); });
  m.def("_throw_poplar_runtime_error", [](const std::string &message) { raise("poplar_runtime_error", message); });
  m.def("_throw_application_runtime_error",
        [](const std::string &message) { raise("poplar_application_runtime_error", message); });
  m.def("_throw_system_runtime_error",
        [](const std::string &message) { raise("poplar_system_runtime_error", message); });
  m.def("_throw_recoverable_runtime_error",
        [](const std::string &message) { raise("poplar_recoverable_runtime_error", message); });
  m.def("_throw_unrecoverable_runtime_error",
        [](const std::string &message) { raise("poplar_unrecoverable_runtime_error", message); });
  m.def("_throw_unknown_runtime_error",
        [](const std::string &message) { raise("poplar_unknown_runtime_error", message); });
}

void bindErrorLog() { nb::register_exception_translator(&logError); }

}  // namespace popart::python
