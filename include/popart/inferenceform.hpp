// The form in which an ONNX model is written: for training, or for inference.
//
// Inference form: only the nodes that the outputs need, so losses, the labels that only they read, and optimizer state
// are removed. BatchNormalization uses its stored statistics and Dropout is removed if constants of the file determine
// their form; if inputs of the graph determine it, they still do. Initializers and operator sets that nothing reads are
// removed, and so are node attributes that only PopART has.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Training: the model as it was read, with optimizer state. Inference: as above.
enum class ModelForm { Training, Inference };

// Which parts of a model are kept, and in which form.
struct InferenceFormOptions {
  // Names of graph outputs or other tensors. Empty: the graph outputs that are not losses; if there are none, the
  // predictions that the losses read. Losses are results of loss operators, values computed from them, and scalars
  // (floats without dimensions) that are computed from labels: inputs that no node combines with weights.
  std::vector<std::string> outputs;
  // Further tensors that are losses, although no loss operator computes them.
  std::vector<std::string> losses;
  // Folds BatchNormalization into the Conv, ConvTranspose or Gemm before it, if that has constant weights and no other
  // reader. Changes results by rounding.
  bool foldBatchNorm = false;
};

}  // namespace popart
