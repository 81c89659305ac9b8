// Optimizers with PyTorch's names (see optim.hpp): their arguments, ranges, groups and scalars.
#include <popart/optim.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include <popart/error.hpp>

#include "base/hash.hpp"
#include "base/nearest.hpp"

namespace popart::optim {
namespace {

struct Row {
  const char *name;
  std::vector<std::string> values;  // its arguments, except "lr" and "weight_decay"
};

const Row &rowOf(PyTorchMode mode) {
  static const std::vector<Row> rows = {
      {"SGD", {"momentum", "dampening"}},
      {"Adam", {"beta1", "beta2", "eps"}},
      {"AdamW", {"beta1", "beta2", "eps"}},
      {"RMSprop", {"alpha", "eps", "momentum"}},
      {"Adagrad", {"lr_decay", "initial_accumulator_value", "eps"}},
      {"Adadelta", {"rho", "eps"}},
      {"Adamax", {"beta1", "beta2", "eps"}},
      {"Lamb", {"beta1", "beta2", "eps", "max_weight_norm"}},
  };
  return rows.at(static_cast<size_t>(mode));
}

std::vector<std::string> valueNames(PyTorchMode mode) {
  std::vector<std::string> names = {"lr", "weight_decay"};
  const Row &row = rowOf(mode);
  names.insert(names.end(), row.values.begin(), row.values.end());
  return names;
}

// Checks the range of a number, as torch.optim does.
void checkRange(const std::string &optimizer, const std::string &name, float value) {
  if (name == "beta1" || name == "beta2")
    check(value >= 0.0f && value < 1.0f, "optim::{}: invalid {}: got {}, expected 0 or more and less than 1", optimizer,
          name, value);
  else if (name == "rho")
    check(value >= 0.0f && value <= 1.0f, "optim::{}: invalid rho: got {}, expected a value from 0 to 1", optimizer,
          value);
  else if (name == "max_weight_norm")
    check(value > 0.0f, "optim::{}: invalid max_weight_norm: got {}, expected a value above 0", optimizer, value);
  else if (name == "eps" && optimizer == "Lamb")  // with sharded state, padding is 0 / eps and counts in the norm
    check(value > 0.0f, "optim::Lamb: invalid eps: got {}, expected a value above 0", value);
  else if (name != "dampening")
    check(value >= 0.0f, "optim::{}: invalid {}: got {}, expected 0 or more", optimizer, name, value);
}

bool hasBetas(PyTorchMode mode) {
  return mode == PyTorchMode::Adam || mode == PyTorchMode::AdamW || mode == PyTorchMode::Adamax ||
         mode == PyTorchMode::Lamb;
}

// The argument that a scalar of the update is made from; empty: it is made from several.
std::string argumentOf(const std::string &scalar) {
  if (scalar == "weightDecay") return "weight_decay";
  if (scalar == "learningRateDecay") return "lr_decay";
  if (scalar == "maxWeightNorm") return "max_weight_norm";
  return scalar;
}

std::vector<ClipNormSettings> clipping(const Gradients &gradients) {
  if (gradients.clipNorm == kUnlimited) return {};
  return {ClipNormSettings::clipAllWeights(gradients.clipNorm)};
}

bool matchesName(const std::string &pattern, const TensorId &weight) {
  return weight == pattern || ::fnmatch(pattern.c_str(), weight.c_str(), 0) == 0;
}

// Nothing can raise a group's own learning rate of 0: factors multiply it.
bool isFrozenGroup(const ParameterGroup &group) {
  const auto rate = group.values.find("lr");
  return rate != group.values.end() && rate->second == 0.0f;
}

}  // namespace

Optimizer::Optimizer(PyTorchMode mode, const std::map<std::string, float> &values, Flags flags,
                     const Gradients &gradients, const std::vector<ParameterGroup> &groups)
    : popart::Optimizer(gradients.lossScaling, clipping(gradients)),
      mode_(mode),
      values_(values),
      flags_(flags),
      gradients_(gradients),
      groups_(groups),
      rates_(OptimizerValue(0.0f, false)) {
  for (const std::string &name : valueNames(mode))
    check(values_.count(name) != 0, "{}: no value for '{}': got none, expected a number", type_s(), name);
  checkValues(values_);
  for (const ParameterGroup &group : groups_) {
    check(!group.weights.empty(), "{}: a group names no weights: got an empty list", type_s());
    std::map<std::string, float> all = values_;
    for (const auto &[name, value] : group.values) all[name] = value;
    checkValues(all);
  }
  check(gradients.clipValue > 0.0f, "{}: invalid largest value of gradients: got {}, expected a value above 0",
        type_s(), gradients.clipValue);
  check(gradients.clipNorm == kUnlimited || gradients.clipValue == kUnlimited,
        "{}: gradients are clipped by norm and by value: got {} and {}. Give one of them", type_s(), gradients.clipNorm,
        gradients.clipValue);
  check(!flags.nesterov || mode == PyTorchMode::SGD, "{}: nesterov belongs to optim::SGD", type_s());
  check(!flags.centered || mode == PyTorchMode::RMSprop, "{}: centered belongs to optim::RMSprop", type_s());
  check(!flags.amsgrad || mode == PyTorchMode::Adam || mode == PyTorchMode::AdamW,
        "{}: amsgrad belongs to optim::Adam and optim::AdamW", type_s());
}

void Optimizer::checkValues(const std::map<std::string, float> &values) const {
  const std::vector<std::string> names = valueNames(mode_);
  for (const auto &[name, value] : values) {
    check(std::ranges::find(names, name) != names.end(), "{}: no number of this name: got '{}', expected one of {}",
          type_s(), name, names);
    checkRange(rowOf(mode_).name, name, value);
  }
  if (!flags_.nesterov || mode_ != PyTorchMode::SGD) return;
  const float momentum = values.at("momentum"), dampening = values.at("dampening");
  check(momentum > 0.0f && dampening == 0.0f,
        "{}: nesterov needs momentum and no dampening: got momentum {} and dampening {}", type_s(), momentum,
        dampening);
}

std::string Optimizer::type_s() const { return std::string("optim::") + rowOf(mode_).name; }

void Optimizer::setLearningRate(float rate) {
  checkRange(rowOf(mode_).name, "lr", rate);
  values_["lr"] = rate;
}

void Optimizer::setRateFactor(float factor) {
  checkNonNegative("factor of the learning rate", factor);
  rateFactor_ = factor;
}

float Optimizer::value(const std::string &name, int group) const {
  check(values_.count(name) != 0, "{}: no number of this name: got '{}', expected one of {}", type_s(), name,
        valueNames(mode_));
  if (group < 0) return values_.at(name);
  check(static_cast<size_t>(group) < groups_.size(), "{}: no group {}: there are {}", type_s(), group, groups_.size());
  const auto &own = groups_[static_cast<size_t>(group)].values;
  const auto found = own.find(name);
  return found == own.end() ? values_.at(name) : found->second;
}

int Optimizer::groupOf(const TensorId &weight) const {
  const auto found = groupOf_.find(weight);
  return found == groupOf_.end() ? -1 : found->second;
}

void Optimizer::resolveGroups(const std::vector<TensorId> &weights) {
  groupOf_.clear();
  rates_ = OptimizerValueMap(OptimizerValue(0.0f, false));
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const std::string &pattern : groups_[g].weights) {
      bool matches = false;
      for (const TensorId &weight : weights) {
        if (!matchesName(pattern, weight)) continue;
        matches = true;
        const auto [place, fresh] = groupOf_.emplace(weight, static_cast<int>(g));
        check(place->second == static_cast<int>(g), "{} '{}': the weight is in two groups: got {} and {}", type_s(),
              weight, place->second, g);
        if (fresh) rates_.insertSpecific(weight, OptimizerValue(0.0f, false));
      }
      check(matches, "{}: the model has no weight '{}' of group {}{}", type_s(), pattern, g,
            nearestText(pattern, weights));
    }
}

