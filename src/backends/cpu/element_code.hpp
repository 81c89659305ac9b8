// Instructions of the element-wise engine during compilation: operands have names, and registers are not assigned yet.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <popart/datatype.hpp>

#include "backends/cpu/vector/element_program.hpp"

namespace popart::cpu {

// An operand of an instruction. Temporaries are numbered in order of creation; each is written once.
struct CodeOperand {
  enum class Kind : uint8_t { kNone, kInput, kOutput, kConstant, kTemporary } kind = Kind::kNone;
  int number = 0;
  bool isTemporary() const { return kind == Kind::kTemporary; }
  bool operator==(const CodeOperand &) const = default;
};

struct ElementCode {
  ElementFn fn = nullptr;
  std::array<CodeOperand, 3> in;
  CodeOperand out;
  std::array<float, 2> parameters = {0, 0};
  ElementCheck check = ElementCheck::None;  // as in ElementInstruction
  const char *type = nullptr;
  DataType checked = DataType::UNDEFINED;
  // What the instruction computes, for passes that search for it:
  std::optional<ElementOp> op = std::nullopt;
  ScalarOperands scalars = 0;
  std::optional<DataType> storesFloatsAs = std::nullopt;  // a store of storeFloatAsFunction
  std::optional<DataType> loadsAsFloats = std::nullopt;   // a load of loadAsFloatFunction
};

// Output numbers of the temporaries that become outputs.
using ResultsOfTemporaries = std::map<int, int>;

// Replaces each of these sequences by one instruction with the same bits:
//   q = Div(x, scale); r = NearbyInt(q); s = Add(r, zero); c = Clip(s); store c as an integer of 8 or 16 bits
//   load such an integer as the float f; d = Sub(f, zero); y = Mul(d, scale)
//   p = Mul(x, scale); s = Add(p, shift); y = Relu(s) or Clip(s)
// Intermediate values must have no other readers. Div, Add and Sub may be missing, and one of the last three.
void joinInstructions(std::vector<ElementCode> &code, const ResultsOfTemporaries &results);

}  // namespace popart::cpu
