// ClipNormSettings: a group of weights whose gradients are scaled down together if their joint L2 norm exceeds maxNorm.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include <popart/names.hpp>

namespace popart {

// One group; maxNorm must be above 0, which optimizers check (popart::error).
class ClipNormSettings {
 public:
  // Which weights belong to the group: the named ones, or all.
  enum class Mode { ClipSpecifiedWeights, ClipAllWeights };

  // Deprecated spelling of clipWeights.
  ClipNormSettings(const std::vector<TensorId> &weights, float maximum)
      : weightIds(weights), maxNorm(maximum), mode_(Mode::ClipSpecifiedWeights) {}
  static ClipNormSettings clipWeights(const std::vector<TensorId> &weights, float maximum) {
    return {weights, maximum};
  }
  static ClipNormSettings clipAllWeights(float maximum);  // must be the only group of an optimizer

  const std::vector<TensorId> &getWeightIds() const;  // throws popart::error if all weights are clipped
  float getMaxNorm() const { return maxNorm; }
  Mode getMode() const { return mode_; }
  bool operator==(const ClipNormSettings &other) const;  // the norms are compared up to rounding
  bool operator!=(const ClipNormSettings &other) const { return !(*this == other); }

  std::vector<TensorId> weightIds;  // empty if all weights are clipped
  float maxNorm;                    // largest L2 norm

 private:
  Mode mode_;
};

}  // namespace popart

template <>
struct std::hash<popart::ClipNormSettings> {
  std::size_t operator()(const popart::ClipNormSettings &settings) const;
};
