// Describes the contents of a model file, and the nodes that are refused, for people and tools.
#pragma once
#include <string>

#include "onnx/reader.hpp"

namespace popart::onnx {

// JSON: inputs and outputs (names, types, shapes with the symbols of open dimensions), opsets, nodes by operator type,
// parameters and their bytes, files with values of tensors, and the nodes that cannot be imported with these options,
// each with the reason (an operator, a value or a shape). Nodes that only fail because they read the result of a
// refused node count as `afterRefused`. Throws popart::error for damaged initializers.
std::string describeModel(const Model &model, const BuildOptions &options);

// The graph inputs without values, in the form of `inputs` of that JSON; imports nothing.
std::string describeInputs(const Model &model);

}  // namespace popart::onnx
