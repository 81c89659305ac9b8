// UpdateRule: an optimizer as plain values: the form of each weight's update and the scalars it reads. Optimizer
// classes create it (Optimizer::updateRules), and the pass that adds the update ops reads it. Formulas:
// docs/compat/optimizers.md.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <popart/clipnormsettings.hpp>
#include <popart/datatype.hpp>
#include <popart/names.hpp>
#include <popart/optimizervalue.hpp>

namespace popart {

// Decay: lr wd w is subtracted from w; L2Regularization: wd w is added to the gradient.
enum class WeightDecayMode { Decay = 0, L2Regularization };

// Whether SGD's accumulated gradients and velocity share one tensor (Combined, Accl___) or not (Separate, Accum___,
// Accl1___).
enum class SGDAccumulatorAndMomentum { Combined = 0, Separate };

// x^ by mode: Adam and Lamb correct the moments' bias, …NoBias do not, AdaMax: v' = max(b2 v, |g|). Lamb scales lr by
// the ratio of the norms of w and x. Source: Kingma & Ba 2015; You et al. 2020 (Lamb).
enum class AdamMode { Adam = 0, AdamNoBias, AdaMax, Lamb, LambNoBias };
// Whether the mode divides the moments by 1 - beta^t.
constexpr bool correctsBias(AdamMode m) { return m != AdamMode::AdamNoBias && m != AdamMode::LambNoBias; }
// Whether the mode scales the rate by the ratio of norms.
constexpr bool isLamb(AdamMode m) { return m == AdamMode::Lamb || m == AdamMode::LambNoBias; }

// State per weight: one second moment; CenteredRMSProp and AdaDelta have one more state, and so does momentum. Sources:
// Duchi et al. 2011 (AdaGrad), Hinton 2012 (RMSProp), Graves 2013 (centered), Zeiler 2012 (AdaDelta).
enum class AdaptiveMode { AdaGrad = 0, RMSProp, CenteredRMSProp, AdaDelta };

// The optimizers of popart::optim, by the names of torch.optim, and Lamb of You et al. 2020.
enum class PyTorchMode { SGD = 0, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Lamb };

// Facts about accumulation and replication on which optimizers depend.
struct OptimizerFactors {
  // Of gradients: the sum; the mean, divided at each step or once at the end.
  enum class Reduction { Sum, MeanRunning, MeanPost };
  bool accumulates = false;              // gradient accumulation is enabled (also with factor 1)
  int64_t accumulationFactor = 1;        // micro-batches per update
  int64_t replicationFactor = 1;         // over all processes
  Reduction reduction = Reduction::Sum;  // over micro-batches and replicas
  bool operator==(const OptimizerFactors &) const = default;
};

// One number that update ops read, computed from hyper-parameters and factors: "scaledLearningRate0" = lr (1 - dm) / ls
// …
struct OptimizerScalar {
  std::string name;       // prefix of the tensor id
  OptimizerValue value;   // constant if all its hyper-parameters are
  TensorId specific;      // the weight, or the group, that has its own values; empty: shared by all weights
  bool unscales = false;  // divides by the loss scale: multiplies gradients, which are scaled
  // "scaledLearningRate0___default___FLOAT" or "scaledLearningRate0___specific___<weight>"
  TensorId id() const;
};

// Returns `scalar`, marked as dividing by the loss scale.
inline OptimizerScalar unscaling(OptimizerScalar scalar) {
  scalar.unscales = true;
  return scalar;
}

// The forms of an update. Whether there is decay, momentum or a velocity is determined at compile time: a constant
// hyper-parameter of zero needs none. State types of UNDEFINED mean the weight's type.
// For SGD.
struct SgdRule {
  SGDAccumulatorAndMomentum accumulatorAndMomentum;  // see above
  bool hasVelocity, usesNesterov;                    // usesNesterov only with hasVelocity
  DataType accl1Type;                                // of a separate velocity
};
// For Adam and its relatives.
struct AdamRule {
  AdamMode mode;                  // see above
  WeightDecayMode decayMode;      // where decay is applied
  bool hasWeightDecay;            // whether decay is applied
  bool scaledState;               // the states include the loss scale
  DataType accl1Type, accl2Type;  // of the first and the second moment
};
// For the adaptive optimizers.
struct AdaptiveRule {
  AdaptiveMode mode;                 // see above
  WeightDecayMode decayMode;         // where decay is applied
  bool hasWeightDecay, hasMomentum;  // whether they are used
  bool tfVariant;                    // the second moment starts at 1, momentum accumulates scaled steps
  DataType accl1Type, accl3Type;     // of the second moment and of momentum
};
// For popart::optim. State is FLOAT; for DOUBLE weights, DOUBLE. Clipping scales the finished gradient, before decay.
struct PyTorchRule {
  PyTorchMode mode;                                // see above
  bool hasWeightDecay, hasMomentum, hasDampening;  // whether they are used
  bool nesterov, centered, amsgrad;                // nesterov of SGD; centered of RMSprop; amsgrad of Adam and AdamW
  bool hasRateDecay, hasNormLimit;                 // hasRateDecay of Adagrad; hasNormLimit of Lamb
  float initialAccumulator;                        // initial value of Adagrad's sum of squares
  float clipValue;  // gradients are clamped to [-clipValue, clipValue]; infinity: no clamp
};

// How one weight is updated.
struct UpdateRule {
  std::variant<SgdRule, AdamRule, AdaptiveRule, PyTorchRule> form;  // what the update computes
  DataType accumType = DataType::UNDEFINED;  // of accumulated gradients; UNDEFINED: the weight's type
  std::vector<OptimizerScalar> scalars;      // all scalars that the update reads
  // Throws popart::internal_error for an unknown name.
  const OptimizerScalar &scalar(std::string_view name) const;
};

// How all weights are updated.
struct UpdateRules {
  OptimizerFactors factors;                            // the factors from which the scalars were computed
  OptimizerValue lossScaling;                          // the initial value of the loss's gradient
  std::vector<ClipNormSettings> clipping;              // groups of gradients scaled by their joint norm
  UpdateRule common;                                   // for weights without their own values
  std::map<TensorId, UpdateRule> specific;             // for the others
  const UpdateRule &of(const TensorId &weight) const;  // the weight's own rule, else the common one
};

}  // namespace popart
