// The other direction of the importer's regular rule: ops of the catalog as nodes of a model.
#pragma once
#include <vector>

#include <popart/op.hpp>

#include "onnx/builder.hpp"

namespace popart::onnx {

// Adds the node that stands for `op` to `builder`, reading `inputs` (empty ids for absent ones); attributes that ONNX
// has as inputs become Constant nodes before it. The outputs get the ids of the op's outputs, which must be free in the
// builder. False, with nothing added, when the row has no ONNX name or the ONNX operator of that name does not say all
// that the row says (control flow, losses, random numbers, batch normalisation in training, constants).
bool addNodeOf(ModelBuilder &builder, const Op &op, const std::vector<TensorId> &inputs);

}  // namespace popart::onnx
