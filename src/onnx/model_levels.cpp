// See model_levels.hpp.
#include "onnx/model_levels.hpp"

#include <algorithm>

#include "onnx/model_check.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>;

int64_t onnxOpset(const google::protobuf::RepeatedPtrField<onnx_proto::OperatorSetIdProto> &imports,
                  int64_t otherwise) {
  for (const auto &import : imports)
    if (import.domain().empty() || import.domain() == "ai.onnx") return import.version();
  return otherwise;
}

void addBodies(std::list<Level> &levels, const Level &outer) {
  for (auto &node : outer.nodes())
    for (auto &a : *node.mutable_attribute()) {
      const auto add = [&](onnx_proto::GraphProto &body) {
        addBodies(levels, levels.emplace_back(Level{&body, nullptr, &outer, outer.onnxOpset}));
      };
      if (a.has_g()) add(*a.mutable_g());
      for (auto &body : *a.mutable_graphs()) add(body);
    }
}

std::string keyOf(const std::string &domain, const std::string &name, const std::string &overload) {
  return (domain == "ai.onnx" ? "" : domain) + "\n" + name + "\n" + overload;
}

// Operators whose result is fixed if their inputs are.
bool isFollowed(const onnx_proto::NodeProto &node) {
  static const std::set<std::string> kTypes = {"Identity",  "Cast",    "CastLike", "Not",    "Reshape", "Squeeze",
                                               "Unsqueeze", "Flatten", "Gather",   "Equal",  "Greater", "Less",
                                               "And",       "Or",      "Expand",   "Concat", "Slice",   "Where"};
  return (node.domain().empty() || node.domain() == "ai.onnx") && kTypes.contains(node.op_type());
}

// 0 or 1 for a tensor with one value stored in the message; -1 for others.
int truthOf(const onnx_proto::TensorProto &tensor) {
  constexpr size_t kLongest = 16;
  const std::string &raw = tensor.raw_data();
  if (!raw.empty()) return raw.size() > kLongest ? -1 : std::ranges::any_of(raw, [](char c) { return c != 0; }) ? 1 : 0;
  if (tensor.int32_data_size() == 1) return tensor.int32_data(0) != 0;
  if (tensor.int64_data_size() == 1) return tensor.int64_data(0) != 0;
  if (tensor.float_data_size() == 1) return tensor.float_data(0) != 0;
  return -1;
}

}  // namespace

Nodes &Level::nodes() const { return graph ? *graph->mutable_node() : *function->mutable_node(); }

std::vector<std::string> Level::outputs() const {
  if (function) return {function->output().begin(), function->output().end()};
  std::vector<std::string> names;
  for (const auto &output : graph->output()) names.push_back(output.name());
  return names;
}

std::list<Level> levelsOf(onnx_proto::ModelProto &model) {
  std::list<Level> levels;
  const int64_t version = onnxOpset(model.opset_import(), 1);
  addBodies(levels, levels.emplace_back(Level{model.mutable_graph(), nullptr, nullptr, version}));
  for (auto &function : *model.mutable_functions()) {
    const int64_t own = onnxOpset(function.opset_import(), version);
    addBodies(levels, levels.emplace_back(Level{nullptr, &function, nullptr, own}));
  }
  return levels;
}

std::set<std::string> tensorNames(onnx_proto::ModelProto &model) {
  std::set<std::string> names;
  for (const Level &level : levelsOf(model)) {
    if (level.graph) names.merge(definedNames(*level.graph));
    if (level.function) names.insert(level.function->input().begin(), level.function->input().end());
    for (const auto &node : level.nodes()) names.insert(node.output().begin(), node.output().end());
  }
  return names;
}

std::string unusedName(std::set<std::string> &names, const std::string &wanted) {
  std::string name = wanted;
  for (int n = 1; !names.insert(name).second; ++n) name = wanted + "/" + std::to_string(n);
  return name;
}

