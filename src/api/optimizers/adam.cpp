// Adam family: constructors, checks and scalars.
#include <popart/adam.hpp>

#include <popart/error.hpp>

namespace popart {
namespace {

const std::vector<std::string> kAdamKeys = {"defaultLearningRate",  "defaultWeightDecay", "defaultBeta1",
                                            "defaultBeta2",         "defaultEps",         "lossScaling",
                                            "defaultMaxWeightNorm", "maxWeightNorm"};
const std::vector<std::string> kAdamSpecificKeys = {"learningRate", "weightDecay", "beta1",
                                                    "beta2",        "eps",         "maxWeightNorm"};

}  // namespace

Adam::Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
           OptimizerValue eps, OptimizerValue lossScaling, OptimizerValue maxWeightNorm, AdamMode mode,
           WeightDecayMode decayMode, DataType accumType, DataType accl1Type, DataType accl2Type,
           const std::vector<ClipNormSettings> &clip, bool scaledOptimizerState, const DebugContext &)
    : Optimizer(lossScaling, clip),
      lrs_(learningRate),
      wds_(weightDecay),
      b1s_(beta1),
      b2s_(beta2),
      epss_(eps),
      maxNorms_(maxWeightNorm),
      mode_(mode),
      decayMode_(decayMode),
      accumType_(accumType),
      accl1Type_(accl1Type),
      accl2Type_(accl2Type),
      scaledOptimizerState_(scaledOptimizerState) {
  checkLearningRate(learningRate);
  checkNonNegative("weight decay", weightDecay);
  checkNonNegative("beta1", beta1);
  checkNonNegative("beta2", beta2);
  checkPositive("eps", eps);
}

Adam::Adam(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue beta1, OptimizerValue beta2,
           OptimizerValue eps, OptimizerValue lossScaling, AdamMode mode, WeightDecayMode decayMode, DataType accumType,
           DataType accl1Type, DataType accl2Type, const std::vector<ClipNormSettings> &clip, bool scaledOptimizerState,
           const DebugContext &)
    : Adam(learningRate, weightDecay, beta1, beta2, eps, lossScaling, getUnsetMaxWeightNorm(), mode, decayMode,
           accumType, accl1Type, accl2Type, clip, scaledOptimizerState) {}

Adam::Adam(const std::map<std::string, std::pair<float, bool>> &pairs, AdamMode mode, WeightDecayMode decayMode,
           DataType accumType, DataType accl1Type, DataType accl2Type, const std::vector<ClipNormSettings> &clip,
           bool scaledOptimizerState, const DebugContext &)
    : Adam(take(asValues(pairs), "defaultLearningRate", getUnsetLearningRate()),
           take(asValues(pairs), "defaultWeightDecay", getUnsetWeightDecay()),
           take(asValues(pairs), "defaultBeta1", getUnsetBeta1()),
           take(asValues(pairs), "defaultBeta2", getUnsetBeta2()), take(asValues(pairs), "defaultEps", getUnsetEps()),
           take(asValues(pairs), "lossScaling", getUnsetLossScaling()),
           take(asValues(pairs), "defaultMaxWeightNorm",
                take(asValues(pairs), "maxWeightNorm", getUnsetMaxWeightNorm())),
           mode, decayMode, accumType, accl1Type, accl2Type, clip, scaledOptimizerState) {
  checkKeys("Adam", asValues(pairs), kAdamKeys);
}

Adam Adam::fromDefaultMap(const std::map<std::string, OptimizerValue> &values, AdamMode mode, WeightDecayMode decayMode,
                          DataType accumType, DataType accl1Type, DataType accl2Type) {
  std::map<std::string, std::pair<float, bool>> pairs;
  for (const auto &[key, value] : values) pairs[key] = {value.val(), value.isConst()};
  return Adam(pairs, mode, decayMode, accumType, accl1Type, accl2Type, {}, true);
}

void Adam::insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                          OptimizerValue beta1, OptimizerValue beta2, OptimizerValue eps,
                          OptimizerValue maxWeightNorm) {
  checkLearningRate(learningRate);
  checkNonNegative("weight decay", weightDecay);
  checkNonNegative("beta1", beta1);
  checkNonNegative("beta2", beta2);
  checkPositive("eps", eps);
  lrs_.insertSpecific(weight, learningRate);
  wds_.insertSpecific(weight, weightDecay);
  b1s_.insertSpecific(weight, beta1);
  b2s_.insertSpecific(weight, beta2);
  epss_.insertSpecific(weight, eps);
  maxNorms_.insertSpecific(weight, maxWeightNorm);
}

