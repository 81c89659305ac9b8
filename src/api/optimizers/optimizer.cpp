// Optimizer: the parts that all optimizers share: checks of values and keys, replacement rules, loss scale and factors.
#include <popart/optimizer.hpp>

#include <algorithm>

#include <popart/error.hpp>
#include <popart/sessionoptions.hpp>

#include "pipeline/options.hpp"

namespace popart {

Optimizer::Optimizer(OptimizerValue lossScaling, std::vector<ClipNormSettings> clipNormSettings)
    : lossScaling_(lossScaling), clipNormSettings_(std::move(clipNormSettings)) {
  check(lossScaling.val() != 0.0f, "Optimizer: invalid loss scaling: got 0, expected a value other than 0");
  for (const auto &settings : clipNormSettings_) {
    check(settings.getMode() != ClipNormSettings::Mode::ClipAllWeights || clipNormSettings_.size() == 1,
          "Optimizer: a clip-all group cannot be combined with other clip groups: got {} groups. Use clipWeights for "
          "each group",
          clipNormSettings_.size());
    check(settings.getMaxNorm() > 0.0f,
          "Optimizer: invalid maximum norm for clipping: got {}, expected a value above 0", settings.getMaxNorm());
  }
}

std::string Optimizer::replacementProblem(const Optimizer &other) const {
  if (type() != other.type()) return "optimizer types differ: " + type_s() + " and " + other.type_s();
  if (!lossScaling_.validReplacement(other.lossScaling_)) return "loss scalings differ in constness or constant value";
  if (clipNormSettings_ != other.clipNormSettings_) return "clip norm settings differ";
  return {};
}

size_t Optimizer::hash() const {
  size_t seed = static_cast<size_t>(type()) * 1000003u + std::hash<OptimizerValue>()(lossScaling_);
  for (const auto &clip : clipNormSettings_) seed = seed * 31u + std::hash<ClipNormSettings>()(clip);
  return seed;
}

void Optimizer::setFactorsFromOptions(const SessionOptions &options) {
  setFactors(pipeline::optimizerFactors(options));
}

const OptimizerFactors &Optimizer::factors() const {
  check(factorsSet_,
        "Optimizer: accumulation and replication factors are not known yet. Call setFactorsFromOptions first");
  return factors_;
}

void Optimizer::checkNonNegative(const std::string &what, const OptimizerValue &value) {
  check(value.val() >= 0.0f, "Optimizer: invalid {}: got {}, expected a value of at least 0", what, value.val());
}

void Optimizer::checkPositive(const std::string &what, const OptimizerValue &value) {
  check(value.val() > 0.0f, "Optimizer: invalid {}: got {}, expected a value above 0", what, value.val());
}

void Optimizer::checkLearningRate(const OptimizerValue &value) { checkNonNegative("learning rate", value); }

bool Optimizer::neverChanges(const TensorId &weight) const {
  const OptimizerValue rate = learningRates().get(weight);
  return rate.isConst() && rate.val() == 0.0f;
}

void Optimizer::checkKeys(const std::string &where, const std::map<std::string, OptimizerValue> &given,
                          const std::vector<std::string> &allowed) {
  for (const auto &entry : given)
    check(std::find(allowed.begin(), allowed.end(), entry.first) != allowed.end(),
          "{}: unknown key: got '{}', expected one of {}", where, entry.first, allowed);
}

std::map<std::string, OptimizerValue> Optimizer::asValues(const std::map<std::string, std::pair<float, bool>> &pairs) {
  return {pairs.begin(), pairs.end()};
}

void Optimizer::resolveGroups(const std::vector<TensorId> &) {}

OptimizerValue Optimizer::take(const std::map<std::string, OptimizerValue> &given, const std::string &key,
                               OptimizerValue fallback) {
  const auto it = given.find(key);
  return it == given.end() ? fallback : it->second;
}

std::string Optimizer::mapProblem(const std::string &what, const OptimizerValueMap &a, const OptimizerValueMap &b) {
  return a.validReplacement(b) ? std::string() : what + " differ in constness, constant value or specific weights";
}

OptimizerScalar Optimizer::make(const std::string &name, const TensorId &weight, float value, bool isConst) const {
  return {name, OptimizerValue(value, isConst), hasSpecific(weight) ? weight : TensorId()};
}

UpdateRules Optimizer::updateRules(const OptimizerFactors &factors) const {
  const std::unique_ptr<Optimizer> scaled = clone();
  scaled->setFactors(factors);
  auto rule = [&](const TensorId &weight) {
    UpdateRule result = scaled->updateForm(weight);
    for (const std::string &name : scaled->scalarNames(weight)) result.scalars.push_back(scaled->scalar(name, weight));
    return result;
  };
  UpdateRules rules{factors, lossScaling_, clipNormSettings_, rule({}), {}};
  for (const auto &[weight, value] : learningRates().getSpecifics()) rules.specific.emplace(weight, rule(weight));
  return rules;
}

float Optimizer::gradientDivisor() const {
  const OptimizerFactors &f = factors();
  const bool post = f.reduction == OptimizerFactors::Reduction::MeanPost;
  return getLossScalingVal() * (post ? static_cast<float>(f.accumulationFactor * f.replicationFactor) : 1.0f);
}

}  // namespace popart
