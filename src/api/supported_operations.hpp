// The catalog's information for getSupportedOperations and related functions.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <popart/opdef.hpp>

namespace popart {

// Operands and attributes of one operator.
struct SupportedOperation {
  // An input or output. For outputs all types are listed; the operator's rule decides.
  struct Operand {
    std::string name;
    std::vector<DataType> types;
    bool constant = false;  // must be known when the program is compiled
  };
  // The values that an attribute takes.
  struct AttributeFacts {
    std::string supportedValuesRegex;
  };
  std::vector<Operand> inputs, outputs;
  std::map<std::string, AttributeFacts> attributes;
};

// Sorted. With includeInternal also gradient operators and operators that the compiler makes.
std::vector<OperatorIdentifier> supportedOperations(bool includeInternal);
// The operators of ai.onnx operator set `opset` that models cannot use here, sorted. Throws popart::error for a set
// that does not exist.
std::vector<OperatorIdentifier> unsupportedOperations(int64_t opset);
// Throws popart::error for an identifier that supportedOperations(true) does not list.
SupportedOperation supportedOperation(const OperatorIdentifier &opid);

}  // namespace popart
