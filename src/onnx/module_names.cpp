// See module_names.hpp.
#include "onnx/module_names.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr char kScopesKey[] = "pkg.torch.onnx.name_scopes", kRulesKey[] = "pkg.onnxscript.rewriter.rule_name";

// A list of texts as Python prints it; nothing for other text.
std::optional<std::vector<std::string>> parseList(std::string_view text) {
  std::vector<std::string> items;
  if (!text.starts_with("[") || !text.ends_with("]")) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const char quote = text.front();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text.find(quote, 1);
    if (end == std::string_view::npos || text.substr(0, end).find('\\') != std::string_view::npos) return std::nullopt;
    items.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    if (!text.empty() && !text.starts_with(", ")) return std::nullopt;
    text.remove_prefix(std::min<size_t>(text.size(), 2));
  }
  return items;
}

std::string_view metadataOf(const onnx_proto::NodeProto &node, std::string_view key) {
  for (const auto &entry : node.metadata_props())
    if (entry.key() == key) return entry.value();
  return {};
}

// "layer1.0." of "layer1.0.conv1".
std::string_view parentOf(std::string_view module) { return module.substr(0, module.rfind('.') + 1); }

// The modules of a node from outside to inside, without the model itself; nothing where the file does not say them. A
// product into which the exporter has folded a batch norm has the metadata of the norm, and its own weights.
std::optional<std::vector<std::string>> modulesOf(const onnx_proto::NodeProto &node) {
  std::optional<std::vector<std::string>> modules = parseList(metadataOf(node, kScopesKey));
  if (!modules || modules->empty()) return std::nullopt;
  modules->pop_back();  // the operation
  std::erase(*modules, "");
  if (modules->empty() || node.input_size() < 2 ||
      metadataOf(node, kRulesKey).find("FuseBatchNorm") == std::string_view::npos)
    return modules;
  std::string_view weight = node.input(1);
  constexpr std::string_view kWeight = ".weight";
  if (!weight.ends_with(kWeight)) return modules;
  weight.remove_suffix(kWeight.size());
  if (parentOf(weight) == parentOf(modules->back())) modules->back() = weight;
  return modules;
}

// The attribute that holds a module: "layer1.0.conv1" is "conv1". Numbers of a list follow its name: "layer1.0".
std::string_view attributeOf(std::string_view module) {
  size_t begin = module.size();
  for (bool isNumber = true; isNumber && begin > 0;) {
    const size_t end = begin;
    const size_t dot = module.rfind('.', end - 1);
    begin = dot == std::string_view::npos ? 0 : dot + 1;
    isNumber = std::ranges::all_of(module.substr(begin, end - begin),
                                   [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (isNumber && begin > 0) --begin;
  }
  return module.substr(begin);
}

// Gives each name once: "/Add", "/Add_1".
class UniqueNames {
 public:
  std::string next(const std::string &base) {
    std::string name = base;
    for (int &number = numbers_[base]; !taken_.insert(name).second;) name = base + "_" + std::to_string(++number);
    return name;
  }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::unordered_set<std::string> taken_;
};

struct Call {
  std::string module, name;
};

}  // namespace

std::unordered_map<const onnx_proto::NodeProto *, std::string> moduleNames(const onnx_proto::GraphProto &graph) {
  std::unordered_map<const onnx_proto::NodeProto *, std::string> names;
  UniqueNames modules, nodes;
  std::vector<Call> open;  // calls that the last node was in, from outside to inside
  for (const auto &node : graph.node()) {
    const auto found = modulesOf(node);
    if (!found) continue;
    size_t common = 0;
    while (common < std::min(open.size(), found->size()) && open[common].module == (*found)[common]) ++common;
    open.resize(common);
    for (size_t i = common; i < found->size(); ++i) {
      std::string base = open.empty() ? "/" : open.back().name + "/";
      base += attributeOf((*found)[i]);
      open.push_back({(*found)[i], modules.next(base)});
    }
    names.emplace(&node, nodes.next((open.empty() ? "" : open.back().name) + "/" + node.op_type()));
  }
  return names;
}

}  // namespace popart::onnx
