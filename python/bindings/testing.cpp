// The Python module popart_testing: single ops on NumPy arrays, for the operator cases under tests/cases.
#include <popart/opdef.hpp>

#include "host_array.hpp"
#include "support/run_op.hpp"

namespace popart::python {
namespace {

template <class T>
std::vector<T> toVector(nb::handle list) {
  std::vector<T> values;
  for (nb::handle item : list) values.push_back(nb::cast<T>(item));
  return values;
}

// Attribute values by the type the row declares; a Python number alone does not tell int from float.
AttributeValue toAttribute(AttributeType type, nb::handle value) {
  switch (type) {
    case AttributeType::Int:
      return PyBool_Check(value.ptr()) ? static_cast<int64_t>(nb::cast<bool>(value)) : nb::cast<int64_t>(value);
    case AttributeType::Float:
      return nb::cast<float>(value);
    case AttributeType::String:
      return nb::cast<std::string>(value);
    case AttributeType::Ints:
      return toVector<int64_t>(value);
    case AttributeType::Floats:
      return toVector<float>(value);
    case AttributeType::Strings:
      return toVector<std::string>(value);
    case AttributeType::Tensor: {
      const HostArray array(value, HostArray::Types::All);
      array.requireContiguous("attribute", "");
      return TensorData(array.info(), array.data());
    }
    case AttributeType::Graph:
      break;
  }
  throw error("attribute: subgraphs cannot be given to single ops");
}

std::vector<TensorData> toTensors(nb::handle arrays) {
  std::vector<TensorData> tensors;
  for (nb::handle item : arrays) {
    if (item.is_none()) {
      tensors.emplace_back();
      continue;
    }
    const HostArray array(item, HostArray::Types::All);
    array.requireContiguous("input", std::to_string(tensors.size()));
    tensors.emplace_back(array.info(), array.data());
  }
  return tensors;
}

SingleOp toOp(const std::string &type, const nb::dict &attributes, nb::handle inputs, int outputs) {
  SingleOp op{type, {}, toTensors(inputs), outputs};
  const OpDef *def = findOpDef(type);
  if (!def) throw error("operator '{}': there is no such row in the catalog", type);
  for (auto [key, value] : attributes) {
    const auto name = nb::cast<std::string>(key);
    const AttributeDef *attribute = def->findAttribute(name);
    if (!attribute) throw error("operator '{}': unknown attribute '{}'", type, name);
    if (!value.is_none()) op.attributes.set(name, toAttribute(attribute->type, value));
  }
  return op;
}

OpBackend toBackend(const std::string &name) {
  if (name == "ref") return OpBackend::Reference;
  if (name == "cpu") return OpBackend::Best;
  if (name == "counting") return OpBackend::Counting;
  throw error("backend: got '{}', expected 'ref', 'cpu' or 'counting'", name);
}

nb::list toArrays(const std::vector<TensorData> &tensors) {
  nb::list arrays;
  for (const TensorData &tensor : tensors) {
    if (tensor.empty())
      arrays.append(nb::none());
    else
      arrays.append(makeNumpyArray(tensor.info(), tensor.data()));
  }
  return arrays;
}

std::vector<std::pair<std::string, std::string>> toPairs(const std::vector<executable::Fallback> &fallbacks) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto &f : fallbacks) pairs.emplace_back(f.op, f.reason);
  return pairs;
}

}  // namespace
}  // namespace popart::python

NB_MODULE(popart_testing, testing) {
  using namespace popart;
  using namespace popart::python;
  testing.doc() = "Single operators on NumPy arrays.";
  nb::module_::import_("popart_core");  // types and exceptions
  testing.def(
      "run_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, const std::string &backend, int outputs,
         int threads, int repetitions, bool transposed) {
        const OpRun run{toBackend(backend), transposed ? OpOperands::Transposed : OpOperands::Plain, threads,
                        repetitions};
        return toArrays(runOp(toOp(type, attributes, inputs, outputs), run));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("backend") = "ref", nb::arg("outputs") = -1,
      nb::arg("threads") = 0, nb::arg("repetitions") = 1, nb::arg("transposed") = false,
      "Runs one op of the catalog; None among the inputs is an absent optional input. `transposed` brings the inputs "
      "in "
      "with reversed dimensions and a Transpose before the op.");
  testing.def(
      "op_text",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return textOfOp(toOp(type, attributes, inputs, outputs));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Text of a program of the op, after it was read again and found equal.");
  testing.def(
      "run_op_as_onnx",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) -> nb::object {
        const auto results = runOpAsOnnx(toOp(type, attributes, inputs, outputs));
        return results ? nb::object(toArrays(*results)) : nb::none();
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Results of the op after it was written as an ONNX model and read again; None: it has no ONNX form.");
  testing.def(
      "infer_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return inferOp(toOp(type, attributes, inputs, outputs));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1, "Infos of the outputs.");
  testing.def(
      "op_cost",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        const Cost cost = costOfOp(toOp(type, attributes, inputs, outputs));
        return std::make_tuple(cost.flops, cost.bytesRead, cost.bytesWritten);
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Arithmetic operations, bytes read and bytes written, as the op's row states them.");
  testing.def(
      "grad_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, const std::string &backend, int outputs) {
        return toArrays(
            gradOp(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted, toBackend(backend)));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("backend") = "ref", nb::arg("outputs") = -1, "Gradients of the inputs listed in `wanted`.");
  testing.def(
      "fallbacks",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return toPairs(opFallbacks(toOp(type, attributes, inputs, outputs)));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "(op, reason) of each op of the program of run_op that the CPU backend leaves to the reference.");
  testing.def(
      "grad_fallbacks",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, int outputs) {
        return toPairs(gradFallbacks(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("outputs") = -1, "The same for the program of grad_op.");
  testing.def(
      "passes_of_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        const std::set<std::string> names = passesOfOp(toOp(type, attributes, inputs, outputs));
        return std::vector<std::string>(names.begin(), names.end());
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Names of the passes of lowering that change the program of run_op on the CPU and may be switched off.");
  testing.def(
      "passes_of_gradient",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, int outputs) {
        const std::set<std::string> names =
            passesOfGradient(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted);
        return std::vector<std::string>(names.begin(), names.end());
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("outputs") = -1, "The same for the program of grad_op.");
  testing.def(
      "op_types",
      [] {
        std::vector<std::string> types;
        for (const OpDef *def : allOpDefs()) types.push_back(def->type());
        return types;
      },
      "Types of all rows of the catalog.");
}
