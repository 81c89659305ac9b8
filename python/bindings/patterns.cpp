// Patterns: which rewrites a session runs.
#include <popart/patterns/patterns.hpp>

#include "bindings.hpp"

namespace popart::python {

void bindPatterns(nb::module_ &m) {
  bindEnum<PatternsLevel>(m, "PatternsLevel",
                          {{"NoPatterns", PatternsLevel::NoPatterns},
                           {"Minimal", PatternsLevel::Minimal},
                           {"Default", PatternsLevel::Default},
                           {"All", PatternsLevel::All}});
  nb::class_<Patterns> patterns(m, "Patterns");
  patterns.def(nb::init<>())
      .def(nb::init<PatternsLevel>(), nb::arg("level"))
      .def(nb::init<const std::vector<std::string> &>(), nb::arg("patterns"))
      .def("enablePattern", &Patterns::enablePattern, nb::arg("name"), nb::arg("enable"),
           nb::rv_policy::reference_internal)
      .def("isPatternEnabled", &Patterns::isPatternEnabled, nb::arg("name"))
      .def("enableRuntimeAsserts", &Patterns::enableRuntimeAsserts, nb::arg("enable"),
           nb::rv_policy::reference_internal)
      .def_prop_rw("InPlace", &Patterns::isInPlaceEnabled, [](Patterns &p, bool on) { p.enableInPlace(on); })
      .def("__repr__", [](const Patterns &p) {
        std::string text;
        for (const std::string &name : p.enabledNames()) text += (text.empty() ? "" : " ") + name;
        return text;
      });
  for (const char *name : {"PreUniRepl", "PostNRepl", "SoftMaxGradDirect", "NlllWithSoftMaxGradDirect", "OpToIdentity",
                           "SubtractArg1GradOp", "MulArgGradOp", "MatMulOp", "MatMulLhsGradOp", "MatMulRhsGradOp"})
    patterns.def_prop_rw(
        name, [name](const Patterns &p) { return p.isPatternEnabled(name); },
        [name](Patterns &p, bool on) { p.enablePattern(name, on); });
}

}  // namespace popart::python
