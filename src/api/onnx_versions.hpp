// The versions of every operator of ai.onnx.
#pragma once
#include <string>
#include <vector>

#include <popart/names.hpp>

namespace popart {

struct OnnxOperator {
  std::string type;
  OpVersion since;  // the version in force
};

// The operators of ai.onnx operator set `opset` in the order of their names, without those it marks as deprecated.
std::vector<OnnxOperator> onnxOperators(int64_t opset);

// The newest operator set the list knows.
int64_t newestOnnxOperatorSet();

}  // namespace popart
