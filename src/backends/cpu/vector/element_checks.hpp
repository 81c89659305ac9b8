// Checks for operands outside the domain of integer arithmetic, block by block; the first one is reported. A check is
// an instruction of an element program that computes nothing.
#pragma once
#include <cstdint>

#include "backends/cpu/vector/element_ops.hpp"
#include "executable/run_context.hpp"

namespace popart::cpu {

// The domain of the two operands of an instruction.
enum class ElementCheck : uint8_t {
  None,
  Quotient,   // divisor not 0, and not -1 under the smallest integer
  Remainder,  // divisor not 0
};
// The check that an instruction requires.
ElementCheck elementCheck(ElementOp op);

// The position of a block of elements.
struct ElementBlock {
  int64_t position;  // of its first element in the result
  const char *type;  // of the operator
  executable::RunContext *context;
};
// Checks `count` pairs of integers of `type` and reports the first that fails.
void checkElements(ElementCheck check, DataType type, const void *const *in, int64_t count,
                   const ElementBlock &block) noexcept;

}  // namespace popart::cpu
