// See training_form.hpp.
#include "onnx/training_form.hpp"

#include <algorithm>

#include "onnx/model_levels.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>;

constexpr int64_t kTestAttributeUntil = 6, kDropoutModeSince = 12, kBatchNormModeSince = 14;
constexpr int kMean = 3, kModeInput = 2;

void eraseAttribute(onnx_proto::NodeProto &node, const std::string &name) {
  auto &all = *node.mutable_attribute();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto &a) { return a.name() == name; }), all.end());
}

void setAttribute(onnx_proto::NodeProto &node, const std::string &name, int64_t value) {
  eraseAttribute(node, name);
  auto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx_proto::AttributeProto::INT);
  attribute.set_i(value);
}

bool isBatchNorm(const onnx_proto::NodeProto &node) {
  return isOnnxOperator(node, "BatchNormalization") ||
         (node.op_type() == "BatchNormalization" && node.domain() == "ai.graphcore");
}

bool statesMode(const onnx_proto::NodeProto &node, const Level &level) {
  return level.onnxOpset >= kDropoutModeSince && node.input_size() > kModeInput && !node.input(kModeInput).empty();
}

// ---- training -------------------------------------------------------------------------------------

void trainBatchNorm(onnx_proto::NodeProto &node, int64_t opset, std::set<std::string> &names) {
  static const char *const kNames[] = {"", "mean", "var", "saved_mean", "saved_var"};
  if (node.output_size() == 0) return;
  const bool hasMode = opset >= kBatchNormModeSince && isOnnxOperator(node, "BatchNormalization");
  for (int i = 1; i < (hasMode ? 3 : 5); ++i) {
    if (i == node.output_size()) node.add_output();
    if (node.output(i).empty()) node.set_output(i, unusedName(names, node.output(0) + "_" + kNames[i]));
  }
  if (hasMode) setAttribute(node, "training_mode", 1);
  if (opset <= kTestAttributeUntil) eraseAttribute(node, "is_test");
}

// Adds a constant true before the nodes.
void addTrue(Nodes &nodes, const std::string &name) {
  auto &node = *nodes.Add();
  node.set_op_type("Constant");
  node.add_output(name);
  auto &value = *node.add_attribute();
  value.set_name("value");
  value.set_type(onnx_proto::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx_proto::TensorProto::BOOL);
  value.mutable_t()->set_raw_data(std::string(1, '\1'));
  for (int i = nodes.size() - 1; i > 0; --i) nodes.SwapElements(i, i - 1);
}

// ---- inference ------------------------------------------------------------------------------------

// The changes of one level: removed nodes, and the replacements of their outputs.
class Inference {
 public:
  // `fed`: nodes whose training_mode is computed in the run.
  Inference(const std::set<const onnx_proto::NodeProto *> &fed, const Level &level)
      : fed_(fed), level_(level), read_(namesRead(level.nodes())) {
    for (const std::string &name : level.outputs()) outputs_.insert(name);
  }

  void run() {
    Nodes kept;
    for (auto &node : level_.nodes()) {
      if (isBatchNorm(node))
        inferBatchNorm(node);
      else if (isOnnxOperator(node, "Dropout") && inferDropout(node))
        continue;
      *kept.Add() = std::move(node);
      for (auto &identity : identities_) *kept.Add() = std::move(identity);
      identities_.clear();
    }
    for (auto &identity : identities_) *kept.Add() = std::move(identity);
    level_.nodes().Swap(&kept);
    renameReads(level_.nodes(), resolved());
  }

 private:
  bool isUsed(const std::string &name) const { return read_.contains(name) || outputs_.contains(name); }

  // Readers of `name` read `source` instead; an output of the graph keeps its name.
  void replace(const std::string &name, const std::string &source) {
    if (name.empty()) return;
    names_[name] = source;
    if (!outputs_.contains(name)) return;
    auto &identity = identities_.emplace_back();
    identity.set_op_type("Identity");
    identity.add_input(source);
    identity.add_output(name);
  }

