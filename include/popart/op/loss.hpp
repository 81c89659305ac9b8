// ReductionType: how a loss is reduced over its elements, and gradients over micro-batches and replicas.
#pragma once
#include <string>

#include <popart/names.hpp>

namespace popart {

// NoReduction: the loss keeps one element per sample.
enum class ReductionType { Sum = 0, Mean, NoReduction, N };

// "Sum", "Mean", "None".
inline std::string toText(ReductionType type) {
  return type == ReductionType::Sum ? "Sum" : type == ReductionType::Mean ? "Mean" : "None";
}

}  // namespace popart
