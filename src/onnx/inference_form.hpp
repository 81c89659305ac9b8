// A model cut to what is used of it: see popart/inferenceform.hpp.
//
//   outputs ── what they need, backwards ──▶ nodes, inputs, initializers that stay
//   nodes in inference form (training_form.hpp), BatchNormalization folded where asked for (batch_norm_folding.hpp)
#pragma once
#include <popart/inferenceform.hpp>

#include "onnx/reader.hpp"

namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {

// The model in inference form; the values of all its tensors are inside. `evaluate` as in BuildOptions: it finds the
// types of tensors that become outputs and that the file says nothing of. Throws popart::error as
// popart::inferenceForm, but for the size.
Model inferenceForm(const Model &model, const InferenceFormOptions &options, const EvaluateOp &evaluate);

// The outputs that `options` select: those it names, or the graph outputs that no loss leads to, or predictions.
std::vector<std::string> inferenceOutputs(const onnx_proto::ModelProto &proto, const InferenceFormOptions &options);

}  // namespace popart::onnx