bool Optimizer::neverChanges(const TensorId &weight) const {
  return std::ranges::any_of(groups_, [&](const ParameterGroup &group) {
    return isFrozenGroup(group) &&
           std::ranges::any_of(group.weights, [&](const std::string &pattern) { return matchesName(pattern, weight); });
  });
}

UpdateRule Optimizer::updateForm(const TensorId &weight) const {
  const int group = groupOf(weight);
  const auto has = [&](const char *name) { return values_.count(name) != 0 && value(name, group) != 0.0f; };
  PyTorchRule rule{.mode = mode_,
                   .hasWeightDecay = has("weight_decay"),
                   .hasMomentum = has("momentum"),
                   .hasDampening = has("momentum") && has("dampening"),
                   .nesterov = flags_.nesterov,
                   .centered = flags_.centered,
                   .amsgrad = flags_.amsgrad,
                   .hasRateDecay = has("lr_decay"),
                   .hasNormLimit = has("max_weight_norm") && value("max_weight_norm", group) != kUnlimited,
                   .initialAccumulator = mode_ == PyTorchMode::Adagrad ? value("initial_accumulator_value", group) : 0,
                   .clipValue = gradients_.clipValue};
  return {rule, DataType::UNDEFINED, {}};
}

std::vector<std::string> Optimizer::scalarNames(const TensorId &weight) const {
  const UpdateRule form = updateForm(weight);
  const PyTorchRule &rule = std::get<PyTorchRule>(form.form);
  std::vector<std::string> names = {"learningRate", "gradientScale"};
  if (rule.hasWeightDecay) names.push_back("weightDecay");
  if (rule.hasMomentum) names.push_back("momentum");
  if (rule.hasDampening) names.push_back("dampening");
  if (hasBetas(mode_)) names.insert(names.end(), {"beta1", "beta2"});
  if (mode_ != PyTorchMode::SGD) names.push_back("eps");
  if (mode_ == PyTorchMode::RMSprop) names.push_back("alpha");
  if (mode_ == PyTorchMode::Adadelta) names.push_back("rho");
  if (rule.hasRateDecay) names.push_back("learningRateDecay");
  if (rule.hasNormLimit) names.push_back("maxWeightNorm");
  return names;
}

