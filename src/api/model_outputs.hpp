// How a session returns outputs that are sequences, optional values or have sizes that depend on data.
#pragma once
#include <map>
#include <set>
#include <string>

#include <popart/inputshapeinfo.hpp>

#include "onnx/reader.hpp"

namespace popart {

// The tensors to anchor for each graph output, and for each tensor of the model in `returned`. `inputShapeInfo`: as for
// sessions. `weights`: as the session has them. Throws popart::error for a model that is refused.
std::map<std::string, onnx::OutputTensors> outputTensors(const std::string &modelProtoOrFilename,
                                                         const InputShapeInfo &inputShapeInfo, onnx::WeightRole weights,
                                                         const std::set<TensorId> &returned = {});

}  // namespace popart
