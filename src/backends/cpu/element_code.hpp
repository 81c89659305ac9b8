// Instructions of the element-wise engine while they are compiled: operands have names, registers are not chosen yet.
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
  // What it computes, for those that look for it:
  std::optional<ElementOp> op = std::nullopt;
  ScalarOperands scalars = 0;
  std::optional<DataType> storesFloatsAs = std::nullopt;  // a store of storeFloatAsFunction
  std::optional<DataType> loadsAsFloats = std::nullopt;   // a load of loadAsFloatFunction
};

// Which output a temporary becomes.
using ResultsOfTemporaries = std::map<int, int>;

// One instruction, with the same bits, for
//   q = Div(x, scale); r = NearbyInt(q); s = Add(r, zero); c = Clip(s); store c as an integer of 8 or 16 bits
//   load such an integer as the float f; d = Sub(f, zero); y = Mul(d, scale)
// where nothing else reads what is between; division, sum and difference may be missing.
void joinQuantisations(std::vector<ElementCode> &code, const ResultsOfTemporaries &results);

}  // namespace popart::cpu
