// The versions of every operator of ai.onnx.
#pragma once
#include <string>
#include <vector>

#include <popart/names.hpp>

namespace popart {

// An operator of one operator set.
struct OnnxOperator {
  std::string type;  // "Gelu"
  OpVersion since;   // the version in force
};

// The operators of ai.onnx operator set `opset` in the order of their names, without those it marks as deprecated. A
// newer set than the list knows gives the newest one's, below 1 none. Source: ONNX operator changelog.
std::vector<OnnxOperator> onnxOperators(int64_t opset);

// The newest operator set the list knows.
int64_t newestOnnxOperatorSet();

}  // namespace popart
