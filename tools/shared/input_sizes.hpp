// Shapes of a model's inputs from --dim and --shape, by the rules of popart/tools/files.py.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "onnx/reader.hpp"

namespace popart::tools {

struct InputSizes {
  std::map<TensorId, TensorInfo> infos;  // of all inputs that a run has
  std::vector<std::string> notes;        // on open dimensions that are taken as 1, and on inputs left out
};

// `shapes`: texts INPUT=D,D; `dims`: texts NAME=N. The tensors of a sequence are "name/0", "name/1", … as far as
// `shapes` names them; an optional input is there when `shapes` names it. Throws UsageError for names that the model
// does not have, for sizes that are no numbers, and for an input of which nothing says the type or the shape.
InputSizes inputSizes(const onnx::Model &model, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims);

}  // namespace popart::tools
