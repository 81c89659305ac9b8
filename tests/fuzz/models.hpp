// The small models that damaged-model tests start from: together they use every family of operators, functions,
// subgraphs, element types and external data. Each of them is legal, runs in a millisecond, and stays below 20 KB.
#pragma once
#include <string>
#include <vector>

namespace popart::fuzz {

struct SmallModel {
  std::string name;
  std::string bytes;  // serialised ModelProto
};

std::vector<SmallModel> smallModels();

// The file that the model "external" reads part of its weights from, and its content.
inline constexpr const char *kExternalFile = "weights.bin";
std::string externalFileContent();

}  // namespace popart::fuzz
