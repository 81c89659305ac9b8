// Flattening: one pass over main graph, bodies and calls of functions.
#include "onnx/training/flat_model.hpp"

#include <map>
#include <set>
#include <unordered_map>

#include <popart/datatype.hpp>

#include "onnx/importer.hpp"
#include "onnx/model_check.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr int kMostDepth = 64;

// Names of one graph or function.
struct Names {
  const Names *outer = nullptr;
  std::map<std::string, int64_t> opsets;
  bool inFunction = false;
  std::string path = {};  // of a body, for ids of its initializers
  std::unordered_map<std::string, int> values = {};

  int find(const std::string &name) const {
    for (const Names *names = this; names; names = names->outer)
      if (const auto found = names->values.find(name); found != names->values.end()) return found->second;
    return -1;
  }
};

class Flattener {
 public:
  explicit Flattener(const ModelContent &model) : proto_(*model.proto) {
    int64_t nodes = proto_.graph().node_size();
    for (const auto &f : proto_.functions()) {
      functions_[key(f.domain(), f.name(), f.overload())] = &f;
      nodes += f.node_size();
    }
    mostNodes_ = mostNodesAfterExpansion(nodes);
  }

  FlatModel run() {
    Names names{.opsets = opsetsOf(proto_)};
    addGraph(proto_.graph(), names, nullptr);
    chooseIds();
    findStatic();
    return std::move(flat_);
  }

 private:
  static std::string key(const std::string &domain, const std::string &name, const std::string &overload) {
    return (domain.empty() ? "ai.onnx" : domain) + "." + name + ":" + overload;
  }

  int newValue(const std::string &name) {
    const auto value = static_cast<int>(flat_.uses.size());
    flat_.uses.emplace_back();
    flat_.producer.push_back(-1);
    flat_.initializer.push_back(-1);
    flat_.nameOf.push_back(name);
    return value;
  }
  int declare(const std::string &name, Names &names) { return names.values[name] = newValue(name); }

