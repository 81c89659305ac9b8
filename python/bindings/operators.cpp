// Lists of operators and the reserved tensor-name prefixes.
#include <popart/opdef.hpp>
#include <popart/tensornames.hpp>

#include "api/supported_operations.hpp"
#include "bindings.hpp"

namespace popart::python {

void bindOperators(nb::module_ &m) {
  nb::class_<OperatorIdentifier>(m, "OperatorIdentifier")
      .def(nb::init<OpDomain, OpType, OpVersion>(), nb::arg("domain"), nb::arg("type"), nb::arg("version"))
      .def_ro("domain", &OperatorIdentifier::domain)
      .def_ro("type", &OperatorIdentifier::type)
      .def_ro("version", &OperatorIdentifier::version)
      .def(
          "__eq__", [](const OperatorIdentifier &a, const OperatorIdentifier &b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const OperatorIdentifier &id) { return std::hash<OperatorIdentifier>()(id); })
      .def("__repr__", [](const OperatorIdentifier &id) { return id.str(); });
  nb::class_<SupportedOperation::Operand>(m, "OpDefinitionOperand")
      .def_ro("name", &SupportedOperation::Operand::name)
      .def_ro("supportedTensors", &SupportedOperation::Operand::types)
      .def_ro("constant", &SupportedOperation::Operand::constant);
  nb::class_<SupportedOperation::AttributeFacts>(m, "OpDefinitionAttribute")
      .def_ro("supportedValuesRegex", &SupportedOperation::AttributeFacts::supportedValuesRegex);
  nb::class_<SupportedOperation>(m, "OpDefinition")
      .def_ro("inputs", &SupportedOperation::inputs)
      .def_ro("outputs", &SupportedOperation::outputs)
      .def_ro("attributes", &SupportedOperation::attributes);
  m.def("getSupportedOperations", &supportedOperations, nb::arg("includeInternal"));
  m.def("getUnsupportedOperations", &unsupportedOperations, nb::arg("opsetVersion"));
  m.def(
      "getSupportedOperationsDefinition",
      [](bool includeInternal) {
        nb::dict result;
        for (const OperatorIdentifier &id : supportedOperations(includeInternal))
          result[nb::cast(id)] = nb::cast(supportedOperation(id));
        return result;
      },
      nb::arg("includeInternal"));
  for (const ReservedPrefix &prefix : reservedPrefixes()) {
    const std::string text = prefix.text;
    m.def(prefix.function, [text] { return text; });
  }
}

}  // namespace popart::python
