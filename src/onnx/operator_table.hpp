// The operators of ai.onnx: numbers of inputs and outputs, versions and attributes, from the operator schemas of the
// onnx package that the build uses (tools/make_operator_table.py).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <popart/names.hpp>

namespace popart::onnx {

struct OperatorArity {
  int minInputs;
  int maxInputs;   // -1: any number
  int maxOutputs;  // -1: any number
};

// Over all operator sets; nullopt for an operator that ai.onnx does not have.
std::optional<OperatorArity> findArity(std::string_view type);

// An operator of one operator set.
struct OnnxOperator {
  std::string type;  // "Gelu"
  OpVersion since;   // the version in force
};

// The operators of ai.onnx operator set `opset` in the order of their names, without deprecated ones. For a set newer
// than the table it returns the newest one's, for a number below 1 none.
std::vector<OnnxOperator> onnxOperators(int64_t opset);

// Inputs, outputs and attributes of an operator of ai.onnx in its newest version: names separated by spaces.
struct OperatorNames {
  const char *inputs = "", *outputs = "", *attributes = "";
};

// The versions of an operator, ascending, without those in which it is deprecated; empty if ai.onnx does not have it.
std::vector<OpVersion> onnxVersions(std::string_view type);
// Empty names for an operator that ai.onnx does not have.
OperatorNames onnxNames(std::string_view type);

// One attribute of one version of an operator.
struct AttributeForm {
  std::string_view name;
  std::string_view kind;  // "int", "floats", "graph" …: a type of ONNX in lower case
  bool required = false;
  std::optional<std::string_view> defaultValue;  // as text; elements of a list are separated by commas
};

// One version of an operator.
struct OperatorForm {
  std::string_view type;
  OpVersion since;                // the version in force
  int minInputs, maxInputs;       // -1: any number
  int minOutputs, maxOutputs;     // -1: any number
  std::string_view inputs;        // names separated by spaces; "?" follows an optional one, "*" a variadic one
  std::string_view outputs;       // likewise
  std::string_view attributeRow;  // of the table; `attributes` reads it

  std::vector<AttributeForm> attributes() const;  // in the order of their names
  bool hasAttribute(std::string_view name) const;
  // Whether an input may have the empty name, also in front of inputs that are given.
  bool isOptionalInput(size_t index) const;
};

// The version of an operator in operator set `opset`; nullopt if the set does not have it or marks it as deprecated.
// For a set newer than the table this is the newest version.
std::optional<OperatorForm> findForm(std::string_view type, int64_t opset);

// The newest operator set of the table: the newest that models may use under OpVersionRule::Strict.
int64_t newestOnnxOpset();

}  // namespace popart::onnx