  int addNode(FlatNode node) {
    const auto index = static_cast<int>(flat_.nodes.size());
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] >= 0) flat_.uses[node.inputs[i]].push_back({index, static_cast<int>(i)});
    for (int output : node.outputs)
      if (output >= 0) flat_.producer[output] = index;
    flat_.nodes.push_back(std::move(node));
    return index;
  }
  // Adds one of the values that `node`, a kJoin or kState, can have.
  void addInput(int node, int value) {
    if (value < 0) return;
    flat_.uses[value].push_back({node, static_cast<int>(flat_.nodes[node].inputs.size())});
    flat_.nodes[node].inputs.push_back(value);
  }
  int join(const char *type, const std::vector<int> &inputs, int output, const onnx_proto::NodeProto &owner) {
    FlatNode node{.domain = "", .type = type, .outputs = {output}, .text = nodeText(owner)};
    for (int input : inputs)
      if (input >= 0) node.inputs.push_back(input);
    return addNode(std::move(node));
  }

  // `inputs`: the values of its inputs if it is a body; null for the main graph.
  void addGraph(const onnx_proto::GraphProto &graph, Names &names, const std::vector<int> *inputs) {
    for (const auto &tensor : graph.initializer()) addInitializer(tensor, names);
    for (const auto &tensor : graph.sparse_initializer())
      flat_.initializer[declare(tensor.values().name(), names)] = FlatModel::kOther;
    for (int i = 0; i < graph.input_size(); ++i) {
      const std::string &name = graph.input(i).name();
      if (inputs && i < static_cast<int>(inputs->size()))
        names.values[name] = (*inputs)[i];
      else if (!names.values.contains(name) && !(inputs && names.find(name) >= 0))
        declare(name, names);
    }
    for (const auto &node : graph.node())
      for (const auto &output : node.output())
        if (!output.empty()) declare(output, names);
    for (const auto &node : graph.node()) addNodeOf(node, names);
  }

  void addInitializer(const onnx_proto::TensorProto &tensor, Names &names) {
    const int value = declare(tensor.name(), names);
    flat_.initializer[value] = FlatModel::kOther;
    const DataType type = fromOnnxDataType(tensor.data_type());
    if (!isFloatingPoint(type) || !listed_.insert(&tensor).second) return;
    flat_.initializer[value] = static_cast<int>(flat_.initializers.size());
    flat_.initializers.push_back({.id = tensor.name(),
                                  .tensor = &tensor,
                                  .value = value,
                                  .isInBody = names.outer != nullptr || names.inFunction,
                                  .isInFunction = names.inFunction});
    paths_.push_back(names.path);
  }

  void addNodeOf(const onnx_proto::NodeProto &proto, Names &names) {
    if (static_cast<int64_t>(flat_.nodes.size()) >= mostNodes_ || depth_ >= kMostDepth) return;
    std::vector<int> inputs, outputs;
    for (const auto &input : proto.input()) inputs.push_back(input.empty() ? -1 : names.find(input));
    for (const auto &output : proto.output()) outputs.push_back(output.empty() ? -1 : names.find(output));
    const auto function = functions_.find(key(proto.domain(), proto.op_type(), proto.overload()));
    ++depth_;
    if (function != functions_.end()) {
      addCall(*function->second, proto, inputs, outputs, names);
    } else if (hasBody(proto)) {
      addBodies(proto, inputs, outputs, names);
    } else {
      const std::string domain = proto.domain().empty() ? "ai.onnx" : proto.domain();
      const auto opset = names.opsets.find(domain);
      addNode({.proto = &proto,
               .domain = domain,
               .type = proto.op_type(),
               .opset = opset == names.opsets.end() ? 1 : opset->second,
               .inputs = std::move(inputs),
               .outputs = std::move(outputs),
               .text = nodeText(proto),
               .isOfMainGraph = !names.outer && !names.inFunction});
    }
    --depth_;
  }

  void addCall(const onnx_proto::FunctionProto &function, const onnx_proto::NodeProto &call,
               const std::vector<int> &inputs, const std::vector<int> &outputs, const Names &around) {
    Names names{.opsets = around.opsets, .inFunction = true};
    for (const auto &import : function.opset_import())
      names.opsets[import.domain().empty() ? "ai.onnx" : import.domain()] = import.version();
    for (int i = 0; i < function.input_size(); ++i)
      names.values[function.input(i)] = i < static_cast<int>(inputs.size()) ? inputs[i] : -1;
    for (const auto &node : function.node())
      for (const auto &output : node.output())
        if (!output.empty()) declare(output, names);
    for (const auto &node : function.node()) addNodeOf(node, names);
    for (int i = 0; i < function.output_size() && i < static_cast<int>(outputs.size()); ++i)
      if (outputs[i] >= 0) join(kJoin, {names.find(function.output(i))}, outputs[i], call);
  }

  static bool hasBody(const onnx_proto::NodeProto &node) {
    for (const auto &a : node.attribute())
      if (a.has_g()) return true;
    return false;
  }

  void addBodies(const onnx_proto::NodeProto &node, const std::vector<int> &inputs, const std::vector<int> &outputs,
                 const Names &around) {
    std::vector<int> joins(outputs.size(), -1);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] >= 0) joins[i] = join(kJoin, {}, outputs[i], node);
    for (const auto &attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      const std::string owner =
          node.name().empty() ? (node.output_size() ? node.output(0) : node.op_type()) : node.name();
      Names names{.outer = &around,
                  .opsets = around.opsets,
                  .inFunction = around.inFunction,
                  .path = around.path + owner + "/" + attribute.name() + "/"};
      addBody(attribute.g(), node, inputs, joins, names);
    }
  }

  // How the inputs of a body follow from the node's: first `skipped` inputs of the body and of the node, then states,
  // then values that are passed on.
  struct BodyForm {
    int skippedOfBody = 0, skippedOfNode = 0, states = 0, skippedResults = 0;
  };
  static BodyForm formOf(const onnx_proto::NodeProto &node, int64_t opset) {
    BodyForm form;
    const int given = node.input_size();
    if (node.op_type() == "Loop") {
      form = {2, 2, std::max(0, given - 2), 1};
    } else if (node.op_type() == "Scan") {
      const int first = opset < 9 ? 1 : 0;
      int scanned = 0;
      for (const auto &a : node.attribute())
        if (a.name() == "num_scan_inputs") scanned = static_cast<int>(a.i());
      form = {0, first, std::max(0, given - first - scanned), 0};
    } else if (node.op_type() == "If") {
      form.skippedOfNode = 1;
    }
    return form;
  }

  void addBody(const onnx_proto::GraphProto &body, const onnx_proto::NodeProto &node, const std::vector<int> &inputs,
               const std::vector<int> &joins, Names &names) {
    const auto opset = names.opsets.find("ai.onnx");
    const BodyForm form = formOf(node, opset == names.opsets.end() ? 1 : opset->second);
    std::vector<int> values, states;
    for (int i = 0; i < form.skippedOfBody; ++i) values.push_back(newValue(""));
    for (size_t i = static_cast<size_t>(form.skippedOfNode); i < inputs.size(); ++i) {
      const bool isState = static_cast<int>(states.size()) < form.states;
      values.push_back(newValue(""));
      const int handed = join(isState ? kState : kJoin, {inputs[i]}, values.back(), node);
      if (isState) states.push_back(handed);
    }
    addGraph(body, names, &values);
    for (int i = form.skippedResults; i < body.output_size(); ++i) {
      const int result = names.find(body.output(i).name());
      const auto output = static_cast<size_t>(i - form.skippedResults);
      if (output < states.size()) addInput(states[output], result);
      if (output < joins.size() && joins[output] >= 0) addInput(joins[output], result);
    }
  }

  // Names that several graphs use get the body's path as prefix.
  void chooseIds() {
    std::map<std::string, int> count;
    for (const auto &name : definedNames(proto_.graph())) ++count[name];
    for (const FlatInitializer &i : flat_.initializers)
      if (i.isInBody) ++count[i.id];
    std::set<std::string> taken;
    for (size_t i = 0; i < flat_.initializers.size(); ++i) {
      FlatInitializer &of = flat_.initializers[i];
      if (!of.isInBody || count[of.id] == 1) continue;
      const std::string base = paths_[i] + of.id;
      std::string id = base;
      for (int n = 2; count.contains(id) || !taken.insert(id).second; ++n) id = base + "/" + std::to_string(n);
      of.id = id;
    }
  }

  void findStatic() {
    flat_.isStatic.assign(flat_.uses.size(), false);
    std::vector<int> open(flat_.nodes.size()), ready;
    const auto settle = [&](int node) {
      const FlatNode &n = flat_.nodes[node];
      if (n.type.starts_with("Random")) return;
      for (int output : n.outputs)
        if (output >= 0) ready.push_back(output);
    };
    for (size_t i = 0; i < flat_.nodes.size(); ++i) {
      for (int input : flat_.nodes[i].inputs) open[i] += input >= 0;
      if (open[i] == 0) settle(static_cast<int>(i));
    }
    for (size_t v = 0; v < flat_.initializer.size(); ++v)
      if (flat_.initializer[v] != -1) ready.push_back(static_cast<int>(v));
    while (!ready.empty()) {
      const int value = ready.back();
      ready.pop_back();
      if (flat_.isStatic[value]) continue;
      flat_.isStatic[value] = true;
      for (const FlatUse &use : flat_.uses[value])
        if (--open[use.node] == 0) settle(use.node);
    }
  }

  const onnx_proto::ModelProto &proto_;
  std::map<std::string, const onnx_proto::FunctionProto *> functions_;
  FlatModel flat_;
  std::vector<std::string> paths_;  // by initializer
  std::set<const onnx_proto::TensorProto *> listed_;
  int64_t mostNodes_;
  int depth_ = 0;
};

}  // namespace

FlatModel flatModel(const ModelContent &model) { return Flattener(model).run(); }

}  // namespace popart::onnx
