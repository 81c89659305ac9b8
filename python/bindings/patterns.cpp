// Patterns: which rewrites a session runs.
#include <popart/patterns/patterns.hpp>

#include "bindings.hpp"

namespace popart::python {

void bindPatterns(nb::module_ &m) {
  bindEnum<PatternsLevel>(m, "PatternsLevel", "Which rewrites are on.",
                          {{"NoPatterns", PatternsLevel::NoPatterns},
                           {"Minimal", PatternsLevel::Minimal},
                           {"Default", PatternsLevel::Default},
                           {"All", PatternsLevel::All}});
  nb::class_<Patterns> patterns(m, "Patterns", "Which graph rewrites a session runs (docs/options.md).");
  patterns
      .def(nb::init<>(),
           "Choose rewrites; without arguments those that are on by default.\n"
           "\n"
           "Args:\n"
           "    level: PatternsLevel; or instead\n"
           "    patterns: List of names, all others off.")
      .def(nb::init<PatternsLevel>(), nb::arg("level"))
      .def(nb::init<const std::vector<std::string> &>(), nb::arg("patterns"))
      .def("enablePattern", &Patterns::enablePattern, nb::arg("name"), nb::arg("enable"),
           nb::rv_policy::reference_internal,
           "Turn a rewrite on or off; returns this object.\n"
           "\n"
           "Args:\n"
           "    name: Its name.\n"
           "    enable: On or off.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: An unknown name.")
      .def("isPatternEnabled", &Patterns::isPatternEnabled, nb::arg("name"),
           "Whether a rewrite is on.\n"
           "\n"
           "Args:\n"
           "    name: Its name.")
      .def("enableRuntimeAsserts", &Patterns::enableRuntimeAsserts, nb::arg("enable"),
           nb::rv_policy::reference_internal,
           "Refuse sets of rewrites that leave out mandatory ones; returns this object.\n"
           "\n"
           "Args:\n"
           "    enable: On or off.")
      .def_prop_rw("InPlace", &Patterns::isInPlaceEnabled, [](Patterns &p, bool on) { p.enableInPlace(on); })
      .def("__repr__", [](const Patterns &p) {
        std::string text;
        for (const std::string &name : p.enabledNames()) text += (text.empty() ? "" : " ") + name;
        return text;
      });
  // Two properties have names that differ from those of their patterns.
  constexpr std::pair<const char *, const char *> kProperties[] = {
      {"PreUniRepl", "PreUniRepl"},
      {"PostNRepl", "PostNRepl"},
      {"SoftMaxGradDirect", "SoftmaxGradDirect"},
      {"NlllWithSoftMaxGradDirect", "NlllWithSoftmaxGradDirect"},
      {"OpToIdentity", "OpToIdentity"},
      {"SubtractArg1GradOp", "SubtractArg1GradOp"},
      {"MulArgGradOp", "MulArgGradOp"},
      {"MatMulOp", "MatMulOp"},
      {"MatMulLhsGradOp", "MatMulLhsGradOp"},
      {"MatMulRhsGradOp", "MatMulRhsGradOp"}};
  for (const auto &[property, pattern] : kProperties)
    patterns.def_prop_rw(
        property, [pattern = pattern](const Patterns &p) { return p.isPatternEnabled(pattern); },
        [pattern = pattern](Patterns &p, bool on) { p.enablePattern(pattern, on); });
}

}  // namespace popart::python
