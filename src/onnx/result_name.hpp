// The word `output`: programs name a model's only result so although the file calls it otherwise (exporters choose that
// name when none is asked for). A name the model has is never touched, and no other word is guessed (decisions/0007).
#pragma once
#include <optional>
#include <vector>

#include <popart/names.hpp>

namespace popart::onnx {

// The tensor that a name unknown to the model means: its only output for `output`; nullopt for any other name and for
// models with no or several outputs.
inline std::optional<TensorId> tensorMeantBy(const TensorId &unknown, const std::vector<TensorId> &outputIds) {
  if (unknown != "output" || outputIds.size() != 1) return std::nullopt;
  return outputIds.front();
}

}  // namespace popart::onnx
