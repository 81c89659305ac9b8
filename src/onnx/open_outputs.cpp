// The model is imported twice, with different sizes of the open dimensions. Sizes of results that differ depend on
// these dimensions.
#include "onnx/open_outputs.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "onnx/builder_state.hpp"
#include "onnx/importer.hpp"
#include "onnx/model_content.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Infos = std::map<TensorId, TensorInfo>;

// The unit sizes of the two imports. They are sizes of small pictures and texts with many factors, so that most
// reshapes and slices are possible.
constexpr int64_t kUnits[] = {60, 120};

// The size of open dimension `number`: no two dimensions have the same size, and none is a product of others.
int64_t sizeOf(size_t number, int64_t unit) { return unit * static_cast<int64_t>(2 * number + 1); }

bool hasType(const onnx_proto::ValueInfoProto &value) { return declaredValue(value).type != DataType::UNDEFINED; }

// Inputs with open dimensions, in the form of InputShapeInfo. `symbols`: the name of each dimension by number, empty
// for one without a name.
Infos openInputs(const onnx_proto::GraphProto &graph, int64_t unit, std::vector<std::string> &symbols) {
  Infos infos;
  for (const auto &value : graph.input()) {
    const Model::Input input = declaredValue(value);
    if (!input.hasShape || !input.isOpen() || input.type == DataType::UNDEFINED) continue;
    Shape shape;
    for (const auto &[size, symbol] : input.shape) {
      auto found = symbol.empty() ? symbols.end() : std::ranges::find(symbols, symbol);
      if (size < 0 && found == symbols.end()) found = symbols.insert(symbols.end(), symbol);
      shape.push_back(size < 0 ? sizeOf(static_cast<size_t>(found - symbols.begin()), unit) : size);
    }
    infos.emplace(input.id, TensorInfo(input.type, shape));
  }
  return infos;
}

Infos outputInfos(const ModelContent &model, const BuildOptions &options) {
  const onnx_proto::GraphProto &graph = model.proto->graph();
  Ir ir;
  Importer importer(model, options, ir);
  Scope scope;
  scope.graph = &ir.getMainGraph();
  scope.opsets = opsetsOf(*model.proto);
  importer.importAvailable(graph, scope);
  Infos infos;
  for (const auto &output : graph.output()) {
    const auto found = scope.tensors.find(output.name());
    if (found == scope.tensors.end() || !found->second.valid()) continue;
    if (const TensorInfo &info = scope.graph->info(found->second); info.isSet()) infos.emplace(output.name(), info);
  }
  return infos;
}

}  // namespace

void declareOpenOutputs(const ModelContent &model, const BuildOptions &options, onnx_proto::GraphProto &graph) {
  if (std::ranges::all_of(graph.output(), hasType)) return;
  std::vector<std::string> symbols;
  Infos results[2];
  for (int i = 0; i < 2; ++i) {
    symbols.clear();
    BuildOptions sized = options;
    sized.inputShapeInfo = openInputs(model.proto->graph(), kUnits[i], symbols);
    if (sized.inputShapeInfo.empty()) return;
    results[i] = outputInfos(model, sized);
  }
  for (auto &output : *graph.mutable_output()) {
    const auto first = results[0].find(output.name()), second = results[1].find(output.name());
    if (hasType(output) || first == results[0].end() || second == results[1].end()) continue;
    const TensorInfo &small = first->second, &large = second->second;
    if (small.dataType() != large.dataType()) continue;
    setInfo(output, output.name(), small);
    auto &type = *output.mutable_type()->mutable_tensor_type();
    if (small.rank() != large.rank()) {
      type.clear_shape();
      continue;
    }
    for (int d = 0; d < small.rank(); ++d) {
      if (small.dim(d) == large.dim(d)) continue;
      auto &dimension = *type.mutable_shape()->mutable_dim(d);
      dimension.clear_value();
      for (size_t i = 0; i < symbols.size(); ++i)
        if (!symbols[i].empty() && small.dim(d) == sizeOf(i, kUnits[0]) && large.dim(d) == sizeOf(i, kUnits[1]))
          dimension.set_dim_param(symbols[i]);
    }
  }
}

}  // namespace popart::onnx
