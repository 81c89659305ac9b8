// Adaptive optimizers: constructors, checks and scalars.
#include <popart/adaptive.hpp>

#include <popart/error.hpp>

namespace popart {
namespace {

const std::vector<std::string> kAdaptiveKeys = {"defaultLearningRate", "defaultWeightDecay", "defaultAlpha",
                                                "defaultMomentum",     "defaultEps",         "lossScaling"};
const std::vector<std::string> kAdaptiveSpecificKeys = {"learningRate", "weightDecay", "alpha", "momentum", "eps"};

}  // namespace

Adaptive::Adaptive(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue alpha,
                   OptimizerValue momentum, OptimizerValue eps, OptimizerValue lossScaling, AdaptiveMode mode,
                   WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
                   DataType accl3Type, bool rmspropTFVariant, const DebugContext &)
    : Optimizer(lossScaling, {}),
      lrs_(learningRate),
      wds_(weightDecay),
      as_(alpha),
      ms_(momentum),
      epss_(eps),
      mode_(mode),
      decayMode_(decayMode),
      accumType_(accumType),
      accl1Type_(accl1Type),
      accl2Type_(accl2Type),
      accl3Type_(accl3Type),
      tfVariant_(rmspropTFVariant) {
  checkLearningRate(learningRate);
  checkNonNegative("weight decay", weightDecay);
  checkNonNegative("alpha", alpha);
  checkNonNegative("momentum", momentum);
  checkPositive("eps", eps);
  check(!rmspropTFVariant || mode == AdaptiveMode::RMSProp || mode == AdaptiveMode::CenteredRMSProp,
        "Adaptive: rmsprop_tf_variant is defined for the modes RMSProp and CenteredRMSProp only");
}

Adaptive::Adaptive(const std::map<std::string, std::pair<float, bool>> &pairs, AdaptiveMode mode,
                   WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
                   DataType accl3Type, bool rmspropTFVariant, const DebugContext &)
    : Adaptive(take(asValues(pairs), "defaultLearningRate", getUnsetLearningRate()),
               take(asValues(pairs), "defaultWeightDecay", getUnsetWeightDecay()),
               take(asValues(pairs), "defaultAlpha", getUnsetAlpha()),
               take(asValues(pairs), "defaultMomentum", getUnsetMomentum()),
               take(asValues(pairs), "defaultEps", getUnsetEps()),
               take(asValues(pairs), "lossScaling", getUnsetLossScaling()), mode, decayMode, accumType, accl1Type,
               accl2Type, accl3Type, rmspropTFVariant) {
  checkKeys("Adaptive", asValues(pairs), kAdaptiveKeys);
}

Adaptive Adaptive::fromDefaultMap(const std::map<std::string, OptimizerValue> &values, AdaptiveMode mode,
                                  WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
                                  DataType accl3Type) {
  std::map<std::string, std::pair<float, bool>> pairs;
  for (const auto &[key, value] : values) pairs[key] = {value.val(), value.isConst()};
  return Adaptive(pairs, mode, decayMode, accumType, accl1Type, accl2Type, accl3Type);
}

void Adaptive::insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                              OptimizerValue alpha, OptimizerValue momentum, OptimizerValue eps) {
  checkLearningRate(learningRate);
  checkNonNegative("weight decay", weightDecay);
  checkNonNegative("alpha", alpha);
  checkNonNegative("momentum", momentum);
  checkPositive("eps", eps);
  lrs_.insertSpecific(weight, learningRate);
  wds_.insertSpecific(weight, weightDecay);
  as_.insertSpecific(weight, alpha);
  ms_.insertSpecific(weight, momentum);
  epss_.insertSpecific(weight, eps);
}

void Adaptive::insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &pairs) {
  const auto values = asValues(pairs);
  checkKeys("Adaptive::insertSpecific '" + weight + "'", values, kAdaptiveSpecificKeys);
  insertSpecific(weight, take(values, "learningRate", lrs_.getDefault()),
                 take(values, "weightDecay", wds_.getDefault()), take(values, "alpha", as_.getDefault()),
                 take(values, "momentum", ms_.getDefault()), take(values, "eps", epss_.getDefault()));
}

bool Adaptive::hasMomentum(const TensorId &weight) const {
  const OptimizerValue m = ms_.get(weight);
  return !m.isConst() || m.val() > 0.0f;
}

bool Adaptive::hasWeightDecay(const TensorId &weight) const {
  const OptimizerValue wd = wds_.get(weight);
  return !wd.isConst() || wd.val() != 0.0f;
}

UpdateRule Adaptive::updateForm(const TensorId &weight) const {
  return {
      AdaptiveRule{mode_, decayMode_, hasWeightDecay(weight), hasMomentum(weight), tfVariant_, accl1Type_, accl3Type_},
      accumType_,
      {}};
}

std::string Adaptive::replacementProblem(const Optimizer &other) const {
  if (std::string p = Optimizer::replacementProblem(other); !p.empty()) return p;
  const Adaptive &o = static_cast<const Adaptive &>(other);
  if (mode_ != o.mode_) return "Adaptive modes differ";
  if (decayMode_ != o.decayMode_) return "weight decay modes differ";
  if (tfVariant_ != o.tfVariant_) return "RMSProp variants differ";
  if (accumType_ != o.accumType_ || accl1Type_ != o.accl1Type_ || accl2Type_ != o.accl2Type_ ||
      accl3Type_ != o.accl3Type_)
    return "accumulator types differ";
  for (const std::string &p :
       {mapProblem("learning rates", lrs_, o.lrs_), mapProblem("weight decays", wds_, o.wds_),
        mapProblem("alphas", as_, o.as_), mapProblem("momentums", ms_, o.ms_), mapProblem("epss", epss_, o.epss_)})
    if (!p.empty()) return p;
  return {};
}

std::vector<std::string> Adaptive::scalarNames(const TensorId &weight) const {
  std::vector<std::string> names = {"learningRate", "alpha", "eps", "gradientScale"};
  if (hasWeightDecay(weight)) names.push_back("weightDecay");
  if (hasMomentum(weight)) names.push_back("momentum");
  return names;
}

OptimizerScalar Adaptive::scalar(const std::string &name, const TensorId &weight) const {
  auto plain = [&](const OptimizerValueMap &map) {
    return make(name, weight, map.get(weight).val(), map.get(weight).isConst());
  };
  if (name == "learningRate") return plain(lrs_);
  if (name == "alpha") return plain(as_);
  if (name == "eps") return plain(epss_);
  if (name == "weightDecay") return plain(wds_);
  if (name == "momentum") return plain(ms_);
  if (name == "gradientScale") return unscaling(make(name, weight, 1.0f / gradientDivisor(), lossScaling().isConst()));
  throw internal_error("Adaptive '{}': no scalar of this name: got '{}'.", weight, name);
}

size_t Adaptive::hash() const {
  size_t seed = Optimizer::hash();
  for (const OptimizerValueMap *map : {&lrs_, &wds_, &as_, &ms_, &epss_})
    seed = seed * 31u + std::hash<OptimizerValueMap>()(*map);
  for (int v : {static_cast<int>(mode_), static_cast<int>(decayMode_), static_cast<int>(tfVariant_),
                static_cast<int>(accumType_), static_cast<int>(accl1Type_), static_cast<int>(accl2Type_),
                static_cast<int>(accl3Type_)})
    seed = seed * 31u + static_cast<size_t>(v);
  return seed;
}

}  // namespace popart
