// SGD: stochastic gradient descent with momentum, dampening, velocity scaling, weight decay and Nesterov momentum.
//   v' = mm v + (1 - dm) (g/ls + wd w),  w' = w - lr v'    (nominal rule; nesterov: w' = w - lr (g/ls + wd w + mm v'))
#pragma once
#include <popart/optimizer.hpp>

namespace popart {

// Hyper-parameters of SGD; state types of UNDEFINED mean the weight's type.
class SGD : public Optimizer {
 public:
  // Throws popart::error: lr < 0, constant lr = 0, wd < 0, momentum < 0, dampening < 0, velocity scaling <= 0, loss
  // scaling 0, Nesterov with dampening. The debug context has no effect.
  SGD(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue momentum, OptimizerValue dampening,
      OptimizerValue velocityScaling, OptimizerValue lossScaling, const std::vector<ClipNormSettings> &clip = {},
      SGDAccumulatorAndMomentum sgdAccMm = SGDAccumulatorAndMomentum::Combined,
      DataType accumType = DataType::UNDEFINED, DataType accl1Type = DataType::UNDEFINED, const DebugContext & = {});
  SGD(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue momentum, OptimizerValue dampening,
      OptimizerValue velocityScaling, OptimizerValue lossScaling, OptimizerValue nesterov,
      const std::vector<ClipNormSettings> &clip = {},
      SGDAccumulatorAndMomentum sgdAccMm = SGDAccumulatorAndMomentum::Combined,
      DataType accumType = DataType::UNDEFINED, DataType accl1Type = DataType::UNDEFINED, const DebugContext & = {});
  // Keys: defaultLearningRate, defaultWeightDecay, defaultMomentum, defaultDampening, defaultVelocityScaling, nesterov,
  // lossScaling.
  SGD(const std::map<std::string, std::pair<float, bool>> &values, const std::vector<ClipNormSettings> &clip = {},
      SGDAccumulatorAndMomentum sgdAccMm = SGDAccumulatorAndMomentum::Combined,
      DataType accumType = DataType::UNDEFINED, DataType accl1Type = DataType::UNDEFINED, const DebugContext & = {});
  SGD() : SGD(std::map<std::string, std::pair<float, bool>>{}) {}
  static SGD fromDefaultMap(const std::map<std::string, OptimizerValue> &values);

  static OptimizerValue getUnsetLearningRate() { return {0.1f, true}; }
  static OptimizerValue getUnsetWeightDecay() { return {0.0f, true}; }
  static OptimizerValue getUnsetMomentum() { return {0.0f, true}; }
  static OptimizerValue getUnsetDampening() { return {0.0f, true}; }
  static OptimizerValue getUnsetVelocityScaling() { return {1.0f, true}; }
  static OptimizerValue getUnsetNesterov() { return {0.0f, true}; }
  static OptimizerValue getUnsetLossScaling() { return {1.0f, true}; }

  OptimizerType type() const override { return OptimizerType::SGD; }
  std::string type_s() const override { return "SGD"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<SGD>(*this); }
  std::string replacementProblem(const Optimizer &other) const override;
  std::vector<std::string> scalarNames(const TensorId &weight) const override;
  OptimizerScalar scalar(const std::string &name, const TensorId &weight) const override;
  size_t hash() const override;

  // Values of one weight. Throws popart::error in the cases of the constructor, and if the weight already has values.
  void insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                      OptimizerValue momentum, OptimizerValue dampening, OptimizerValue velocityScaling,
                      OptimizerValue nesterov);
  // Keys: learningRate, weightDecay, momentum, dampening, velocityScaling, nesterov; absent ones have the optimizer's
  // defaults.
  void insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &values);

  const OptimizerValueMap &learningRates() const override { return lrs_; }
  const OptimizerValueMap &weightDecays() const { return wds_; }
  const OptimizerValueMap &momentums() const { return mms_; }
  const OptimizerValueMap &dampenings() const { return dps_; }
  const OptimizerValueMap &velocityScalings() const { return vss_; }
  const OptimizerValueMap &nesterov() const { return nesterovs_; }
  SGDAccumulatorAndMomentum getSGDAccumulatorAndMomentum() const { return accumulatorAndMomentum_; }
  DataType getAccumType() const { return accumType_; }
  DataType getAccl1Type() const { return accl1Type_; }

  // Whether the weight has a velocity: its momentum is not a constant zero.
  bool hasVelocity(const TensorId &weight) const;
  bool usesNesterov(const TensorId &weight) const;

 private:
  UpdateRule updateForm(const TensorId &weight) const override;
  void checkAll() const;
  OptimizerValueMap lrs_, wds_, mms_, dps_, vss_, nesterovs_;
  SGDAccumulatorAndMomentum accumulatorAndMomentum_;
  DataType accumType_, accl1Type_;
};

// SGD with constant values and no momentum.
class ConstSGD : public SGD {
 public:
  // Throws popart::error in the cases of SGD, and for a learning rate of 0.
  ConstSGD(float learningRate, float weightDecay = 0.0f, float lossScaling = 1.0f,
           const std::vector<ClipNormSettings> &clip = {});
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<ConstSGD>(*this); }
};

}  // namespace popart