void renameReads(Nodes &nodes, const std::map<std::string, std::string> &names) {
  const auto renamed = [&](const std::string &name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  };
  const auto inBody = [&](onnx_proto::GraphProto &body) {
    renameReads(*body.mutable_node(), names);
    for (auto &output : *body.mutable_output()) output.set_name(renamed(output.name()));
  };
  for (auto &node : nodes) {
    for (auto &input : *node.mutable_input()) input = renamed(input);
    for (auto &a : *node.mutable_attribute()) {
      if (a.has_g()) inBody(*a.mutable_g());
      for (auto &body : *a.mutable_graphs()) inBody(body);
    }
  }
}

std::set<std::string> namesRead(const Nodes &nodes) {
  std::set<std::string> names;
  for (const auto &node : nodes) {
    names.insert(node.input().begin(), node.input().end());
    names.merge(namesReadBySubgraphs(node));
  }
  names.erase("");
  return names;
}

bool isOnnxOperator(const onnx_proto::NodeProto &node, const char *type) {
  return node.op_type() == type && (node.domain().empty() || node.domain() == "ai.onnx");
}

FixedNames::FixedNames(onnx_proto::ModelProto &model) : levels_(levelsOf(model)) {
  std::set<std::string> functions;
  for (const auto &function : model.functions())
    functions.insert(keyOf(function.domain(), function.name(), function.overload()));
  for (const Level &level : levels_) {
    for (const auto &node : level.nodes()) {
      for (const auto &output : node.output()) producers_[&level].emplace(output, &node);
      const std::string key = keyOf(node.domain(), node.op_type(), node.overload());
      if (functions.contains(key)) calls_[key].push_back({&node, &level});
    }
    if (!level.graph) continue;
    for (const auto &tensor : level.graph->initializer()) initializers_[&level].emplace(tensor.name(), &tensor);
  }
}

bool FixedNames::isFixed(const std::string &name, const Level &level) const {
  for (const Level *l = &level; l; l = l->outer) {
    if (const auto own = initializers_.find(l); own != initializers_.end() && own->second.contains(name)) return true;
    if (const auto own = producers_.find(l); own != producers_.end())
      if (const auto node = own->second.find(name); node != own->second.end()) {
        if (isOnnxOperator(*node->second, "Constant")) return true;
        return isFollowed(*node->second) && std::ranges::all_of(node->second->input(), [&](const std::string &input) {
                 return input.empty() || isFixed(input, *l);
               });
      }
    if (!l->function) continue;
    const auto &inputs = l->function->input();
    const auto place = std::ranges::find(inputs, name) - inputs.begin();
    const auto calls = calls_.find(keyOf(l->function->domain(), l->function->name(), l->function->overload()));
    if (place == inputs.size() || calls == calls_.end()) return false;
    const auto question = std::pair(l, name);
    if (!asked_.insert(question).second) return true;  // a function that calls itself, which is refused later
    const bool all = std::ranges::all_of(calls->second, [&](const Call &call) {
      return place >= call.node->input_size() || call.node->input(static_cast<int>(place)).empty() ||
             isFixed(call.node->input(static_cast<int>(place)), *call.level);
    });
    asked_.erase(question);
    return all;
  }
  return false;
}

int FixedNames::truth(const std::string &name, const Level &level) const {
  for (const Level *l = &level; l; l = l->outer) {
    if (const auto own = initializers_.find(l); own != initializers_.end())
      if (const auto tensor = own->second.find(name); tensor != own->second.end()) return truthOf(*tensor->second);
    const auto own = producers_.find(l);
    if (own == producers_.end()) continue;
    const auto node = own->second.find(name);
    if (node == own->second.end()) continue;
    if (isOnnxOperator(*node->second, "Identity") && node->second->input_size() == 1)
      return truth(node->second->input(0), *l);
    for (const auto &a : node->second->attribute())
      if (isOnnxOperator(*node->second, "Constant") && a.has_t()) return truthOf(a.t());
    return -1;
  }
  return -1;
}

}  // namespace popart::onnx
