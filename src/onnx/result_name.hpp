// The word `output`: programs use it for a model's only result even if the file has another name for it (exporters
// choose `output` by default). A name that the model has is never replaced, and no other word is guessed
// (decisions/0007).
#pragma once
#include <optional>
#include <vector>

#include <popart/names.hpp>

namespace popart::onnx {

// The tensor that a name unknown to the model refers to: for `output` the model's only output; nullopt for any other
// name and for models with no or several outputs.
inline std::optional<TensorId> tensorMeantBy(const TensorId &unknown, const std::vector<TensorId> &outputIds) {
  if (unknown != "output" || outputIds.size() != 1) return std::nullopt;
  return outputIds.front();
}

}  // namespace popart::onnx
