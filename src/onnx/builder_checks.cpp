// The checks of ModelBuilder on a node's attributes before it adds the node.
#include <algorithm>

#include <popart/error.hpp>
#include <popart/opdef.hpp>

#include "base/nearest.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/operator_table.hpp"

namespace popart::onnx {
namespace {

struct KnownAttributes {
  std::vector<std::string> names, required;
  std::vector<std::string> extensions;  // additional ones of the row: programs written as models have them
};

// nullopt: the attributes of the operator are not known.
std::optional<KnownAttributes> attributesOf(const std::string &domain, const std::string &type, OpVersion version) {
  KnownAttributes known;
  if (domain == "ai.onnx") {
    const std::optional<OperatorForm> form = findForm(type, version);
    if (!form) return std::nullopt;
    for (const AttributeForm &a : form->attributes()) {
      known.names.emplace_back(a.name);
      if (a.required) known.required.emplace_back(a.name);
    }
    if (const OpDef *row = findOnnxOp(domain, type, version))
      for (const AttributeDef &a : row->attributes())
        if (std::ranges::find(row->constInputs(), a.name, &ConstInputDef::attribute) == row->constInputs().end())
          known.extensions.push_back(a.name);
    return known;
  }
  const OpDef *row = domain == "ai.graphcore" ? findOnnxOp(domain, type, version) : nullptr;
  if (!row || (findImportRule(domain, type) && !row->has(Trait::Loss))) return std::nullopt;
  for (const AttributeDef &a : row->attributes()) known.names.push_back(a.name);
  return known;
}

}  // namespace

void requireAttributes(const std::string &domain, const std::string &type, OpVersion version,
                       const BuilderAttributes &attributes) {
  const std::optional<KnownAttributes> known = attributesOf(domain, type, version);
  if (!known) return;
  for (const auto &[name, value] : attributes)
    check(name.starts_with("__") || std::ranges::count(known->names, name) != 0 ||
              std::ranges::count(known->extensions, name) != 0,
          "Builder: {}: attribute '{}' does not exist in version {} of {}: expected one of {}{}", type, name, version,
          domain, known->names, nearestText(name, known->names));
  for (const std::string &name : known->required)
    check(std::ranges::any_of(attributes, [&](const auto &given) { return given.first == name; }),
          "Builder: {}: attribute '{}' is missing: operator set {} of {} needs it", type, name, version, domain);
}

}  // namespace popart::onnx
