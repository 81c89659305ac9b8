// OptimizerValue: a hyper-parameter, and whether it is a constant of the program.
#pragma once
#include <cstddef>
#include <functional>
#include <utility>

namespace popart {

// A constant is compiled in; updateOptimizerFromHost may change others.
class OptimizerValue {
 public:
  OptimizerValue() = default;  // 0, not constant
  OptimizerValue(float value) : value_(value), isConst_(true) {}
  OptimizerValue(float value, bool isConst) : value_(value), isConst_(isConst) {}
  OptimizerValue(std::pair<float, bool> value) : OptimizerValue(value.first, value.second) {}

  float val() const { return value_; }
  bool isConst() const { return isConst_; }
  // Whether constness is equal, and the value if constant.
  bool validReplacement(const OptimizerValue &other) const;
  // Two non-constant values are always equal.
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
