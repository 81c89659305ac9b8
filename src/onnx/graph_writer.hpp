// The reverse of the importer's regular rule: writes ops of the catalog as nodes of a model.
#pragma once
#include <vector>

#include <popart/op.hpp>

#include "onnx/builder.hpp"

namespace popart::onnx {

// Adds the node for `op` to `builder`, with `inputs` (empty ids for absent ones). Attributes that are inputs in ONNX
// become Constant nodes before it. The outputs get the ids of the op's outputs, which must be unused in the builder.
// Returns false, and adds nothing, when the row has no ONNX name or the ONNX operator cannot express all of the row
// (control flow, losses, random numbers, batch normalisation in training, constants).
bool addNodeOf(ModelBuilder &builder, const Op &op, const std::vector<TensorId> &inputs);

}  // namespace popart::onnx
