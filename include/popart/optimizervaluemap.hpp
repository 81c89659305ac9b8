// OptimizerValueMap: the default value of a hyper-parameter and the values of single weights.
#pragma once
#include <map>

#include <popart/names.hpp>
#include <popart/optimizervalue.hpp>

namespace popart {

// Values of one hyper-parameter for all weights.
class OptimizerValueMap {
 public:
  OptimizerValueMap() = default;
  OptimizerValueMap(OptimizerValue defaultValue) : default_(defaultValue) {}
  OptimizerValueMap(OptimizerValue defaultValue, std::map<TensorId, OptimizerValue> specifics)
      : default_(defaultValue), specifics_(std::move(specifics)) {}

  // The weight's own value, else the default.
  OptimizerValue get(const TensorId &weight) const;
  // Throws popart::error if the weight already has a value.
  void insertSpecific(const TensorId &weight, OptimizerValue value);
  bool hasSpecific(const TensorId &weight) const { return specifics_.count(weight) != 0; }
  bool hasSpecific() const { return !specifics_.empty(); }
  OptimizerValue getDefault() const { return default_; }
  const std::map<TensorId, OptimizerValue> &getSpecifics() const { return specifics_; }
  // Whether the weights are the same, and each value a valid replacement.
  bool validReplacement(const OptimizerValueMap &other) const;
  bool operator==(const OptimizerValueMap &other) const { return validReplacement(other); }

 private:
  OptimizerValue default_;
  std::map<TensorId, OptimizerValue> specifics_;
};

}  // namespace popart

template <>
struct std::hash<popart::OptimizerValueMap> {
  std::size_t operator()(const popart::OptimizerValueMap &map) const;
};
