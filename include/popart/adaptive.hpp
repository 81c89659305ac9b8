// Adaptive: AdaGrad, RMSProp, CenteredRMSProp and AdaDelta.
#pragma once
#include <popart/optimizer.hpp>

namespace popart {

// Hyper-parameters and state types of the adaptive optimizers; UNDEFINED means the weight's type.
class Adaptive : public Optimizer {
 public:
  // Throws popart::error: lr < 0, constant lr = 0, wd < 0, alpha < 0, momentum < 0, eps <= 0, loss scaling 0, TF
  // variant with a mode other than RMSProp and CenteredRMSProp. The debug context has no effect.
  Adaptive(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue alpha, OptimizerValue momentum,
           OptimizerValue eps, OptimizerValue lossScaling, AdaptiveMode mode, WeightDecayMode decayMode,
           DataType accumType, DataType accl1Type, DataType accl2Type, DataType accl3Type,
           bool rmspropTFVariant = false, const DebugContext & = {});
  // Keys: defaultLearningRate, defaultWeightDecay, defaultAlpha, defaultMomentum, defaultEps, lossScaling.
  Adaptive(const std::map<std::string, std::pair<float, bool>> &values, AdaptiveMode mode, WeightDecayMode decayMode,
           DataType accumType, DataType accl1Type, DataType accl2Type, DataType accl3Type,
           bool rmspropTFVariant = false, const DebugContext & = {});
  static Adaptive fromDefaultMap(const std::map<std::string, OptimizerValue> &values, AdaptiveMode mode,
                                 WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
                                 DataType accl3Type);

  static OptimizerValue getUnsetLearningRate() { return {0.01f, true}; }
  static OptimizerValue getUnsetWeightDecay() { return {0.0f, true}; }
  static OptimizerValue getUnsetAlpha() { return {0.99f, true}; }
  static OptimizerValue getUnsetMomentum() { return {0.0f, true}; }
  static OptimizerValue getUnsetEps() { return {1e-6f, true}; }
  static OptimizerValue getUnsetLossScaling() { return {1.0f, true}; }

  OptimizerType type() const override { return OptimizerType::Adaptive; }
  std::string type_s() const override { return "Adaptive"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Adaptive>(*this); }
  std::string replacementProblem(const Optimizer &other) const override;
  std::vector<std::string> scalarNames(const TensorId &weight) const override;
  OptimizerScalar scalar(const std::string &name, const TensorId &weight) const override;
  size_t hash() const override;

  // Values of one weight. Throws popart::error in the cases of the constructor, and if the weight already has values.
  void insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                      OptimizerValue alpha, OptimizerValue momentum, OptimizerValue eps);
  // Keys: learningRate, weightDecay, alpha, momentum, eps.
  void insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &values);

  const OptimizerValueMap &learningRates() const override { return lrs_; }
  const OptimizerValueMap &weightDecays() const { return wds_; }
  const OptimizerValueMap &alphas() const { return as_; }
  const OptimizerValueMap &momentums() const { return ms_; }
  const OptimizerValueMap &epss() const { return epss_; }
  AdaptiveMode getMode() const { return mode_; }
  WeightDecayMode getWeightDecayMode() const { return decayMode_; }
  DataType getAccumType() const { return accumType_; }
  DataType getAccl1Type() const { return accl1Type_; }
  DataType getAccl2Type() const { return accl2Type_; }
  DataType getAccl3Type() const { return accl3Type_; }
  bool isTFVariant() const { return tfVariant_; }
  bool hasMomentum(const TensorId &weight) const;     // not constant, or not zero; the same for decay
  bool hasWeightDecay(const TensorId &weight) const;  // as above

 private:
  UpdateRule updateForm(const TensorId &weight) const override;
  OptimizerValueMap lrs_, wds_, as_, ms_, epss_;
  AdaptiveMode mode_;
  WeightDecayMode decayMode_;
  DataType accumType_, accl1Type_, accl2Type_, accl3Type_;
  bool tfVariant_;
};

}  // namespace popart
