// UpdateRule: an optimizer as plain values: the form of each weight's update and the scalars it reads. Optimizer
// classes make it (Optimizer::updateRules), the pass that adds the update ops reads it. Formulas:
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

// Decay: w is shrunk by lr wd w; L2Regularization: wd w is added to the gradient.
enum class WeightDecayMode { Decay = 0, L2Regularization };

// Whether SGD's accumulated gradients and velocity share one tensor (Combined, Accl___) or not (Separate, Accum___,
// Accl1___).
enum class SGDAccumulatorAndMomentum { Combined = 0, Separate };

// x^ by mode: Adam and Lamb correct the moments' bias, …NoBias do not, AdaMax: v' = max(b2 v, |g|). Lamb scales lr by
// the ratio of the norms of w and x. Source: Kingma & Ba 2015; You et al. 2020 (Lamb).
enum class AdamMode { Adam = 0, AdamNoBias, AdaMax, Lamb, LambNoBias };
// The mode divides the moments by 1 - beta^t.
constexpr bool correctsBias(AdamMode m) { return m != AdamMode::AdamNoBias && m != AdamMode::LambNoBias; }
// The mode scales the rate by the ratio of norms.
constexpr bool isLamb(AdamMode m) { return m == AdamMode::Lamb || m == AdamMode::LambNoBias; }

// State per weight: one second moment; CenteredRMSProp and AdaDelta one more, momentum another. Sources: Duchi et al.
// 2011 (AdaGrad), Hinton 2012 (RMSProp), Graves 2013 (centered), Zeiler 2012 (AdaDelta).
enum class AdaptiveMode { AdaGrad = 0, RMSProp, CenteredRMSProp, AdaDelta };

// The optimizers of popart::optim, by the names of torch.optim, and Lamb of You et al. 2020.
enum class PyTorchMode { SGD = 0, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Lamb };

// Accumulation and replication, as far as optimizers depend on them.
struct OptimizerFactors {
  // Of gradients: the sum; the mean, divided at each step of it or once at the end.
  enum class Reduction { Sum, MeanRunning, MeanPost };
  bool accumulates = false;              // gradient accumulation is enabled (also with factor 1)
  int64_t accumulationFactor = 1;        // micro-batches per update
  int64_t replicationFactor = 1;         // global
  Reduction reduction = Reduction::Sum;  // over micro-batches and replicas
  bool operator==(const OptimizerFactors &) const = default;
};

// One number that update ops read, made of hyper-parameters and factors: "scaledLearningRate0" = lr (1 - dm) / ls …
struct OptimizerScalar {
  std::string name;       // prefix of the tensor id
  OptimizerValue value;   // constant when every hyper-parameter in it is
  TensorId specific;      // the weight, or the group, that has values of its own; empty: shared by all weights
  bool unscales = false;  // divides by the loss scale: gradients, which have it, are multiplied by this number
  // "scaledLearningRate0___default___FLOAT" or "scaledLearningRate0___specific___<weight>"
  TensorId id() const;
};

// `scalar`, which divides by the loss scale.
inline OptimizerScalar unscaling(OptimizerScalar scalar) {
  scalar.unscales = true;
  return scalar;
}

// The forms of an update. Whether there is decay, momentum or a velocity is decided at compile time: a hyper-parameter
// that is constant and zero needs none. State types: UNDEFINED stands for the weight's type.
// Of SGD.
struct SgdRule {
  SGDAccumulatorAndMomentum accumulatorAndMomentum;  // see above
  bool hasVelocity, usesNesterov;                    // the second only with the first
  DataType accl1Type;                                // of a separate velocity
};
// Of Adam and its relatives.
struct AdamRule {
  AdamMode mode;                  // see above
  WeightDecayMode decayMode;      // where decay goes
  bool hasWeightDecay;            // there is some
  bool scaledState;               // the states keep the loss scale
  DataType accl1Type, accl2Type;  // of the first and the second moment
};
// Of the adaptive optimizers.
struct AdaptiveRule {
  AdaptiveMode mode;                 // see above
  WeightDecayMode decayMode;         // where decay goes
  bool hasWeightDecay, hasMomentum;  // there is some
  bool tfVariant;                    // the second moment starts at 1, momentum holds scaled steps
  DataType accl1Type, accl3Type;     // of the second moment and of momentum
};
// Of popart::optim. State is FLOAT, of DOUBLE weights DOUBLE. Clipping scales the finished gradient, before decay.
struct PyTorchRule {
  PyTorchMode mode;                                // see above
  bool hasWeightDecay, hasMomentum, hasDampening;  // there is some
  bool nesterov, centered, amsgrad;                // of SGD; of RMSprop; of Adam and AdamW
  bool hasRateDecay, hasNormLimit;                 // of Adagrad; of Lamb
  float initialAccumulator;                        // first value of Adagrad's sum of squares
  float clipValue;                                 // gradients are clamped to [-clipValue, clipValue]; infinity: not
};

// How one weight is updated.
struct UpdateRule {
  std::variant<SgdRule, AdamRule, AdaptiveRule, PyTorchRule> form;  // what the update computes
  DataType accumType = DataType::UNDEFINED;  // of accumulated gradients; UNDEFINED: the weight's type
  std::vector<OptimizerScalar> scalars;      // all that the update reads
  // Throws popart::internal_error for a name that is not among them.
  const OptimizerScalar &scalar(std::string_view name) const;
};

// How all weights are updated.
struct UpdateRules {
  OptimizerFactors factors;                            // that went into the scalars
  OptimizerValue lossScaling;                          // the value the loss's gradient starts with
  std::vector<ClipNormSettings> clipping;              // groups of gradients scaled by their joint norm
  UpdateRule common;                                   // of weights without values of their own
  std::map<TensorId, UpdateRule> specific;             // of the others
  const UpdateRule &of(const TensorId &weight) const;  // the weight's own, else the common one
};

}  // namespace popart