OptimizerScalar Optimizer::scalar(const std::string &name, const TensorId &weight) const {
  const int group = groupOf(weight);
  const auto number = [&](float number, bool isConst) {
    return OptimizerScalar{name, OptimizerValue(number, isConst),
                           group < 0 ? TensorId() : "group" + std::to_string(group)};
  };
  if (name == "learningRate") return number(value("lr", group) * rateFactor_, false);
  if (name == "gradientScale")
    return unscaling(number((gradients_.maximize ? -1.0f : 1.0f) / gradientDivisor(), lossScaling().isConst()));
  return number(value(argumentOf(name), group), true);
}

std::string Optimizer::replacementProblem(const popart::Optimizer &other) const {
  if (std::string problem = popart::Optimizer::replacementProblem(other); !problem.empty()) return problem;
  const Optimizer &o = static_cast<const Optimizer &>(other);
  if (mode_ != o.mode_) return "optimizer types differ: " + type_s() + " and " + o.type_s();
  if (flags_.nesterov != o.flags_.nesterov || flags_.centered != o.flags_.centered ||
      flags_.amsgrad != o.flags_.amsgrad)
    return "options differ";
  if (gradients_.clipValue != o.gradients_.clipValue || gradients_.maximize != o.gradients_.maximize)
    return "clipping by value, or maximize, differs";
  if (groupOf_ != o.groupOf_) return "groups of weights differ";
  for (size_t g = 0; g < groups_.size(); ++g)
    if (isFrozenGroup(groups_[g]) != isFrozenGroup(o.groups_[g]))
      return "group " + std::to_string(g) + " has a learning rate of 0 in one of them, which freezes its weights";
  for (int g = -1; g < static_cast<int>(groups_.size()); ++g)
    for (const std::string &name : valueNames(mode_))
      if (name != "lr" && value(name, g) != o.value(name, g)) return "constant value '" + name + "' differs";
  return {};
}

