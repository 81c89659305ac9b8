// Writes popart/operators.gen.hpp: the identifiers of the library's operators, in the namespaces in which PopART
// programs look for them.   popart_operator_names FILE
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <popart/error.hpp>
#include <popart/opdef.hpp>

#include "api/supported_operations.hpp"

namespace popart {
namespace {

constexpr OpVersion kOldestOpset = 6, kNewestOpset = 11;  // of which there are builder classes

// Name -> value, by namespace.
using Names = std::map<std::string, std::map<std::string, std::string>>;

std::string valueOf(const OperatorIdentifier &id) {
  return "{\"" + id.domain + "\", \"" + id.type + "\", " + std::to_string(id.version) + "}";
}

std::string numbered(const OperatorIdentifier &id) { return id.type + "_" + std::to_string(id.version); }

void addOnnx(const OperatorIdentifier &id, Names &names) {  // by ascending version
  names["Operators"][numbered(id)] = valueOf(id);
  for (OpVersion opset = std::max(id.version, kOldestOpset); opset <= kNewestOpset; ++opset)
    names["AiOnnx::OpSet" + std::to_string(opset)][id.type] = valueOf(id);
}

void addOwn(const OperatorIdentifier &id, Names &names) {
  const OpDef *row = findOpDef(id.type);
  if (row && row->has(Trait::Gradient)) {
    names["GradOperators"][id.type] = names["CustomGradOperators"][id.type] = valueOf(id);
    return;
  }
  names["CustomOperators"][id.type] = names["CustomOperators"][numbered(id)] = valueOf(id);
  const bool internal = row && (row->isInplaceVariant() || row->has(Trait::Internal));
  if (!internal) names["AiGraphcore::OpSet1"][id.type] = names["Operators"][numbered(id)] = valueOf(id);
}

std::string header() {
  Names names;
  for (const OperatorIdentifier &id : supportedOperations(true)) {
    if (id.domain == "ai.onnx") addOnnx(id, names);
    if (id.domain == "ai.graphcore") addOwn(id, names);
  }
  std::string text = "// Made by tools/generators/operator_names.cpp: the operators of this library.\n#pragma once\n";
  text += "#include <popart/operatoridentifier.hpp>\n\n";
  for (const auto &[space, entries] : names) {
    text += "namespace popart::Onnx::" + space + " {\n";
    for (const auto &[name, value] : entries) text += "inline constexpr OperatorName " + name + value + ";\n";
    text += "}\n";
  }
  return text;
}

}  // namespace
}  // namespace popart

int main(int argc, char **argv) {
  try {
    popart::check(argc == 2, "popart_operator_names: expected one argument, the file to write: got {}", argc - 1);
    std::filesystem::create_directories(std::filesystem::path(argv[1]).parent_path());
    std::ofstream file(argv[1]);
    file << popart::header();
    file.close();
    popart::check(file.good(), "popart_operator_names: '{}' cannot be written", argv[1]);
  } catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
