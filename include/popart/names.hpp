// Type aliases that PopART programs use everywhere (PopART C++ API, "names").
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

using Shape = std::vector<int64_t>;  // dimension sizes, outermost first
using Rank = int;
using TensorId = std::string;  // "<graph id>/<name>", main graph: "<name>"
using GraphId = std::string;   // main graph: ""
using OpId = int;
using OpName = std::string;
using OpDomain = std::string;
using OpType = std::string;
using OpVersion = unsigned;
using InIndex = int;
using OutIndex = int;
using VGraphId = int64_t;
using PipelineStage = int64_t;
using ExecutionPhase = int64_t;
using BatchSerializedPhase = int64_t;
using ReturnPeriod = int64_t;

using ConvInputs = std::vector<TensorId>;
using ConvDilations = std::vector<int64_t>;
using ConvPads = std::vector<int64_t>;
using ConvStrides = std::vector<int64_t>;
using ConvTruncs = std::vector<int64_t>;
using MultiConvInputs = std::vector<ConvInputs>;
using MultiConvDilations = std::vector<ConvDilations>;
using MultiConvPads = std::vector<ConvPads>;
using MultiConvStrides = std::vector<ConvStrides>;

using any = std::any;
template <class T>
T any_cast(const any &value) {
  return std::any_cast<T>(value);
}

}  // namespace popart
