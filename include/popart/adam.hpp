// Adam and its relatives: Adam, AdamNoBias, AdaMax, Lamb, LambNoBias.
//   m' = b1 m + (1-b1) g,  v' = b2 v + (1-b2) g^2,  x = m^/(sqrt(v^) + eps) (+ wd w),  w' = w - lr (ratio) x
#pragma once
#include <popart/optimizer.hpp>

namespace popart {

// Hyper-parameters and state types of Adam and its relatives; UNDEFINED means the weight's type.
class Adam : public Optimizer {
 public:
  // Throws popart::error: lr < 0, constant lr = 0, wd < 0, beta < 0, eps <= 0, loss scaling 0. The debug context has no
  // effect.
  Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
       OptimizerValue eps, OptimizerValue lossScaling, OptimizerValue maxWeightNorm, AdamMode mode,
       WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
       const std::vector<ClipNormSettings> &clip = {}, bool scaledOptimizerState = false, const DebugContext & = {});
  Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
       OptimizerValue eps, OptimizerValue lossScaling, AdamMode mode, WeightDecayMode decayMode, DataType accumType,
       DataType accl1Type, DataType accl2Type, const std::vector<ClipNormSettings> &clip = {},
       bool scaledOptimizerState = false, const DebugContext & = {});
  // The same two with WeightDecayMode::Decay.
  Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
       OptimizerValue eps, OptimizerValue lossScaling, OptimizerValue maxWeightNorm, AdamMode mode, DataType accumType,
       DataType accl1Type, DataType accl2Type, const std::vector<ClipNormSettings> &clip = {},
       bool scaledOptimizerState = false, const DebugContext & = {})
      : Adam(learningRate, weightDecay, beta1, beta2, eps, lossScaling, maxWeightNorm, mode, WeightDecayMode::Decay,
             accumType, accl1Type, accl2Type, clip, scaledOptimizerState) {}
  Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
       OptimizerValue eps, OptimizerValue lossScaling, AdamMode mode, DataType accumType, DataType accl1Type,
       DataType accl2Type, const std::vector<ClipNormSettings> &clip = {}, bool scaledOptimizerState = false,
       const DebugContext & = {})
      : Adam(learningRate, weightDecay, beta1, beta2, eps, lossScaling, mode, WeightDecayMode::Decay, accumType,
             accl1Type, accl2Type, clip, scaledOptimizerState) {}
  // Keys: defaultLearningRate, defaultWeightDecay, defaultBeta1, defaultBeta2, defaultEps, lossScaling,
  // defaultMaxWeightNorm (maxWeightNorm: deprecated spelling).
  Adam(const std::map<std::string, std::pair<float, bool>> &values, AdamMode mode, WeightDecayMode decayMode,
       DataType accumType, DataType accl1Type, DataType accl2Type, const std::vector<ClipNormSettings> &clip = {},
       bool scaledOptimizerState = false, const DebugContext & = {});
  // compat: sets scaledOptimizerState, as upstream does.
  static Adam fromDefaultMap(const std::map<std::string, OptimizerValue> &values, AdamMode mode,
                             WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type);

  static OptimizerValue getUnsetLearningRate() { return {0.1f, true}; }
  static OptimizerValue getUnsetWeightDecay() { return {0.0f, true}; }
  static OptimizerValue getUnsetBeta1() { return {0.9f, true}; }
  static OptimizerValue getUnsetBeta2() { return {0.999f, true}; }
  static OptimizerValue getUnsetEps() { return {1e-6f, true}; }
  static OptimizerValue getUnsetLossScaling() { return {1.0f, true}; }
  static OptimizerValue getUnsetMaxWeightNorm() { return {10.0f, true}; }

  OptimizerType type() const override { return OptimizerType::Adam; }
  std::string type_s() const override { return "Adam"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Adam>(*this); }
  std::string replacementProblem(const Optimizer &other) const override;
  std::vector<std::string> scalarNames(const TensorId &weight) const override;
  OptimizerScalar scalar(const std::string &name, const TensorId &weight) const override;
  size_t hash() const override;

  // Values of one weight. Throws popart::error in the cases of the constructor, and if the weight already has values.
  void insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                      OptimizerValue beta1, OptimizerValue beta2, OptimizerValue eps, OptimizerValue maxWeightNorm);
  // Keys: learningRate, weightDecay, beta1, beta2, eps, maxWeightNorm.
  void insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &values);

  const OptimizerValueMap &learningRates() const override { return lrs_; }
  const OptimizerValueMap &weightDecays() const { return wds_; }
  const OptimizerValueMap &beta1s() const { return b1s_; }
  const OptimizerValueMap &beta2s() const { return b2s_; }
  const OptimizerValueMap &epss() const { return epss_; }
  const OptimizerValueMap &maxWeightNorms() const { return maxNorms_; }
  AdamMode getMode() const { return mode_; }
  WeightDecayMode getWeightDecayMode() const { return decayMode_; }
  DataType getAccumType() const { return accumType_; }
  DataType getAccl1Type() const { return accl1Type_; }
  DataType getAccl2Type() const { return accl2Type_; }
  bool useScaledOptimizerState() const { return scaledOptimizerState_; }
  bool usesBiasCorrection() const { return correctsBias(mode_); }
  bool isLamb() const { return popart::isLamb(mode_); }
  // Whether decay is applied: it is not constant, or not zero.
  bool hasWeightDecay(const TensorId &weight) const;

 private:
  UpdateRule updateForm(const TensorId &weight) const override;
  OptimizerValueMap lrs_, wds_, b1s_, b2s_, epss_, maxNorms_;
  AdamMode mode_;
  WeightDecayMode decayMode_;
  DataType accumType_, accl1Type_, accl2Type_;
  bool scaledOptimizerState_;
};

}  // namespace popart
