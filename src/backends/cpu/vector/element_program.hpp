// A compiled element-wise computation: straight-line instructions over blocks, and the loop that runs them over
// operands of any broadcast shape. Knows no graphs; elementwise.cpp makes programs from operators.
//
// Invariant: results depend only on the operands: every element goes through the same instructions, whatever the blocks
// and tasks.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/vector/element_checks.hpp"
#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {

// Operand numbers of instructions index one table of pointers: inputs, then outputs, then constants, then temporaries.
struct ElementInstruction {
  ElementFn fn = nullptr;
  std::array<int16_t, 3> in = {-1, -1, -1};
  int16_t out = -1;
  std::array<float, 2> parameters = {0, 0};
  ElementCheck check = ElementCheck::None;  // not None: checks its operands and computes nothing
  const char *type = nullptr;               // of a check: type of the operator
  DataType checked = DataType::UNDEFINED;   // of a check: element type of its operands
};

// How the elements of one input are found for an element of the result.
struct ElementOperand {
  int bytes = 4;  // per element
  enum class Access : uint8_t { kUnused, kFull, kOne, kBroadcast } access = Access::kUnused;
  // kBroadcast: in elements, along the loop's dimensions. The last one is 0 or 1; in mode kExpanded it may be any
  // number.
  std::vector<int64_t> strides;
  int operand = 0;     // number of the operand in whose memory it is
  int64_t offset = 0;  // offset of its first element
};

// The loop over the result. Without broadcast inputs: one run of `elements`. Otherwise dims (outer to inner) of a loop
// whose innermost runs are computed one by one (kRows) or, if they are short, several at a time with the inputs
// expanded (kExpanded).
struct ElementLoop {
  enum class Mode : uint8_t { kFlat, kRows, kExpanded } mode = Mode::kFlat;
  int64_t elements = 0;
  std::vector<int64_t> dims;
};

// Lanes of a packed result that contain no element and must stay zero: in each group of `group` elements, from `start`
// on, the lanes [valid, panel) of every `panel`.
struct ElementPadding {
  int64_t group = 0, start = 0, panel = 0, valid = 0;
};

class ElementProgram {
 public:
  static constexpr int kMaxPointers = 128;
  static constexpr int kMaxDims = 8;

  std::vector<ElementOperand> inputs;
  std::vector<int> outputBytes;  // per element
  std::vector<uint64_t> constants;
  int temporaries = 0;
  std::vector<ElementInstruction> code;
  ElementLoop loop;
  std::vector<ElementPadding> padding;  // per output; group 0: none

  // Must be called once when the fields are set. False if there are too many operands.
  bool finish(int costPerElement);
  // Limits the elements of later runs to `elements`, a multiple of 64, so that temporaries need less memory. Called
  // after finish().
  void limitBlock(int64_t elements) {
    block_ = std::min(block_, elements), flatBlock_ = std::min(flatBlock_, elements);
  }
  int tasks() const { return tasks_; }
  // Whether an instruction reports operands outside an operator's domain; runs then need a context.
  bool looksAtOperands() const {
    return std::ranges::any_of(code, [](const ElementInstruction &c) { return c.check != ElementCheck::None; });
  }
  // Makes task p the p-th of `count` equal slices of the result. Returns false, without effect, if that is impossible.
  bool cutInto(int64_t count);
  int64_t scratchBytes() const;
  // Operands outside an operator's domain are reported to `context`.
  void run(const void *const *in, void *const *out, void *scratch, executable::RunContext &context,
           int task) const noexcept;
  // Computes the first `count` elements of operands that start at `in` and `out`. Only for programs without broadcast
  // inputs and padding.
  void runSpan(const void *const *in, void *const *out, void *scratch, executable::RunContext &context,
               int64_t count) const noexcept;
  // Computes elements [begin, end) of the result, in memory order. Only for programs without broadcast inputs.
  void runRange(const void *const *in, void *const *out, void *scratch, executable::RunContext &context, int64_t begin,
                int64_t end) const noexcept;
  // for many short runs
  friend class ElementRuns;
  // Whether output o may overwrite an operand: no instruction reads the operand after the first one that writes o.
  bool canOverwrite(int operand, int o) const;

 private:
  struct Frame;
  bool isReadBefore(size_t input, int o) const;
  void bind(Frame &frame, const void *const *in, void *const *out, void *scratch, int64_t block) const noexcept;
  void runFlat(Frame &frame, int64_t begin, int64_t end, int64_t block) const noexcept;
  void runRows(Frame &frame, int64_t begin, int64_t end) const noexcept;
  void runExpanded(Frame &frame, int64_t begin, int64_t end) const noexcept;
  void runBlock(const Frame &frame, int64_t position, int64_t count) const noexcept;
  void clearPadding(const ElementPadding &p, void *out, int bytes, int64_t position, int64_t count) const noexcept;

  int64_t block_ = 1024;
  // Of mode kFlat. Operands from beyond the caches arrive while others are computed only if blocks are short.
  int64_t flatBlock_ = 1024;
  int64_t perTask_ = 0;  // elements, or pieces of rows
  int tasks_ = 1;
  int expanded_ = 0;  // number of inputs with an expansion buffer
};

// Many short runs, by one thread, of a program without broadcast inputs, padding and checks. Work that runs have in
// common is done once. `scratch`: scratchBytes(). A run has at most as many elements as a block.
class ElementRuns {
 public:
  ElementRuns(const ElementProgram &program, void *scratch) noexcept;
  // Sets where the next runs read input i; setOutput: where they write output o.
  void setInput(size_t i, const void *first) noexcept { pointers_[i] = first; }
  void setOutput(size_t o, void *first) noexcept { pointers_[program_.inputs.size() + o] = first; }
  void run(int64_t count) const noexcept;

 private:
  const ElementProgram &program_;
  const void *pointers_[ElementProgram::kMaxPointers];
};

}  // namespace popart::cpu
