// Names an operator: domain, type, version. ai.onnx is spelled "ai.onnx" (an empty domain means the same).
#pragma once
#include <functional>
#include <string>

#include <popart/names.hpp>

namespace popart {

struct NumInputs {
  int min = 0;
  int max = 0;
  NumInputs() = default;
  NumInputs(int n) : min(n), max(n) {}
  NumInputs(int mn, int mx) : min(mn), max(mx) {}
};

struct OperatorIdentifier {
  OperatorIdentifier() = default;
  OperatorIdentifier(OpDomain domain_, OpType type_, OpVersion version_, NumInputs inputs = {}, int outputs = 0)
      : domain(domain_.empty() ? "ai.onnx" : std::move(domain_)),
        type(std::move(type_)),
        version(version_),
        numInputs(inputs),
        numOutputs(outputs) {}

  OpDomain domain;
  OpType type;
  OpVersion version = 1;
  NumInputs numInputs;
  int numOutputs = 0;

  std::string str() const { return domain + "." + type + ":" + std::to_string(version); }
  bool operator==(const OperatorIdentifier &o) const {
    return type == o.type && domain == o.domain && version == o.version;
  }
  bool operator!=(const OperatorIdentifier &o) const { return !(*this == o); }
  bool operator<(const OperatorIdentifier &o) const {
    if (domain != o.domain) return domain < o.domain;
    return type != o.type ? type < o.type : version < o.version;
  }
};

using AiOnnxOperatorIdentifierV1 = OperatorIdentifier;

}  // namespace popart

template <>
struct std::hash<popart::OperatorIdentifier> {
  size_t operator()(const popart::OperatorIdentifier &id) const {
    return std::hash<std::string>()(id.type) * 31 + std::hash<std::string>()(id.domain) * 7 + id.version;
  }
};