void Adam::insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &pairs) {
  const auto values = asValues(pairs);
  checkKeys("Adam::insertSpecific '" + weight + "'", values, kAdamSpecificKeys);
  insertSpecific(weight, take(values, "learningRate", lrs_.getDefault()),
                 take(values, "weightDecay", wds_.getDefault()), take(values, "beta1", b1s_.getDefault()),
                 take(values, "beta2", b2s_.getDefault()), take(values, "eps", epss_.getDefault()),
                 take(values, "maxWeightNorm", maxNorms_.getDefault()));
}

bool Adam::hasWeightDecay(const TensorId &weight) const {
  const OptimizerValue wd = wds_.get(weight);
  return !wd.isConst() || wd.val() != 0.0f;
}

UpdateRule Adam::updateForm(const TensorId &weight) const {
  return {AdamRule{mode_, decayMode_, hasWeightDecay(weight), scaledOptimizerState_, accl1Type_, accl2Type_},
          accumType_,
          {}};
}

std::string Adam::replacementProblem(const Optimizer &other) const {
  if (std::string p = Optimizer::replacementProblem(other); !p.empty()) return p;
  const Adam &o = static_cast<const Adam &>(other);
  if (mode_ != o.mode_) return "Adam modes differ";
  if (decayMode_ != o.decayMode_) return "weight decay modes differ";
  if (scaledOptimizerState_ != o.scaledOptimizerState_) return "scaled optimizer state differs";
  if (accumType_ != o.accumType_ || accl1Type_ != o.accl1Type_ || accl2Type_ != o.accl2Type_)
    return "accumulator types differ";
  for (const std::string &p :
       {mapProblem("learning rates", lrs_, o.lrs_), mapProblem("weight decays", wds_, o.wds_),
        mapProblem("beta1s", b1s_, o.b1s_), mapProblem("beta2s", b2s_, o.b2s_), mapProblem("epss", epss_, o.epss_),
        mapProblem("maximum weight norms", maxNorms_, o.maxNorms_)})
    if (!p.empty()) return p;
  return {};
}

std::vector<std::string> Adam::scalarNames(const TensorId &weight) const {
  std::vector<std::string> names = {"learningRate", "adamBeta1", "adamBeta2", "adamEps", "gradientScale"};
  if (hasWeightDecay(weight)) names.push_back("weightDecay");
  if (isLamb()) names.push_back("maxWeightNorm");
  if (scaledOptimizerState_ && !lossScaling().isConst()) names.push_back("adamLossScaling");
  return names;
}

OptimizerScalar Adam::scalar(const std::string &name, const TensorId &weight) const {
  const OptimizerValue ls = lossScaling();
  const float kept = scaledOptimizerState_ ? ls.val() : 1.0f;  // state keeps the loss scale
  const bool keptConst = !scaledOptimizerState_ || ls.isConst();
  if (name == "adamLossScaling") return make(name, weight, ls.val(), ls.isConst());
  if (name == "learningRate") return make(name, weight, lrs_.get(weight).val(), lrs_.get(weight).isConst());
  if (name == "adamBeta1") return make(name, weight, b1s_.get(weight).val(), b1s_.get(weight).isConst());
  if (name == "adamBeta2") return make(name, weight, b2s_.get(weight).val(), b2s_.get(weight).isConst());
  if (name == "adamEps") {
    const float eps = epss_.get(weight).val();
    check(eps * kept > 0, "Adam: eps times lossScaling of {} is 0 in FLOAT: got {} and {}. Make one of them larger",
          weight.empty() ? "all weights" : weight, eps, kept);
    return make(name, weight, eps * kept, epss_.get(weight).isConst() && keptConst);
  }
  if (name == "gradientScale")
    return unscaling(make(name, weight, kept / gradientDivisor(), scaledOptimizerState_ || ls.isConst()));
  if (name == "weightDecay") {
    const bool scaled = decayMode_ == WeightDecayMode::L2Regularization;
    return make(name, weight, wds_.get(weight).val() * (scaled ? kept : 1.0f),
                wds_.get(weight).isConst() && (!scaled || keptConst));
  }
  if (name == "maxWeightNorm") return make(name, weight, maxNorms_.get(weight).val(), maxNorms_.get(weight).isConst());
  throw internal_error("Adam '{}': no scalar of this name: got '{}'.", weight, name);
}

size_t Adam::hash() const {
  size_t seed = Optimizer::hash();
  for (const OptimizerValueMap *map : {&lrs_, &wds_, &b1s_, &b2s_, &epss_, &maxNorms_})
    seed = seed * 31u + std::hash<OptimizerValueMap>()(*map);
  for (int v : {static_cast<int>(mode_), static_cast<int>(decayMode_), static_cast<int>(accumType_),
                static_cast<int>(accl1Type_), static_cast<int>(accl2Type_), static_cast<int>(scaledOptimizerState_)})
    seed = seed * 31u + static_cast<size_t>(v);
  return seed;
}

}  // namespace popart
