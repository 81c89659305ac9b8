// Lists of operators and the reserved tensor-name prefixes.
#include <popart/opdef.hpp>
#include <popart/tensornames.hpp>

#include "api/supported_operations.hpp"
#include "base/nearest.hpp"
#include "bindings.hpp"
#include "onnx/operator_table.hpp"

namespace popart::python {
namespace {

// As popart.onnx_forms.Form.
nb::tuple formOf(const onnx::OperatorForm &form) {
  nb::list attributes;
  for (const onnx::AttributeForm &a : form.attributes())
    attributes.append(nb::make_tuple(std::string(a.name), std::string(a.kind), a.required,
                                     a.defaultValue ? nb::cast(std::string(*a.defaultValue)) : nb::none()));
  return nb::make_tuple(std::string(form.type), form.since, form.minInputs, form.maxInputs, form.minOutputs,
                        form.maxOutputs, std::string(form.inputs), std::string(form.outputs), attributes);
}

nb::list operatorForms(int64_t opset) {
  nb::list forms;
  for (const onnx::OnnxOperator &op : onnx::onnxOperators(opset))
    if (const auto form = onnx::findForm(op.type, opset)) forms.append(formOf(*form));
  return forms;
}

}  // namespace

void bindOperators(nb::module_ &m) {
  nb::class_<OperatorIdentifier>(m, "OperatorIdentifier", "Domain, type and version of an operator.")
      .def(nb::init<OpDomain, OpType, OpVersion>(), nb::arg("domain"), nb::arg("type"), nb::arg("version"),
           "Name an operator.\n"
           "\n"
           "Args:\n"
           "    domain: 'ai.onnx', 'ai.graphcore' or a domain of one's own.\n"
           "    type: 'Gelu'.\n"
           "    version: Version of the operator.")
      .def_ro("domain", &OperatorIdentifier::domain)
      .def_ro("type", &OperatorIdentifier::type)
      .def_ro("version", &OperatorIdentifier::version)
      .def(
          "__eq__", [](const OperatorIdentifier &a, const OperatorIdentifier &b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const OperatorIdentifier &id) { return std::hash<OperatorIdentifier>()(id); })
      .def("__repr__", [](const OperatorIdentifier &id) { return id.str(); });
  nb::class_<SupportedOperation::Operand>(
      m, "OpDefinitionOperand",
      "An input or output of an operator: name, supported element types, whether it must be a constant.")
      .def_ro("name", &SupportedOperation::Operand::name)
      .def_ro("supportedTensors", &SupportedOperation::Operand::types)
      .def_ro("constant", &SupportedOperation::Operand::constant);
  nb::class_<SupportedOperation::AttributeFacts>(m, "OpDefinitionAttribute",
                                                 "An attribute of an operator: a regular expression of its values.")
      .def_ro("supportedValuesRegex", &SupportedOperation::AttributeFacts::supportedValuesRegex);
  nb::class_<SupportedOperation>(m, "OpDefinition",
                                 "What an operator takes and gives: inputs, outputs, attributes by name.")
      .def_ro("inputs", &SupportedOperation::inputs)
      .def_ro("outputs", &SupportedOperation::outputs)
      .def_ro("attributes", &SupportedOperation::attributes);
  m.def("getSupportedOperations", &supportedOperations, nb::arg("includeInternal"),
        "List the operators that can run.\n"
        "\n"
        "Args:\n"
        "    includeInternal: Also those that programs cannot write, such as gradients.");
  m.def("getUnsupportedOperations", &unsupportedOperations, nb::arg("opsetVersion"),
        "List the operators of an ai.onnx operator set that cannot run.\n"
        "\n"
        "Args:\n"
        "    opsetVersion: The operator set, 1 or more.");
  m.def(
      "getSupportedOperationsDefinition",
      [](bool includeInternal) {
        nb::dict result;
        for (const OperatorIdentifier &id : supportedOperations(includeInternal))
          result[nb::cast(id)] = nb::cast(supportedOperation(id));
        return result;
      },
      nb::arg("includeInternal"),
      "Dictionary from OperatorIdentifier to OpDefinition.\n"
      "\n"
      "Args:\n"
      "    includeInternal: As in getSupportedOperations.");
  m.def("_operatorForms", &operatorForms, nb::arg("opset"),
        "The operators of a set of ai.onnx, as popart.onnx_forms has them.");
  m.def("_newestOnnxOpset", &onnx::newestOnnxOpset);
  m.def("_nearest_text", &nearestText, nb::arg("wanted"), nb::arg("names"), nb::arg("what") = "names",
        nb::arg("count") = 3);
  for (const ReservedPrefix &prefix : reservedPrefixes()) {
    const std::string text = prefix.text;
    const std::string doc = "The reserved tensor-name prefix '" + text + "'.";
    m.def(
        prefix.function, [text] { return text; }, doc.c_str());
  }
}

}  // namespace popart::python
