// Reduces a model to the parts that inference uses: see popart/inferenceform.hpp.
//
//   outputs ── their needs, backwards ──▶ nodes, inputs, initializers that stay
//   nodes in inference form (training_form.hpp), BatchNormalization folded if requested (batch_norm_folding.hpp)
#pragma once
#include <popart/inferenceform.hpp>

#include "onnx/reader.hpp"

namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {

// The model in inference form, including the values of all its tensors. `evaluate` as in BuildOptions: it finds the
// types of tensors that become outputs and have no type in the file. Throws popart::error like popart::inferenceForm,
// but not for the size.
Model inferenceForm(const Model &model, const InferenceFormOptions &options, const EvaluateOp &evaluate);

// The outputs that `options` select: the named ones, the graph outputs that are not losses, or the predictions.
std::vector<std::string> inferenceOutputs(const onnx_proto::ModelProto &proto, const InferenceFormOptions &options);

}  // namespace popart::onnx
