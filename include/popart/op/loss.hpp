// ReductionType: how a loss joins its elements, and how gradients of micro-batches and replicas join.
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