  void inferBatchNorm(onnx_proto::NodeProto &node) {
    node.clear_domain();
    if (level_.onnxOpset <= kTestAttributeUntil) setAttribute(node, "is_test", 1);
    eraseAttribute(node, "training_mode");
    for (int i = 1; i < node.output_size() && node.input_size() > kMean + 1; ++i)
      if (isUsed(node.output(i))) replace(node.output(i), node.input(i % 2 == 1 ? kMean : kMean + 1));
    while (node.output_size() > 1) node.mutable_output()->RemoveLast();
  }

  // Returns whether the node is removed.
  bool inferDropout(onnx_proto::NodeProto &node) {
    if (node.input_size() == 0 || node.output_size() == 0) return false;
    if (fed_.contains(&node)) return false;
    while (level_.onnxOpset >= kDropoutModeSince && node.input_size() > kModeInput) node.mutable_input()->RemoveLast();
    if (level_.onnxOpset <= kTestAttributeUntil) setAttribute(node, "is_test", 1);
    if (node.output_size() > 1 && isUsed(node.output(1))) return false;
    replace(node.output(0), node.input(0));
    return true;
  }

  // Replacements of removed names: chains are followed to the last name.
  std::map<std::string, std::string> resolved() const {
    std::map<std::string, std::string> all;
    for (const auto &[name, source] : names_) {
      std::string last = source;
      for (size_t steps = 0; steps < names_.size(); ++steps)
        if (const auto next = names_.find(last); next != names_.end())
          last = next->second;
        else
          break;
      all[name] = last;
    }
    return all;
  }

  const std::set<const onnx_proto::NodeProto *> &fed_;
  const Level &level_;
  std::set<std::string> read_, outputs_;
  std::map<std::string, std::string> names_;
  std::vector<onnx_proto::NodeProto> identities_;  // after the current node
};

}  // namespace

void toTrainingForm(onnx_proto::ModelProto &model) {
  std::set<std::string> names = tensorNames(model);
  const FixedNames fixed(model);
  struct Change {
    onnx_proto::NodeProto *node;
    const Level *level;
  };
  std::vector<Change> dropouts;
  for (const Level &level : fixed.levels())
    for (auto &node : level.nodes()) {
      if (isBatchNorm(node)) trainBatchNorm(node, level.onnxOpset, names);
      if (!isOnnxOperator(node, "Dropout")) continue;
      if (level.onnxOpset <= kTestAttributeUntil) eraseAttribute(node, "is_test");
      if (level.onnxOpset < kDropoutModeSince) continue;
      const bool drops = statesMode(node, level) && (!fixed.isFixed(node.input(kModeInput), level) ||
                                                     fixed.truth(node.input(kModeInput), level) == 1);
      if (!drops) dropouts.push_back({&node, &level});
    }
  std::map<const Level *, std::string> trues;
  for (const Change &change : dropouts)
    if (!trues.contains(change.level)) trues[change.level] = unusedName(names, "training_mode");
  for (const Change &change : dropouts) {
    auto &inputs = *change.node->mutable_input();
    while (inputs.size() <= kModeInput) *inputs.Add() = "";
    inputs[kModeInput] = trues.at(change.level);
  }
  for (const auto &[level, name] : trues) addTrue(level->nodes(), name);
}

void toInferenceForm(onnx_proto::ModelProto &model) {
  const FixedNames fixed(model);
  std::set<const onnx_proto::NodeProto *> fed;
  for (const Level &level : fixed.levels())
    for (const auto &node : level.nodes())
      if (isOnnxOperator(node, "Dropout") && statesMode(node, level) && !fixed.isFixed(node.input(kModeInput), level))
        fed.insert(&node);
  // Bodies come first; a node that is moved keeps the addresses of its bodies.
  for (auto level = fixed.levels().rbegin(); level != fixed.levels().rend(); ++level) Inference(fed, *level).run();
}

}  // namespace popart::onnx
