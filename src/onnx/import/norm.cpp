// Normalisations.
#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

bool isTrainingForm(const NodeContext &n) {
  if (n.opset() >= 14) return n.attr<int64_t>("training_mode", 0) != 0;
  if (n.opset() < 7 && n.attr<int64_t>("is_test", 0) != 0) return false;
  return n.outputCount() > 1;
}

// The running statistics become the new values of the variables they were computed from.
void updateVariable(NodeContext &n, int input, TensorIndex running) {
  if (!n.training() || !running.valid()) return;
  if (n.graph().tensor(n.in(input)).tensorType() == TensorType::Variable)
    n.emit("CopyVarUpdate", {n.in(input), running});
}

void importBatchNormalization(NodeContext &n) {
  n.require(n.attr<int64_t>("spatial", 1) == 1, "attribute spatial must be 1: got {}", n.attr<int64_t>("spatial", 1));
  Attributes attributes = {{"epsilon", n.attr("epsilon", 1e-5f)}, {"momentum", n.attr("momentum", 0.9f)}};
  const std::vector<TensorIndex> inputs = {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)};
  const bool trains = isTrainingForm(n);
  attributes.set("training_mode", int64_t{trains});
  if (!trains && n.training())
    logging::ir::warn(
        "BatchNormalization '{}' has the form of inference in a training session: it uses the stored statistics and "
        "does not update them. Give it five outputs, for example with GraphTransformer.prepareNodesForTraining",
        n.settings().name.empty() ? n.firstOutput() : n.settings().name);
  if (!trains) return n.result(0, "BatchNormalization", inputs, attributes);
  // Outputs Y, running mean, running variance[, saved mean, saved inverse standard deviation]; all made, whatever is
  // named.
  std::vector<TensorId> ids;
  constexpr int kOutputs = 5;
  for (int i = 0; i < kOutputs; ++i) {
    const bool named = n.hasOut(i) && i != 4;
    ids.push_back(named ? n.outputId(i)
                        : n.importer().freshId(n.graph(), n.outputId(0) + "/statistics:" + std::to_string(i)));
  }
  n.importer().addOp(n.graph(), "BatchNormalization", inputs, ids, attributes, n.settings());
  for (int i = 0; i < 4; ++i)
    if (n.hasOut(i)) n.bind(i, n.graph().find(ids[i]));
  if (n.hasOut(4)) {  // ONNX saves the variance: 1 / inverse^2 - epsilon
    const TensorIndex inverse = n.graph().find(ids[4]);
    const TensorIndex variance = n.emit("Reciprocal", {n.emit("Mul", {inverse, inverse})});
    n.result(4, "Sub", {variance, n.literalLike(variance, n.attr("epsilon", 1e-5f))});
  }
  updateVariable(n, 3, n.graph().find(ids[1]));
  updateVariable(n, 4, n.graph().find(ids[2]));
}

// GroupNormalization-18 has one scale and bias per group, 21 one per channel; the IR has one per channel.
TensorIndex perChannel(NodeContext &n, int input, int64_t groups, int64_t channels) {
  if (n.opset() >= 21) return n.in(input);
  const TensorIndex column = n.emit("Reshape", {n.in(input)}, {{"shape", Shape{groups, 1}}, {"allowzero", int64_t{1}}});
  const TensorIndex all = n.emit("Expand", {column}, {{"shape", Shape{groups, channels / groups}}});
  return n.emit("Reshape", {all}, {{"shape", Shape{channels}}, {"allowzero", int64_t{1}}});
}

void importGroupNormalization(NodeContext &n) {
  n.require(n.info(0).rank() >= 3, "input must have at least three dimensions: got {}", n.info(0));
  const int64_t channels = n.info(0).shape()[1];
  const int64_t groups = n.attr<int64_t>("num_groups", 0);
  n.require(groups > 0 && channels % groups == 0, "attribute num_groups must divide the channels: got {} for {}",
            groups, n.info(0));
  n.result(0, "GroupNormalization", {n.in(0), perChannel(n, 1, groups, channels), perChannel(n, 2, groups, channels)},
           {{"num_groups", groups}, {"epsilon", n.attr("epsilon", 1e-5f)}});
}

// One row for all operator sets: ONNX Runtime writes LayerNormalization below the version that ai.onnx has it from.
void dropStashType(NodeContext &n) {
  n.attributes().erase("stash_type");
  importRegularAs(n, opDef(n.type()));
}

}  // namespace

std::vector<ImportRule> normRules() {
  return {{"ai.onnx", "BatchNormalization", importBatchNormalization},
          {"ai.onnx", "GroupNormalization", importGroupNormalization},
          {"ai.onnx", "LayerNormalization", dropStashType},
          {"ai.onnx", "RMSNormalization", dropStashType}};
}

}  // namespace popart::onnx
