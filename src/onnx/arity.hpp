// Numbers of inputs and outputs of ai.onnx operators. Private to this room.
#pragma once
#include <optional>
#include <string_view>

namespace popart::onnx {

struct OperatorArity {
  int minInputs;
  int maxInputs;   // -1: any number
  int maxOutputs;  // -1: any number
};

// Over all operator sets; nullopt for an operator ai.onnx does not have.
std::optional<OperatorArity> findArity(std::string_view type);

}  // namespace popart::onnx