size_t Optimizer::hash() const {
  size_t seed = combineHashes(popart::Optimizer::hash(), static_cast<size_t>(mode_));
  for (bool flag : {flags_.nesterov, flags_.centered, flags_.amsgrad, gradients_.maximize})
    seed = combineHashes(seed, flag);
  seed = combineHashes(seed, std::hash<float>()(gradients_.clipValue));
  for (int g = -1; g < static_cast<int>(groups_.size()); ++g) {
    for (const std::string &name : valueNames(mode_))
      if (name != "lr") seed = combineHashes(seed, std::hash<float>()(value(name, g)));
    if (g >= 0)
      for (const std::string &pattern : groups_[static_cast<size_t>(g)].weights)
        seed = combineHashes(seed, std::hash<std::string>()(pattern));
  }
  return seed;
}

Optimizer SGD(const SGDArguments &a) {
  return {PyTorchMode::SGD,
          {{"lr", a.lr}, {"momentum", a.momentum}, {"dampening", a.dampening}, {"weight_decay", a.weightDecay}},
          {.nesterov = a.nesterov},
          a.gradients,
          a.groups};
}

namespace {

template <class Arguments>
std::map<std::string, float> valuesOfAdam(const Arguments &a) {
  return {
      {"lr", a.lr}, {"beta1", a.beta1}, {"beta2", a.beta2}, {"eps", a.eps}, {"weight_decay", a.weightDecay},
  };
}

}  // namespace

Optimizer Adam(const AdamArguments &a) {
  return {PyTorchMode::Adam, valuesOfAdam(a), {.amsgrad = a.amsgrad}, a.gradients, a.groups};
}

Optimizer AdamW(const AdamWArguments &a) {
  return {PyTorchMode::AdamW, valuesOfAdam(a), {.amsgrad = a.amsgrad}, a.gradients, a.groups};
}

Optimizer RMSprop(const RMSpropArguments &a) {
  return {PyTorchMode::RMSprop,
          {{"lr", a.lr}, {"alpha", a.alpha}, {"eps", a.eps}, {"weight_decay", a.weightDecay}, {"momentum", a.momentum}},
          {.centered = a.centered},
          a.gradients,
          a.groups};
}

Optimizer Adagrad(const AdagradArguments &a) {
  return {PyTorchMode::Adagrad,
          {{"lr", a.lr},
           {"lr_decay", a.lrDecay},
           {"weight_decay", a.weightDecay},
           {"initial_accumulator_value", a.initialAccumulatorValue},
           {"eps", a.eps}},
          {},
          a.gradients,
          a.groups};
}

Optimizer Adadelta(const AdadeltaArguments &a) {
  return {PyTorchMode::Adadelta,
          {{"lr", a.lr}, {"rho", a.rho}, {"eps", a.eps}, {"weight_decay", a.weightDecay}},
          {},
          a.gradients,
          a.groups};
}

Optimizer Adamax(const AdamaxArguments &a) { return {PyTorchMode::Adamax, valuesOfAdam(a), {}, a.gradients, a.groups}; }

Optimizer Lamb(const LambArguments &a) {
  std::map<std::string, float> values = valuesOfAdam(a);
  values["max_weight_norm"] = a.maxWeightNorm;
  return {PyTorchMode::Lamb, values, {}, a.gradients, a.groups};
}

}  // namespace popart::optim
