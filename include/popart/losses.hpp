// Losses by name, on any tensor of a model: functions that add nodes to a Builder and return the id of the loss.
//
//   auto builder = popart::Builder::createFromOnnxModel("resnet18.onnx");
//   const auto labels = builder->addInputTensor("INT32", {16});
//   const auto loss = popart::crossEntropyLoss(*builder, "logits", labels);
//
// Formulas, arguments and reductions are those of torch.nn.functional. The nodes are of the operator set of the model,
// 7 or newer, and of ai.graphcore. Operands of 16 bits become FLOAT, so that the loss is FLOAT; DOUBLE stays. The loss
// of a session must be a scalar: a reduction other than NoReduction. All throw popart::error for unknown tensors,
// operands that do not fit, and operator sets older than 7 (docs/decisions/0081-losses-and-operator-sets.md).
#pragma once
#include <string>
#include <vector>

#include <popart/datatype.hpp>
#include <popart/names.hpp>
#include <popart/op/loss.hpp>

namespace popart {

class Builder;

// How the losses of elements or samples are reduced. NoReduction: not reduced.
struct LossSettings {
  ReductionType reduction = ReductionType::Mean;  // of elements or samples
  std::string name = {};                          // debug name of the nodes
};

// Of crossEntropyLoss.
struct CrossEntropySettings : LossSettings {
  TensorId weight = {};         // float, one for each class; empty: ones
  int64_t ignoreIndex = -100;   // class of rows without loss, which Mean does not count
  float labelSmoothing = 0.0f;  // in [0, 1]: share of the labels that is distributed over all classes
};

// Cross entropy of the softmax of `logits` (N, C, d…) or (C). Labels are classes (integers) with the shape of the
// logits without the class dimension, or probabilities (floats) with the shape of the logits.
TensorId crossEntropyLoss(Builder &builder, const TensorId &logits, const TensorId &labels,
                          const CrossEntropySettings &settings = {});

// Of negativeLogLikelihoodLoss.
struct NegativeLogLikelihoodSettings : LossSettings {
  TensorId weight = {};        // as in CrossEntropySettings
  int64_t ignoreIndex = -100;  // as in CrossEntropySettings
};

// The negative log probability (N, C, d…) of the class in the label (N, d…).
TensorId negativeLogLikelihoodLoss(Builder &builder, const TensorId &logProbabilities, const TensorId &labels,
                                   const NegativeLogLikelihoodSettings &settings = {});

// Of binaryCrossEntropyLoss.
struct BinaryCrossEntropySettings : LossSettings {
  TensorId weight = {};     // factor of each element's loss; broadcast
  TensorId posWeight = {};  // factor of the positive part; broadcast
};

// Cross entropy of the sigmoid of `logits` and labels in [0, 1] of the same shape, floats or integers.
TensorId binaryCrossEntropyLoss(Builder &builder, const TensorId &logits, const TensorId &labels,
                                const BinaryCrossEntropySettings &settings = {});

// (input - target)² and |input - target| of the elements.
TensorId meanSquaredErrorLoss(Builder &builder, const TensorId &input, const TensorId &target,
                              const LossSettings &settings = {});
TensorId meanAbsoluteErrorLoss(Builder &builder, const TensorId &input, const TensorId &target,
                               const LossSettings &settings = {});

// Of huberLoss.
struct HuberSettings : LossSettings {
  float delta = 1.0f;  // positive: the difference up to which the loss is quadratic
};

// d² / 2 of a difference up to delta, delta (|d| - delta / 2) above.
TensorId huberLoss(Builder &builder, const TensorId &input, const TensorId &target, const HuberSettings &settings = {});

// Of smoothL1Loss.
struct SmoothL1Settings : LossSettings {
  float beta = 1.0f;  // at least 0; 0 gives the absolute error
};

// The Huber loss with delta = beta, divided by beta.
TensorId smoothL1Loss(Builder &builder, const TensorId &input, const TensorId &target,
                      const SmoothL1Settings &settings = {});

// The form of a divergence's target.
enum class TargetForm { Probabilities, LogProbabilities };
// The form of the input of a loss of log probabilities; the loss first computes the log softmax of logits.
enum class InputForm { LogProbabilities, Logits };
// Whether the sum is divided by the size of dimension 0, for any reduction.
enum class BatchMean { No, Yes };

// Of klDivergenceLoss.
struct KlDivergenceSettings : LossSettings {
  InputForm input = InputForm::LogProbabilities;  // Logits: classes are dimension 1, or 0 for a vector
  TargetForm target = TargetForm::Probabilities;  // as PyTorch's log_target
  BatchMean batchMean = BatchMean::No;            // as PyTorch's "batchmean"
};

// target (log(target) - input) of the elements.
TensorId klDivergenceLoss(Builder &builder, const TensorId &input, const TensorId &target,
                          const KlDivergenceSettings &settings = {});

// Of hingeLoss and hingeEmbeddingLoss.
struct MarginSettings : LossSettings {
  float margin = 1.0f;  // the distance without loss
};

// max(0, margin - label * input), labels -1 or 1 of the shape of the input.
TensorId hingeLoss(Builder &builder, const TensorId &input, const TensorId &labels,
                   const MarginSettings &settings = {});
// The input if the label is 1, max(0, margin - input) if it is -1.
TensorId hingeEmbeddingLoss(Builder &builder, const TensorId &input, const TensorId &labels,
                            const MarginSettings &settings = {});

// Of cosineEmbeddingLoss.
struct CosineEmbeddingSettings : LossSettings {
  float margin = 0.0f;  // the cosine up to which rows of label -1 have no loss
};

// For rows (N, D) or (D): 1 - cos if the label (N) or () is 1, max(0, cos - margin) if it is -1.
TensorId cosineEmbeddingLoss(Builder &builder, const TensorId &first, const TensorId &second, const TensorId &labels,
                             const CosineEmbeddingSettings &settings = {});

// Whether the distance of negative and positive is used if it is the smaller one.
enum class SwapDistances { No, Yes };

// Of tripletMarginLoss.
struct TripletMarginSettings : LossSettings {
  float margin = 1.0f;                     // least additional distance of the negative
  float p = 2.0f;                          // the norm of the distance, positive
  float eps = 1e-6f;                       // added to each difference
  SwapDistances swap = SwapDistances::No;  // as PyTorch's swap
};

// max(0, d(anchor, positive) - d(anchor, negative) + margin) of rows (N, D) or (D).
TensorId tripletMarginLoss(Builder &builder, const TensorId &anchor, const TensorId &positive, const TensorId &negative,
                           const TripletMarginSettings &settings = {});

// Of ctcLoss.
struct CtcSettings : LossSettings {
  InputForm input = InputForm::LogProbabilities;  // Logits: their log softmax over dimension 2
  int64_t blank = 0;                              // class number of the blank
  bool zeroInfinity = false;                      // the loss of impossible samples is 0
};

// Connectionist temporal classification: log probabilities (T, N, C), targets (N, S), and for each sample the length of
// its input and of its target (N).
TensorId ctcLoss(Builder &builder, const TensorId &logProbabilities, const TensorId &targets,
                 const TensorId &inputLengths, const TensorId &targetLengths, const CtcSettings &settings = {});

// ---- by name

// An input that a loss by name adds. Sizes that the model leaves open are -1.
struct LossInput {
  TensorId id;                 // name of the input
  DataType type;               // INT32 or a float type
  std::vector<int64_t> shape;  // -1: open
};

// The result of attachLoss.
struct AttachedLoss {
  TensorId loss;                  // a scalar
  TensorId output;                // the tensor from which the loss is computed
  std::vector<LossInput> inputs;  // in the order of the loss's function
};

// Names for attachLoss: "cross_entropy", "mse" …; docs/guides/losses.md lists them with alternative spellings.
std::vector<std::string> lossNames();

// Adds the inputs that a loss needs, then the loss, with its default settings. `output`: empty for the model's only
// output, or its first one of a float type. Labels are named "labels"; classes are INT32. Throws popart::error for an
// unknown name (with the nearest), a model without float output, and an output whose shape is not known.
AttachedLoss attachLoss(Builder &builder, const std::string &loss, const TensorId &output = {});

}  // namespace popart
