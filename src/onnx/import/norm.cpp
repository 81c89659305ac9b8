// Normalisations.
#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

constexpr int kBatchNormOutputs = 5;  // Y, running mean, running variance, saved mean, saved variance

// Whether the node states training form, and keeps it.
bool hasTrainingForm(const NodeContext &n) {
  bool stated = n.outputCount() > 1;
  if (n.domain() == "ai.onnx" && n.opset() >= 14) stated = n.attr<int64_t>("training_mode", 0) != 0;
  if (n.domain() == "ai.onnx" && n.opset() < 7) stated = stated && n.attr<int64_t>("is_test", 0) == 0;
  if (!stated && n.training())
    logging::ir::warn(
        "BatchNormalization '{}' has the form of inference in a training session: it uses the stored statistics and "
        "does not update them. GraphTransformer.prepareNodesForTraining gives the model the form of training",
        n.settings().name.empty() ? n.firstOutput() : n.settings().name);
  return stated && n.keepsTrainingForm();
}

// The running statistics become the new values of the variables from which they were computed.
void updateVariable(NodeContext &n, int input, TensorIndex running) {
  if (!n.training() || !running.valid()) return;
  if (n.graph().tensor(n.in(input)).tensorType() == TensorType::Variable)
    n.emit("CopyVarUpdate", {n.in(input), running});
}

// The op returns the inverse standard deviation r; the model has the variance of the batch: 1 / r^2 - epsilon, with
// unbiased_variance that of n - 1 samples.
Value savedVariance(const Value &inverse, const Attributes &attributes, double samples) {
  const double epsilon = attributes.getAttribute<float>("epsilon", 0);
  const Value variance = (inverse * inverse).op("Reciprocal") - epsilon;
  const bool isUnbiased = attributes.getAttribute<int64_t>("unbiased_variance", 0) != 0 && samples > 1;
  return isUnbiased ? variance * (samples / (samples - 1)) : variance;
}

// In inference form the statistics are the stored ones.
void resultStoredStatistics(NodeContext &n) {
  for (int i = 1; i < n.outputCount(); ++i)
    if (n.hasOut(i)) n.resultTensor(i, n.in(i % 2 == 1 ? 3 : 4));
}

// Version 7 with spatial = 0: statistics only over dimension 0, parameters of shape X.shape[1:]. This is a batch
// normalisation of the matrix [N, all others].
void importPerActivation(NodeContext &n, Attributes attributes) {
  Composer to(n);
  const Value x = to.input(0);
  n.require(x.rank() >= 2, "the input needs the dimensions (N, C, …): got {}", x.info());
  const Shape parameters(x.shape().begin() + 1, x.shape().end()), row{elementCount(parameters)};
  std::vector<TensorIndex> inputs{x.reshape({x.dim(0), row[0]}).tensor()};
  for (int i = 1; i < 5; ++i) {
    n.require(n.info(i).shape() == parameters, "input {} must have one value for each of a sample: got {}, expected {}",
              i, n.info(i), parameters);
    inputs.push_back(to.input(i).reshape(row).tensor());
  }
  const bool trains = hasTrainingForm(n);
  attributes.set("training_mode", int64_t{trains});
  const std::vector<Value> results = to.emit("BatchNormalization", inputs, trains ? kBatchNormOutputs : 1, attributes);
  to.result(0, results[0].reshape(x.shape()));
  if (!trains) return resultStoredStatistics(n);
  for (int i = 1; i < n.outputCount(); ++i) {
    if (!n.hasOut(i)) continue;
    const Value &value = results[static_cast<size_t>(i)];
    to.result(i,
              (i == 4 ? savedVariance(value, attributes, static_cast<double>(x.dim(0))) : value).reshape(parameters));
  }
  updateVariable(n, 3, results[1].reshape(parameters).tensor());
  updateVariable(n, 4, results[2].reshape(parameters).tensor());
}

void importBatchNormalization(NodeContext &n) {
  Attributes attributes = {{"epsilon", n.attr("epsilon", 1e-5f)}, {"momentum", n.attr("momentum", 0.9f)}};
  if (n.domain() == "ai.graphcore") attributes.set("unbiased_variance", int64_t{1});
  if (n.attr<int64_t>("spatial", 1) == 0) return importPerActivation(n, std::move(attributes));
  const std::vector<TensorIndex> inputs = {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)};
  const bool trains = hasTrainingForm(n);
  attributes.set("training_mode", int64_t{trains});
  if (!trains) {
    n.result(0, "BatchNormalization", inputs, attributes);
    return resultStoredStatistics(n);
  }
  std::vector<TensorId> ids;  // all are made, even if not named
  for (int i = 0; i < kBatchNormOutputs; ++i) {
    const bool named = n.hasOut(i) && i != 4;
    ids.push_back(named ? n.outputId(i)
                        : n.importer().freshId(n.graph(), n.outputId(0) + "/statistics:" + std::to_string(i)));
  }
  n.importer().addOp(n.graph(), "BatchNormalization", inputs, ids, attributes, n.settings());
  for (int i = 0; i < 4; ++i)
    if (n.hasOut(i)) n.bind(i, n.graph().find(ids[i]));
  if (n.hasOut(4)) {
    Composer to(n);
    const Shape &x = n.info(0).shape();
    const double samples = x[1] == 0 ? 0 : static_cast<double>(elementCount(x) / x[1]);
    to.result(4, savedVariance(Value(to, n.graph().find(ids[4])), attributes, samples));
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

// One row for all operator sets: ONNX Runtime writes LayerNormalization before the version in which ai.onnx adds it.
void dropStashType(NodeContext &n) {
  n.attributes().erase("stash_type");
  importRegularAs(n, opDef(n.type()));
}

}  // namespace

std::vector<ImportRule> normRules() {
  return {{"ai.onnx", "BatchNormalization", importBatchNormalization},
          {"ai.graphcore",
           "BatchNormalization",
           importBatchNormalization,
           {"X scale B input_mean input_var", "Y running_mean running_var saved_mean saved_var", "epsilon momentum"}},
          {"ai.onnx", "GroupNormalization", importGroupNormalization},
          {"ai.onnx", "LayerNormalization", dropStashType},
          {"ai.onnx", "RMSNormalization", dropStashType}};
}

}  // namespace popart::onnx
