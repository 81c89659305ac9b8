// The plain values of optimizers: lookup in UpdateRules; comparison, hashing and checks of OptimizerValue,
// OptimizerValueMap and ClipNormSettings. Invariant: hashes agree with validReplacement: a non-constant value
// contributes only whether it is constant.
#include <popart/clipnormsettings.hpp>
#include <popart/error.hpp>
#include <popart/optimizervaluemap.hpp>
#include <popart/updaterule.hpp>

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"

namespace popart {

TensorId OptimizerScalar::id() const {
  return specific.empty() ? name + "___default___FLOAT" : name + "___specific___" + specific;
}

const OptimizerScalar &UpdateRule::scalar(std::string_view name) const {
  for (const OptimizerScalar &s : scalars)
    if (s.name == name) return s;
  throw internal_error("UpdateRule: no scalar of this name: got '{}'.", name);
}

const UpdateRule &UpdateRules::of(const TensorId &weight) const {
  const auto it = specific.find(weight);
  return it == specific.end() ? common : it->second;
}

bool OptimizerValue::validReplacement(const OptimizerValue &other) const {
  return isConst_ == other.isConst_ && (!isConst_ || value_ == other.value_);
}

OptimizerValue OptimizerValueMap::get(const TensorId &weight) const {
  const auto it = specifics_.find(weight);
  return it == specifics_.end() ? default_ : it->second;
}

void OptimizerValueMap::insertSpecific(const TensorId &weight, OptimizerValue value) {
  check(!hasSpecific(weight), "Optimizer '{}': the weight has specific values already. Set them once", weight);
  specifics_.emplace(weight, value);
}

bool OptimizerValueMap::validReplacement(const OptimizerValueMap &other) const {
  if (!default_.validReplacement(other.default_) || specifics_.size() != other.specifics_.size()) return false;
  return std::equal(specifics_.begin(), specifics_.end(), other.specifics_.begin(), [](const auto &a, const auto &b) {
    return a.first == b.first && a.second.validReplacement(b.second);
  });
}

ClipNormSettings ClipNormSettings::clipAllWeights(float maximum) {
  ClipNormSettings settings({}, maximum);
  settings.mode_ = Mode::ClipAllWeights;
  return settings;
}

const std::vector<TensorId> &ClipNormSettings::getWeightIds() const {
  check(mode_ == Mode::ClipSpecifiedWeights,
        "ClipNormSettings: all weights are clipped: there is no list of weight ids");
  return weightIds;
}

bool ClipNormSettings::operator==(const ClipNormSettings &other) const {
  const float tolerance = 1e-6f * std::max(std::fabs(maxNorm), std::fabs(other.maxNorm));
  return mode_ == other.mode_ && weightIds == other.weightIds && std::fabs(maxNorm - other.maxNorm) <= tolerance;
}

}  // namespace popart

namespace std {

size_t hash<popart::OptimizerValue>::operator()(const popart::OptimizerValue &value) const {
  return value.isConst() ? hash<float>()(value.val()) : 0x51ed270b0f3f5a1dull;
}

size_t hash<popart::OptimizerValueMap>::operator()(const popart::OptimizerValueMap &map) const {
  size_t seed = hash<popart::OptimizerValue>()(map.getDefault());
  for (const auto &[weight, value] : map.getSpecifics())
    seed = popart::combineHashes(popart::combineHashes(seed, hash<string>()(weight)),
                                 hash<popart::OptimizerValue>()(value));
  return seed;
}

size_t hash<popart::ClipNormSettings>::operator()(const popart::ClipNormSettings &settings) const {
  size_t seed = static_cast<size_t>(settings.getMode());
  for (const auto &id : settings.weightIds) seed = popart::combineHashes(seed, hash<string>()(id));
  return seed;
}

}  // namespace std
