// OptimizerValue: a hyper-parameter and whether it is baked into the program.
#pragma once
#include <cstddef>
#include <functional>
#include <utility>

namespace popart {

// A constant is compiled in; others may be changed by updateOptimizerFromHost.
class OptimizerValue {
 public:
  OptimizerValue() = default;  // 0, not constant
  OptimizerValue(float value) : value_(value), isConst_(true) {}
  OptimizerValue(float value, bool isConst) : value_(value), isConst_(isConst) {}
  OptimizerValue(std::pair<float, bool> value) : OptimizerValue(value.first, value.second) {}

  float val() const { return value_; }
  bool isConst() const { return isConst_; }
  // Same constness, and the same value when constant.
  bool validReplacement(const OptimizerValue &other) const;
  // Two non-constant values are equal whatever they are.
  bool operator==(const OptimizerValue &other) const { return validReplacement(other); }

 private:
  float value_ = 0.0f;
  bool isConst_ = false;
};

}  // namespace popart

template <>
struct std::hash<popart::OptimizerValue> {
  std::size_t operator()(const popart::OptimizerValue &value) const;
};
