// Type aliases that PopART programs use everywhere.
#pragma once
#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nonstd {
using std::nullopt;
using std::optional;
}  // namespace nonstd

namespace popart {

using Shape = std::vector<int64_t>;    // dimension sizes, outermost first
using Rank = int;                      // number of dimensions
using TensorId = std::string;          // "<graph id>/<name>", main graph: "<name>"
using GraphId = std::string;           // main graph: ""
using OpId = int;                      // unique in an Ir, printed in "Gelu.103"
using OpName = std::string;            // debug name
using OpDomain = std::string;          // "ai.onnx", "ai.graphcore", …
using OpType = std::string;            // "Gelu"
using OpVersion = unsigned;            // since-version of an operator
using InIndex = int;                   // position among an op's inputs
using OutIndex = int;                  // position among an op's outputs
using VGraphId = int64_t;              // IPU number within a replica
using PipelineStage = int64_t;         // 0 is the first
using ExecutionPhase = int64_t;        // 0 is the first
using BatchSerializedPhase = int64_t;  // 0 is the first
using ReturnPeriod = int64_t;          // batches between two returned values

// Parameters of one convolution (data, weights, bias; one value per spatial axis, pads begin then end), and of several.
using ConvInputs = std::vector<TensorId>;
using ConvDilations = std::vector<int64_t>;
using ConvPads = std::vector<int64_t>;
using ConvStrides = std::vector<int64_t>;
using ConvTruncs = std::vector<int64_t>;
using MultiConvInputs = std::vector<ConvInputs>;
using MultiConvDilations = std::vector<ConvDilations>;
using MultiConvPads = std::vector<ConvPads>;
using MultiConvStrides = std::vector<ConvStrides>;

// compat: PopART's names for std::any.
using any = std::any;
template <class T>
T any_cast(const any &value) {
  return std::any_cast<T>(value);
}

}  // namespace popart
