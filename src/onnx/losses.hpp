// The losses of popart/losses.hpp (which documents them), on a ModelBuilder. The public functions of C++ and Python
// call these.
#pragma once
#include <popart/losses.hpp>

#include "onnx/builder.hpp"

namespace popart::onnx {

TensorId crossEntropyLoss(ModelBuilder &b, const TensorId &logits, const TensorId &labels,
                          const CrossEntropySettings &settings);
TensorId negativeLogLikelihoodLoss(ModelBuilder &b, const TensorId &logProbabilities, const TensorId &labels,
                                   const NegativeLogLikelihoodSettings &settings);
TensorId binaryCrossEntropyLoss(ModelBuilder &b, const TensorId &logits, const TensorId &labels,
                                const BinaryCrossEntropySettings &settings);
TensorId meanSquaredErrorLoss(ModelBuilder &b, const TensorId &input, const TensorId &target,
                              const LossSettings &settings);
TensorId meanAbsoluteErrorLoss(ModelBuilder &b, const TensorId &input, const TensorId &target,
                               const LossSettings &settings);
TensorId huberLoss(ModelBuilder &b, const TensorId &input, const TensorId &target, const HuberSettings &settings);
TensorId smoothL1Loss(ModelBuilder &b, const TensorId &input, const TensorId &target, const SmoothL1Settings &settings);
TensorId klDivergenceLoss(ModelBuilder &b, const TensorId &input, const TensorId &target,
                          const KlDivergenceSettings &settings);
TensorId hingeLoss(ModelBuilder &b, const TensorId &input, const TensorId &labels, const MarginSettings &settings);
TensorId hingeEmbeddingLoss(ModelBuilder &b, const TensorId &input, const TensorId &labels,
                            const MarginSettings &settings);
TensorId cosineEmbeddingLoss(ModelBuilder &b, const TensorId &first, const TensorId &second, const TensorId &labels,
                             const CosineEmbeddingSettings &settings);
TensorId tripletMarginLoss(ModelBuilder &b, const TensorId &anchor, const TensorId &positive, const TensorId &negative,
                           const TripletMarginSettings &settings);
TensorId ctcLoss(ModelBuilder &b, const TensorId &logProbabilities, const TensorId &targets,
                 const TensorId &inputLengths, const TensorId &targetLengths, const CtcSettings &settings);

// ---- losses by name

struct LossName {
  std::string name;                  // "mse"
  std::vector<std::string> aliases;  // "mean_squared_error" …
};
const std::vector<LossName> &namedLosses();
// The name of a loss, from its name or an alias. Throws popart::error with the nearest names.
const std::string &lossNamed(const std::string &given);
// The default output for a loss: the only output, otherwise the first of a float type (logged).
TensorId lossOutput(const ModelBuilder &b);
// The known type and shape of a tensor. Throws popart::error for an unknown id.
LossInput lossInput(const ModelBuilder &b, const TensorId &id);
// Adds the inputs of a loss of `output`. Inputs given in `ids` exist already, the others are made.
std::vector<LossInput> addLossInputs(ModelBuilder &b, const std::string &loss, const TensorId &output,
                                     const std::vector<TensorId> &ids = {});
AttachedLoss attachLoss(ModelBuilder &b, const std::string &loss, const TensorId &output);

}  // namespace popart::onnx
