// The losses of popart/losses.hpp, implemented by those of onnx/losses.hpp on the core of a Builder.
#include <popart/losses.hpp>

#include <popart/builder.hpp>

#include "onnx/losses.hpp"

namespace popart {

struct BuilderCore {
  static onnx::ModelBuilder &of(Builder &builder) { return builder.core_; }
};

TensorId crossEntropyLoss(Builder &builder, const TensorId &logits, const TensorId &labels,
                          const CrossEntropySettings &settings) {
  return onnx::crossEntropyLoss(BuilderCore::of(builder), logits, labels, settings);
}

TensorId negativeLogLikelihoodLoss(Builder &builder, const TensorId &logProbabilities, const TensorId &labels,
                                   const NegativeLogLikelihoodSettings &settings) {
  return onnx::negativeLogLikelihoodLoss(BuilderCore::of(builder), logProbabilities, labels, settings);
}

TensorId binaryCrossEntropyLoss(Builder &builder, const TensorId &logits, const TensorId &labels,
                                const BinaryCrossEntropySettings &settings) {
  return onnx::binaryCrossEntropyLoss(BuilderCore::of(builder), logits, labels, settings);
}

TensorId meanSquaredErrorLoss(Builder &builder, const TensorId &input, const TensorId &target,
                              const LossSettings &settings) {
  return onnx::meanSquaredErrorLoss(BuilderCore::of(builder), input, target, settings);
}

TensorId meanAbsoluteErrorLoss(Builder &builder, const TensorId &input, const TensorId &target,
                               const LossSettings &settings) {
  return onnx::meanAbsoluteErrorLoss(BuilderCore::of(builder), input, target, settings);
}

TensorId huberLoss(Builder &builder, const TensorId &input, const TensorId &target, const HuberSettings &settings) {
  return onnx::huberLoss(BuilderCore::of(builder), input, target, settings);
}

TensorId smoothL1Loss(Builder &builder, const TensorId &input, const TensorId &target,
                      const SmoothL1Settings &settings) {
  return onnx::smoothL1Loss(BuilderCore::of(builder), input, target, settings);
}

TensorId klDivergenceLoss(Builder &builder, const TensorId &input, const TensorId &target,
                          const KlDivergenceSettings &settings) {
  return onnx::klDivergenceLoss(BuilderCore::of(builder), input, target, settings);
}

TensorId hingeLoss(Builder &builder, const TensorId &input, const TensorId &labels, const MarginSettings &settings) {
  return onnx::hingeLoss(BuilderCore::of(builder), input, labels, settings);
}

TensorId hingeEmbeddingLoss(Builder &builder, const TensorId &input, const TensorId &labels,
                            const MarginSettings &settings) {
  return onnx::hingeEmbeddingLoss(BuilderCore::of(builder), input, labels, settings);
}

TensorId cosineEmbeddingLoss(Builder &builder, const TensorId &first, const TensorId &second, const TensorId &labels,
                             const CosineEmbeddingSettings &settings) {
  return onnx::cosineEmbeddingLoss(BuilderCore::of(builder), first, second, labels, settings);
}

TensorId tripletMarginLoss(Builder &builder, const TensorId &anchor, const TensorId &positive, const TensorId &negative,
                           const TripletMarginSettings &settings) {
  return onnx::tripletMarginLoss(BuilderCore::of(builder), anchor, positive, negative, settings);
}

TensorId ctcLoss(Builder &builder, const TensorId &logProbabilities, const TensorId &targets,
                 const TensorId &inputLengths, const TensorId &targetLengths, const CtcSettings &settings) {
  return onnx::ctcLoss(BuilderCore::of(builder), logProbabilities, targets, inputLengths, targetLengths, settings);
}

std::vector<std::string> lossNames() {
  std::vector<std::string> names;
  for (const onnx::LossName &loss : onnx::namedLosses()) names.push_back(loss.name);
  return names;
}

AttachedLoss attachLoss(Builder &builder, const std::string &loss, const TensorId &output) {
  return onnx::attachLoss(BuilderCore::of(builder), loss, output);
}

}  // namespace popart
