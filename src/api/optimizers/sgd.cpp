// SGD: constructors, checks and the compound scalars of its three forms.
//   SGD0 (no velocity)   w' = w wdsf0 - slr0 g
//   SGD1 (Combined)      v += dpsf1 g;  w -= slr1 v;  v = smm1 v + swd1 w
//   SGD2 (Separate)      v = smm2 v + swd1 w;  v += dpsf2 g;  w -= slr2 v
#include <popart/sgd.hpp>

#include <popart/error.hpp>

namespace popart {
namespace {

using Reduction = OptimizerFactors::Reduction;

const std::vector<std::string> kSgdKeys = {"defaultLearningRate", "defaultWeightDecay",     "defaultMomentum",
                                           "defaultDampening",    "defaultVelocityScaling", "nesterov",
                                           "lossScaling"};
const std::vector<std::string> kSgdSpecificKeys = {"learningRate", "weightDecay",     "momentum",
                                                   "dampening",    "velocityScaling", "nesterov"};

}  // namespace

SGD::SGD(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue momentum, OptimizerValue dampening,
         OptimizerValue velocityScaling, OptimizerValue lossScaling, OptimizerValue nesterov,
         const std::vector<ClipNormSettings> &clip, SGDAccumulatorAndMomentum sgdAccMm, DataType accumType,
         DataType accl1Type, const DebugContext &)
    : Optimizer(lossScaling, clip),
      lrs_(learningRate),
      wds_(weightDecay),
      mms_(momentum),
      dps_(dampening),
      vss_(velocityScaling),
      nesterovs_(nesterov),
      accumulatorAndMomentum_(sgdAccMm),
      accumType_(accumType),
      accl1Type_(accl1Type) {
  checkAll();
}

SGD::SGD(OptimizerValue learningRate, OptimizerValue weightDecay, OptimizerValue momentum, OptimizerValue dampening,
         OptimizerValue velocityScaling, OptimizerValue lossScaling, const std::vector<ClipNormSettings> &clip,
         SGDAccumulatorAndMomentum sgdAccMm, DataType accumType, DataType accl1Type, const DebugContext &)
    : SGD(learningRate, weightDecay, momentum, dampening, velocityScaling, lossScaling, getUnsetNesterov(), clip,
          sgdAccMm, accumType, accl1Type) {}

SGD::SGD(const std::map<std::string, std::pair<float, bool>> &pairs, const std::vector<ClipNormSettings> &clip,
         SGDAccumulatorAndMomentum sgdAccMm, DataType accumType, DataType accl1Type, const DebugContext &)
    : SGD(take(asValues(pairs), "defaultLearningRate", getUnsetLearningRate()),
          take(asValues(pairs), "defaultWeightDecay", getUnsetWeightDecay()),
          take(asValues(pairs), "defaultMomentum", getUnsetMomentum()),
          take(asValues(pairs), "defaultDampening", getUnsetDampening()),
          take(asValues(pairs), "defaultVelocityScaling", getUnsetVelocityScaling()),
          take(asValues(pairs), "lossScaling", getUnsetLossScaling()),
          take(asValues(pairs), "nesterov", getUnsetNesterov()), clip, sgdAccMm, accumType, accl1Type) {
  checkKeys("SGD", asValues(pairs), kSgdKeys);
}

SGD SGD::fromDefaultMap(const std::map<std::string, OptimizerValue> &values) {
  std::map<std::string, std::pair<float, bool>> pairs;
  for (const auto &[key, value] : values) pairs[key] = {value.val(), value.isConst()};
  return SGD(pairs);
}

ConstSGD::ConstSGD(float learningRate, float weightDecay, float lossScaling, const std::vector<ClipNormSettings> &clip)
    : SGD({learningRate, true}, {weightDecay, true}, getUnsetMomentum(), getUnsetDampening(), getUnsetVelocityScaling(),
          {lossScaling, true}, clip) {}

void SGD::checkAll() const {
  auto all = [](const OptimizerValueMap &map, auto &&checkOne) {
    checkOne(map.getDefault());
    for (const auto &entry : map.getSpecifics()) checkOne(entry.second);
  };
  all(lrs_, [](const OptimizerValue &v) { checkLearningRate(v); });
  all(wds_, [](const OptimizerValue &v) { checkNonNegative("weight decay", v); });
  all(mms_, [](const OptimizerValue &v) { checkNonNegative("momentum", v); });
  all(dps_, [](const OptimizerValue &v) { checkNonNegative("dampening", v); });
  all(vss_, [](const OptimizerValue &v) { checkPositive("velocity scaling", v); });
  auto checkNesterov = [](const OptimizerValue &nesterov, const OptimizerValue &dampening) {
    check(nesterov.val() == 0.0f || dampening.val() == 0.0f,
          "SGD: Nesterov momentum cannot be combined with dampening: got dampening {}, expected 0", dampening.val());
  };
  checkNesterov(nesterovs_.getDefault(), dps_.getDefault());
  for (const auto &entry : nesterovs_.getSpecifics()) checkNesterov(entry.second, dps_.get(entry.first));
}

void SGD::insertSpecific(const TensorId &weight, OptimizerValue learningRate, OptimizerValue weightDecay,
                         OptimizerValue momentum, OptimizerValue dampening, OptimizerValue velocityScaling,
                         OptimizerValue nesterov) {
  SGD changed(*this);
  changed.lrs_.insertSpecific(weight, learningRate);
  changed.wds_.insertSpecific(weight, weightDecay);
  changed.mms_.insertSpecific(weight, momentum);
  changed.dps_.insertSpecific(weight, dampening);
  changed.vss_.insertSpecific(weight, velocityScaling);
  changed.nesterovs_.insertSpecific(weight, nesterov);
  changed.checkAll();
  *this = changed;
}

void SGD::insertSpecific(const TensorId &weight, const std::map<std::string, std::pair<float, bool>> &pairs) {
  const auto values = asValues(pairs);
  checkKeys("SGD::insertSpecific '" + weight + "'", values, kSgdSpecificKeys);
  insertSpecific(weight, take(values, "learningRate", lrs_.getDefault()),
                 take(values, "weightDecay", wds_.getDefault()), take(values, "momentum", mms_.getDefault()),
                 take(values, "dampening", dps_.getDefault()), take(values, "velocityScaling", vss_.getDefault()),
                 take(values, "nesterov", nesterovs_.getDefault()));
}

bool SGD::hasVelocity(const TensorId &weight) const {
  const OptimizerValue mm = mms_.get(weight);
  return !mm.isConst() || mm.val() != 0.0f;
}

bool SGD::usesNesterov(const TensorId &weight) const {
  const OptimizerValue n = nesterovs_.get(weight);
  return hasVelocity(weight) && (!n.isConst() || n.val() != 0.0f);
}

UpdateRule SGD::updateForm(const TensorId &weight) const {
  return {SgdRule{accumulatorAndMomentum_, hasVelocity(weight), usesNesterov(weight), accl1Type_}, accumType_, {}};
}

std::string SGD::replacementProblem(const Optimizer &other) const {
  if (std::string p = Optimizer::replacementProblem(other); !p.empty()) return p;
  const SGD &o = static_cast<const SGD &>(other);
  for (const std::string &p : {mapProblem("learning rates", lrs_, o.lrs_), mapProblem("weight decays", wds_, o.wds_),
                               mapProblem("momentums", mms_, o.mms_), mapProblem("velocity scalings", vss_, o.vss_),
                               mapProblem("nesterov", nesterovs_, o.nesterovs_)})
    if (!p.empty()) return p;
  bool velocity = hasVelocity("");
  for (const auto &entry : mms_.getSpecifics()) velocity |= hasVelocity(entry.first);
  if (!velocity) return {};
  if (accumulatorAndMomentum_ != o.accumulatorAndMomentum_) return "accumulator and momentum strategies differ";
  if (accumType_ != o.accumType_ || accl1Type_ != o.accl1Type_) return "accumulator types differ";
  return {};
}

std::vector<std::string> SGD::scalarNames(const TensorId &weight) const {
  if (!hasVelocity(weight)) return {"scaledLearningRate0", "weightDecayScaleFactor0"};
  std::vector<std::string> names;
  if (accumulatorAndMomentum_ == SGDAccumulatorAndMomentum::Combined)
    names = {"dampeningScaleFactor1", "scaledLearningRate1", "scaledMomentum1", "scaledWeightDecay1"};
  else
    names = {"dampeningScaleFactor2", "scaledLearningRate2", "scaledMomentum2", "scaledWeightDecay1"};
  if (usesNesterov(weight))
    names.insert(names.end(), {"nesterovGradScaleFactor", "nesterovUnscale", "weightDecay", "momentum"});
  return names;
}

OptimizerScalar SGD::scalar(const std::string &name, const TensorId &weight) const {
  const OptimizerValue lr = lrs_.get(weight), wd = wds_.get(weight), mm = mms_.get(weight), dm = dps_.get(weight),
                       vs = vss_.get(weight);
  const OptimizerValue ls = lossScaling();
  const OptimizerFactors &f = factors();
  const float rf = static_cast<float>(f.replicationFactor), af = static_cast<float>(f.accumulationFactor);
  const bool mean = f.reduction != Reduction::Sum;
  const float r = f.accumulates ? rf : 1.0f;
  const bool combined = accumulatorAndMomentum_ == SGDAccumulatorAndMomentum::Combined;
  if (name == "scaledLearningRate0")
    return unscaling(make(name, weight, lr.val() * (1 - dm.val()) / gradientDivisor(),
                          lr.isConst() && dm.isConst() && ls.isConst()));
  if (name == "weightDecayScaleFactor0")
    return make(name, weight, 1 - lr.val() * (1 - dm.val()) * wd.val(), lr.isConst() && dm.isConst() && wd.isConst());
  if (name == "scaledWeightDecay1")
    return make(name, weight, (1 - dm.val()) * wd.val() * vs.val(), dm.isConst() && wd.isConst() && vs.isConst());
  if (name == "dampeningScaleFactor1") {
    const float scale = f.accumulates ? (mean ? 1.0f : rf) : (mean ? 1.0f / rf : 1.0f);
    return unscaling(make(name, weight, (1 - dm.val()) * vs.val() * scale / (ls.val() * (mean ? af : 1.0f)),
                          dm.isConst() && vs.isConst() && ls.isConst()));
  }
  if (name == "scaledLearningRate1") return make(name, weight, lr.val() / (vs.val() * r), lr.isConst() && vs.isConst());
  if (name == "scaledMomentum1") return make(name, weight, mm.val() / r, mm.isConst());
  if (name == "scaledMomentum2") return make(name, weight, mm.val(), mm.isConst());
  if (name == "scaledLearningRate2") return make(name, weight, lr.val() / vs.val(), lr.isConst() && vs.isConst());
  if (name == "dampeningScaleFactor2")
    return unscaling(make(name, weight, (1 - dm.val()) * vs.val() / gradientDivisor(),
                          dm.isConst() && vs.isConst() && ls.isConst()));
  if (name == "nesterovGradScaleFactor") return make(name, weight, vs.val() * (combined ? r : 1.0f), vs.isConst());
  if (name == "nesterovUnscale") {
    const float divisor = combined ? ls.val() * (mean ? af * rf : 1.0f) : gradientDivisor();
    return unscaling(make(name, weight, 1.0f / divisor, ls.isConst()));
  }
  if (name == "weightDecay") return make(name, weight, wd.val(), wd.isConst());
  if (name == "momentum") return make(name, weight, mm.val(), mm.isConst());
  throw internal_error("SGD '{}': no scalar of this name: got '{}'.", weight, name);
}

size_t SGD::hash() const {
  size_t seed = Optimizer::hash();
  for (const OptimizerValueMap *map : {&lrs_, &wds_, &mms_, &dps_, &vss_, &nesterovs_})
    seed = seed * 31u + std::hash<OptimizerValueMap>()(*map);
  return seed * 31u + static_cast<size_t>(accumulatorAndMomentum_) * 7u + static_cast<size_t>(accumType_) * 3u +
         static_cast<size_t>(accl1Type_);
}

}  // namespace popart
