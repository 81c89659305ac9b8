// Names an operator: domain, type, version. ai.onnx is spelled "ai.onnx" (an empty domain means the same).
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include <popart/names.hpp>

namespace popart {

// The number of inputs of a user operator; max 0: any number.
struct NumInputs {
  int min = 0;  // inclusive
  int max = 0;  // inclusive
  NumInputs() = default;
  NumInputs(int n) : min(n), max(n) {}
  NumInputs(int mn, int mx) : min(mn), max(mx) {}
};

// Equal and ordered by domain, type and version; the numbers of operands are ignored.
struct OperatorIdentifier {
  OperatorIdentifier() = default;
  OperatorIdentifier(OpDomain domain_, OpType type_, OpVersion version_, NumInputs inputs = {}, int outputs = 0)
      : domain(domain_.empty() ? "ai.onnx" : std::move(domain_)),
        type(std::move(type_)),
        version(version_),
        numInputs(inputs),
        numOutputs(outputs) {}

  OpDomain domain;        // never empty after construction from a domain
  OpType type;            // "Gelu"
  OpVersion version = 1;  // ONNX since-version
  NumInputs numInputs;    // checked when a node of a user operator is created
  int numOutputs = 0;     // not checked

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

// compat: PopART's name.
using AiOnnxOperatorIdentifierV1 = OperatorIdentifier;

// The identifier of an operator of the library as a constant: Onnx::Operators::Add_7.
struct OperatorName {
  std::string_view domain, type;  // as in OperatorIdentifier
  OpVersion version = 1;          // ONNX since-version
  operator OperatorIdentifier() const { return {OpDomain(domain), OpType(type), version}; }
  std::string str() const { return OperatorIdentifier(*this).str(); }
};

}  // namespace popart

template <>
struct std::hash<popart::OperatorIdentifier> {
  size_t operator()(const popart::OperatorIdentifier &id) const {
    return std::hash<std::string>()(id.type) * 31 + std::hash<std::string>()(id.domain) * 7 + id.version;
  }
};

// The names of all of them (decision 0055): the build generates that header from the catalog after building the
// library, which does not include it.
#if __has_include(<popart/operators.gen.hpp>)
#include <popart/operators.gen.hpp>
#endif
