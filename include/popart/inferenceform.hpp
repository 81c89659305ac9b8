// The form in which an ONNX model leaves: as it trains, or as it is used.
//
//   inference form: the nodes that the outputs need, and no others, so that losses, the labels that only they read and
//   optimizer state are gone; BatchNormalization with its stored statistics, Dropout removed, where constants of the
//   file decide about them (inputs of the graph still decide where they did); initializers and operator sets that
//   nothing reads dropped, and with them node attributes of PopART's own.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Training: the model as it was read, and optimizer state. Inference: as above.
enum class ModelForm { Training, Inference };

// What of a model is kept, and how.
struct InferenceFormOptions {
  // Names of graph outputs or other tensors. Empty: the graph outputs that are no losses; where none is left, the
  // predictions that the losses read. Losses are what loss operators make, what follows from them, and numbers (floats
  // without dimensions) that follow from labels: inputs that no node combines with weights.
  std::vector<std::string> outputs;
  // Tensors that are losses though no loss operator makes them.
  std::vector<std::string> losses;
  // Folds BatchNormalization into the Conv, ConvTranspose or Gemm before it, where that has constant weights and no
  // other reader. Changes numbers by rounding.
  bool foldBatchNorm = false;
};

}  // namespace popart
