// See batch_norm_folding.hpp. Values are computed in doubles.
#include "onnx/batch_norm_folding.hpp"

#include <cmath>
#include <optional>

#include "onnx/model_levels.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

float floatAttribute(const onnx_proto::NodeProto &node, const char *name, float otherwise) {
  for (const auto &a : node.attribute())
    if (a.name() == name) return a.f();
  return otherwise;
}

int64_t intAttribute(const onnx_proto::NodeProto &node, const char *name, int64_t otherwise) {
  for (const auto &a : node.attribute())
    if (a.name() == name) return a.i();
  return otherwise;
}

class Folding {
 public:
  Folding(onnx_proto::ModelProto &model, const ExternalFiles &files)
      : graph_(*model.mutable_graph()), files_(files), names_(tensorNames(model)) {
    for (const auto &tensor : graph_.initializer()) initializers_.emplace(tensor.name(), &tensor);
    for (const auto &output : graph_.output()) ++readers_[output.name()];
    for (auto &node : *graph_.mutable_node()) {
      for (const std::string &name : namesReadBy(node)) ++readers_[name];
      for (const auto &output : node.output()) producers_[output] = &node;
    }
  }

  void run() {
    google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> kept;
    std::set<const onnx_proto::NodeProto *> gone;
    for (const auto &node : graph_.node())
      if (isOnnxOperator(node, "BatchNormalization") && fold(node)) gone.insert(&node);
    for (auto &node : *graph_.mutable_node())
      if (!gone.contains(&node)) *kept.Add() = std::move(node);
    graph_.mutable_node()->Swap(&kept);
  }

 private:
  static std::set<std::string> namesReadBy(const onnx_proto::NodeProto &node) {
    google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> one;
    *one.Add() = node;
    return namesRead(one);
  }

  std::optional<TensorData> valueOf(const onnx_proto::NodeProto &node, int input) const {
    if (input >= node.input_size()) return {};
    const auto found = initializers_.find(node.input(input));
    if (found == initializers_.end()) return {};
    return tensorData(*found->second, found->first, files_, nullptr);
  }

  // The product before a normalisation, and where its output channels are in the weights: `rows` blocks of `own`
  // channels with `inner` elements each, which belong to `groups` groups of channels in turn.
  struct Product {
    onnx_proto::NodeProto *node = nullptr;
    TensorData weight;
    std::vector<double> bias;  // one for each channel
    int64_t own = 1, inner = 1, rows = 1, groups = 1;
    size_t channelOf(int64_t i) const {
      return static_cast<size_t>((i / (own * inner)) * groups / rows * own + i / inner % own);
    }
  };

  std::optional<Product> productOf(const onnx_proto::NodeProto &norm, size_t channels) const {
    const auto found = producers_.find(norm.input(0));
    if (found == producers_.end() || readers_.at(norm.input(0)) != 1) return {};
    Product product;
    product.node = found->second;
    const onnx_proto::NodeProto &node = *product.node;
    const bool isTransposed = isOnnxOperator(node, "ConvTranspose"), isGemm = isOnnxOperator(node, "Gemm");
    if ((!isOnnxOperator(node, "Conv") && !isTransposed && !isGemm) || node.output_size() != 1) return {};
    const std::optional<TensorData> weight = valueOf(node, 1);
    if (!weight || !isFloatingPoint(weight->info().dataType())) return {};
    product.weight = *weight;
    const Shape &shape = weight->info().shape();
    const size_t axis = isTransposed || (isGemm && intAttribute(node, "transB", 0) == 0) ? 1 : 0;
    if (shape.size() <= axis) return {};
    if (isTransposed) product.groups = intAttribute(node, "group", 1);
    product.own = shape[axis];
    product.rows = axis == 0 ? 1 : shape[0];
    for (size_t d = axis + 1; d < shape.size(); ++d) product.inner *= shape[d];
    if (product.own * product.groups != static_cast<int64_t>(channels)) return {};
    product.bias.assign(channels, 0);
    if (node.input_size() < 3 || node.input(2).empty()) return product;
    const std::optional<TensorData> bias = valueOf(node, 2);
    if (!bias) return {};
    const std::vector<double> given = bias->asDoubles();
    const bool isOne = given.size() == 1;
    if (!isOne && (given.size() != channels || bias->info().shape().back() == 1)) return {};
    const double beta = isGemm ? double{floatAttribute(node, "beta", 1)} : 1;
    for (size_t c = 0; c < channels; ++c) product.bias[c] = beta * given[isOne ? 0 : c];
    return product;
  }

