// Finds the outputs of a model without its training part.
#include <algorithm>
#include <set>

#include <popart/error.hpp>
#include <popart/opdef.hpp>

#include "base/nearest.hpp"
#include "onnx/inference_form.hpp"
#include "onnx/model_check.hpp"
#include "onnx/model_levels.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

// Whether a value is declared as one float without dimensions.
bool isNumber(const onnx_proto::ValueInfoProto &value) {
  const auto &type = value.type().tensor_type();
  return type.has_shape() && type.shape().dim_size() == 0 && type.elem_type() != 0 &&
         isFloatingPoint(fromOnnxDataType(type.elem_type()));
}

std::set<std::string> readBy(const onnx_proto::NodeProto &node) {
  std::set<std::string> names = namesReadBySubgraphs(node);
  names.insert(node.input().begin(), node.input().end());
  names.erase("");
  return names;
}

// The main graph's nodes in the order of the run, with their connections.
class Flow {
 public:
  Flow(const onnx_proto::ModelProto &proto, const std::vector<std::string> &losses)
      : proto_(proto), versions_(opsetsOf(proto)), losses_(losses.begin(), losses.end()) {
    for (int i : nodeOrder(proto.graph(), {})) order_.push_back(&proto.graph().node(i));
  }

  // Losses, and values computed from them; only the first output of a loss operator is a loss.
  std::set<std::string> dependentsOfLosses() const {
    std::set<std::string> names = losses_;
    for (const auto *node : order_) {
      const std::set<std::string> reads = readBy(*node);
      const bool follows = std::ranges::any_of(reads, [&](const std::string &name) { return names.contains(name); });
      const bool computesGradients = node->domain() == "ai.onnx.preview.training";
      if (follows || computesGradients) names.insert(node->output().begin(), node->output().end());
      if (isLoss(*node) && node->output_size() > 0) names.insert(node->output(0));
    }
    names.erase("");
    return names;
  }

  // Values computed from labels: from inputs that no node on the way combines with weights.
  std::set<std::string> dependentsOfLabels() const { return dependentsOf(labelInputs()); }

  // The values that losses evaluate: operands that nodes read together with values of a label, if they depend on
  // weights.
  // Without labels: the first input of loss operators.
  std::vector<std::string> predictions() const {
    const std::set<std::string> own = weights(), labels = dependentsOfLabels(), learned = dependentsOf(own);
    std::vector<std::string> found;
    const auto add = [&](const std::string &name) {
      const bool isNew = std::ranges::find(found, name) == found.end();
      if (isNew && !name.empty() && learned.contains(name) && !own.contains(name)) found.push_back(name);
    };
    for (const auto *node : order_) {
      const std::set<std::string> reads = readBy(*node);
      if (!std::ranges::any_of(reads, [&](const std::string &name) { return labels.contains(name); })) continue;
      for (const std::string &name : node->input())
        if (!labels.contains(name)) add(name);
    }
    if (!found.empty()) return found;
    for (const auto *node : order_)
      if (isLoss(*node) && node->input_size() > 0) add(node->input(0));
    return found;
  }

 private:
  bool isLoss(const onnx_proto::NodeProto &node) const {
    const std::string domain = node.domain().empty() ? "ai.onnx" : node.domain();
    const auto version = versions_.find(domain);
    const OpDef *def =
        findOnnxOp(domain, node.op_type(), static_cast<OpVersion>(version == versions_.end() ? 1 : version->second));
    return def && def->has(Trait::Loss);
  }

  // Floats with several elements.
  std::set<std::string> weights() const {
    std::set<std::string> names;
    for (const auto &tensor : proto_.graph().initializer()) {
      if (holdsText(tensor)) continue;
      const TensorInfo info = tensorInfo(tensor, tensor.name());
      if (isFloatingPoint(info.dataType()) && info.nelms() > 1) names.insert(tensor.name());
    }
    return names;
  }

  std::set<std::string> dependentsOf(std::set<std::string> names) const {
    for (const auto *node : order_)
      if (std::ranges::any_of(readBy(*node), [&](const std::string &name) { return names.contains(name); }))
        names.insert(node->output().begin(), node->output().end());
    names.erase("");
    return names;
  }

  std::set<std::string> labelInputs() const {
    const std::set<std::string> own = initializerNames(proto_.graph()), weights = this->weights();
    std::set<std::string> labels;
    for (const auto &input : proto_.graph().input()) {
      if (own.contains(input.name())) continue;
      const std::set<std::string> reached = dependentsOf({input.name()});
      const bool isData = std::ranges::any_of(order_, [&](const auto *node) {
        const std::set<std::string> reads = readBy(*node);
        const auto among = [&](const std::set<std::string> &names) {
          return std::ranges::any_of(reads, [&](const std::string &name) { return names.contains(name); });
        };
        return among(reached) && among(weights);
      });
      if (!isData) labels.insert(input.name());
    }
    return labels;
  }

  const onnx_proto::ModelProto &proto_;
  std::map<std::string, int64_t> versions_;
  std::set<std::string> losses_;
  std::vector<const onnx_proto::NodeProto *> order_;
};

}  // namespace

std::vector<std::string> inferenceOutputs(const onnx_proto::ModelProto &proto, const InferenceFormOptions &options) {
  const std::set<std::string> defined = definedNames(proto.graph());
  for (const auto *names : {&options.outputs, &options.losses})
    for (const std::string &name : *names)
      if (names == &options.outputs && !defined.contains(name))
        throw error("Inference form: the model has no tensor '{}' to be an output{}", name,
                    nearestText(name, {defined.begin(), defined.end()}));
  if (!options.outputs.empty()) return options.outputs;
  const Flow flow(proto, options.losses);
  std::set<std::string> ofLosses = flow.dependentsOfLosses();
  if (std::ranges::any_of(proto.graph().output(), isNumber)) {  // losses of several operators
    const std::set<std::string> ofLabels = flow.dependentsOfLabels();
    for (const auto &output : proto.graph().output())
      if (isNumber(output) && ofLabels.contains(output.name())) ofLosses.insert(output.name());
  }
  std::vector<std::string> outputs;
  for (const auto &output : proto.graph().output())
    if (!ofLosses.contains(output.name())) outputs.push_back(output.name());
  if (outputs.empty()) outputs = flow.predictions();
  check(!outputs.empty(),
        "Inference form: graph '{}' has no output but losses: got {} outputs. Name the outputs to keep",
        proto.graph().name(), static_cast<int64_t>(proto.graph().output_size()));
  return outputs;
}

}  // namespace popart::onnx
