// Optimizer: hyper-parameters of a weight update, their checks, and the scalars from which an update is computed.
// transforms/add_optimizer adds the update ops to the graph; it reads updateRules(). Formulas, state and names:
// docs/compat/optimizers.md.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/clipnormsettings.hpp>
#include <popart/datatype.hpp>
#include <popart/debugcontext.hpp>
#include <popart/names.hpp>
#include <popart/optimizervalue.hpp>
#include <popart/optimizervaluemap.hpp>
#include <popart/updaterule.hpp>

namespace popart {

class SessionOptions;

// The classes SGD, Adam and Adaptive, and those of popart::optim.
enum class OptimizerType { SGD = 0, Adam, Adaptive, PyTorch, NTYPES };

// Values of all hyper-parameters, default and per weight. A session copies it (clone).
class Optimizer {
 public:
  // Throws popart::error: loss scaling 0, a maximum norm <= 0, clipAllWeights together with other groups.
  Optimizer(OptimizerValue lossScaling, std::vector<ClipNormSettings> clipNormSettings);
  virtual ~Optimizer() = default;

  virtual OptimizerType type() const = 0;                // of the class
  virtual std::string type_s() const = 0;                // "SGD", "Adam", "Adaptive" or "optim::…"
  virtual std::unique_ptr<Optimizer> clone() const = 0;  // a full copy, factors included
  // Whether `other` may replace this optimizer without a new compilation; otherwise replacementProblem() has the
  // reason.
  virtual bool validReplacement(const Optimizer &other) const { return replacementProblem(other).empty(); }
  // Empty if valid.
  virtual std::string replacementProblem(const Optimizer &other) const;
  // Names of the scalars that updates of a weight read.
  virtual std::vector<std::string> scalarNames(const TensorId &weight) const = 0;
  // Throws popart::internal_error for an unknown name.
  virtual OptimizerScalar scalar(const std::string &name, const TensorId &weight) const = 0;
  virtual const OptimizerValueMap &learningRates() const = 0;
  // Whether the weight, or any weight, has its own values.
  bool hasSpecific(const TensorId &weight) const { return learningRates().hasSpecific(weight); }
  bool hasSpecific() const { return learningRates().hasSpecific(); }
  // Whether the learning rate of the weight is a constant 0, so that the weight is frozen.
  virtual bool neverChanges(const TensorId &weight) const;
  // Matches the patterns of parameter groups with `weights`, the names of the floating-point variables of a model.
  // Sessions call it on their copy. Throws popart::error for a pattern that matches none, and for a weight in two
  // groups. No effect on optimizers without such groups.
  virtual void resolveGroups(const std::vector<TensorId> &weights);
  // The rules of this optimizer with these factors, as plain values for passes.
  UpdateRules updateRules(const OptimizerFactors &factors) const;
  virtual size_t hash() const;

  OptimizerValue lossScaling() const { return lossScaling_; }
  void setLossScaling(OptimizerValue value) { lossScaling_ = value; }
  float getLossScalingVal() const { return lossScaling_.val(); }
  // The initial value of the loss's gradient.
  float getFinalLossScalingVal() const { return lossScaling_.val(); }
  const std::vector<ClipNormSettings> &getClipNormSettings() const { return clipNormSettings_; }

  void setFactors(const OptimizerFactors &factors) { factors_ = factors, factorsSet_ = true; }
  // Throws popart::error for accumulationFactor > 1 without gradient accumulation and for reduction type NoReduction.
  void setFactorsFromOptions(const SessionOptions &options);
  // The getters below throw popart::error unless the factors are set.
  const OptimizerFactors &factors() const;
  bool gradientAccumulationEnabled() const { return factors().accumulates; }
  bool meanReductionEnabled() const { return factors().reduction != OptimizerFactors::Reduction::Sum; }
  bool postMeanAccumulationEnabled() const { return factors().reduction == OptimizerFactors::Reduction::MeanPost; }
  bool postMeanReplicationEnabled() const { return factors().reduction == OptimizerFactors::Reduction::MeanPost; }
  int64_t getReplicatedGraphCount() const { return factors().replicationFactor; }
  int64_t getAccumulationFactor() const { return factors().accumulationFactor; }

 protected:
  // Throws popart::error ("... invalid weight decay") for values outside their range; see the checks of each optimizer.
  static void checkNonNegative(const std::string &what, const OptimizerValue &value);
  static void checkPositive(const std::string &what, const OptimizerValue &value);
  static void checkLearningRate(const OptimizerValue &value);
  // Throws popart::error that names the allowed keys if `given` has another one.
  static void checkKeys(const std::string &where, const std::map<std::string, OptimizerValue> &given,
                        const std::vector<std::string> &allowed);
  static std::map<std::string, OptimizerValue> asValues(const std::map<std::string, std::pair<float, bool>> &pairs);
  static OptimizerValue take(const std::map<std::string, OptimizerValue> &given, const std::string &key,
                             OptimizerValue fallback);
  // "" or "<what> ..." if the maps differ in constness, constant values or specific weights.
  static std::string mapProblem(const std::string &what, const OptimizerValueMap &a, const OptimizerValueMap &b);
  OptimizerScalar make(const std::string &name, const TensorId &weight, float value, bool isConst) const;
  // The form of a weight's update and the type of its accumulated gradient; updateRules() adds the scalars.
  virtual UpdateRule updateForm(const TensorId &weight) const = 0;
  // Divisor that unscales a finished gradient: loss scale times the factors of mean reduction with the Post strategy.
  float gradientDivisor() const;

 private:
  OptimizerValue lossScaling_;
  std::vector<ClipNormSettings> clipNormSettings_;
  OptimizerFactors factors_;
  bool factorsSet_ = false;
};

}  // namespace popart

// Compares the optimizers, not the pointers; for a value that is not constant, only this fact counts. 0 for null.
template <>
struct std::hash<popart::Optimizer *> {
  std::size_t operator()(const popart::Optimizer *optimizer) const { return optimizer ? optimizer->hash() : 0; }
};