  // Whether the normalisation was folded.
  bool fold(const onnx_proto::NodeProto &norm) {
    constexpr int kOperands = 5;
    if (norm.input_size() != kOperands || norm.output_size() != 1 || intAttribute(norm, "spatial", 1) != 1)
      return false;
    std::vector<double> operands[kOperands];
    for (int i = 1; i < kOperands; ++i) {
      const std::optional<TensorData> value = valueOf(norm, i);
      if (!value) return false;
      operands[i] = value->asDoubles();
    }
    const std::optional<Product> product = productOf(norm, operands[1].size());
    if (!product) return false;
    const double epsilon = floatAttribute(norm, "epsilon", 1e-5f);
    std::vector<double> scale = operands[1], bias = product->bias, weight = product->weight.asDoubles();
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] /= std::sqrt(operands[4][c] + epsilon);
      bias[c] = (bias[c] - operands[3][c]) * scale[c] + operands[2][c];
    }
    for (size_t i = 0; i < weight.size(); ++i) weight[i] *= scale[product->channelOf(static_cast<int64_t>(i))];
    onnx_proto::NodeProto &node = *product->node;
    const TensorInfo &info = product->weight.info();
    const TensorInfo row(info.dataType(), {static_cast<int64_t>(bias.size())});
    while (node.input_size() < 3) node.add_input();
    node.set_input(1, add(node.input(1), TensorData::fromDoubles(info, weight)));
    node.set_input(2, add(norm.output(0) + "/bias", TensorData::fromDoubles(row, bias)));
    for (auto &a : *node.mutable_attribute())
      if (a.name() == "beta") a.set_f(1);
    node.set_output(0, norm.output(0));
    producers_[norm.output(0)] = &node;
    return true;
  }

  // Adds an initializer; it gets the wanted name if nothing else uses that any more.
  std::string add(const std::string &wanted, const TensorData &value) {
    const auto old = initializers_.find(wanted);
    if (old != initializers_.end() && readers_[wanted] == 1) {
      for (auto &tensor : *graph_.mutable_initializer())
        if (tensor.name() == wanted) {
          onnx_proto::TensorProto fresh;
          fresh.set_name(wanted);
          setPayload(fresh, value);
          tensor.Swap(&fresh);
          return wanted;
        }
    }
    const std::string name = unusedName(names_, wanted);
    auto &tensor = *graph_.add_initializer();
    tensor.set_name(name);
    setPayload(tensor, value);
    initializers_[name] = &tensor;
    readers_[name] = 1;
    return name;
  }

  onnx_proto::GraphProto &graph_;
  const ExternalFiles &files_;
  std::set<std::string> names_;
  std::map<std::string, const onnx_proto::TensorProto *> initializers_;
  std::map<std::string, int> readers_;
  std::map<std::string, onnx_proto::NodeProto *> producers_;
};

}  // namespace

void foldBatchNorms(onnx_proto::ModelProto &model, const ExternalFiles &files) {
  constexpr int kInitializersApartFromInputs = 4;
  Folding(model, files).run();
  if (model.ir_version() < kInitializersApartFromInputs) model.set_ir_version(kInitializersApartFromInputs);
}

}  // namespace popart::onnx
