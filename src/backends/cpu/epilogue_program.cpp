// Memory of a block, in scratch: the arguments, then operands and results whose rows are not contiguous in their
// matrices, then temporaries of the program. A tile of a product has short rows, and one call of an instruction for all
// rows is much faster than one call per row.
#include "backends/cpu/epilogue_program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/element_operands.hpp"

namespace popart::cpu {
namespace {

using executable::OperandDesc;
constexpr int64_t kMost = EpilogueProgram::kMostElements, kLineBytes = 64;

}  // namespace

std::shared_ptr<const CompiledEpilogue> CompiledEpilogue::compile(const ElementSource &source,
                                                                  std::vector<Operand> operands,
                                                                  std::vector<int> results, std::string &reason) {
  std::vector<OperandDesc> inputs, outputs;
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    const bool isOne = i > 0 && operands[i - 1].access == Access::kOne;
    inputs.push_back({TensorInfo(source.graph->info(source.inputs[i]).dataType(), Shape{isOne ? 1 : kMost})});
  }
  for (TensorIndex t : source.outputs) outputs.push_back({TensorInfo(source.graph->info(t).dataType(), Shape{kMost})});
  auto program = makeElementProgram(source, inputs, outputs, reason);
  if (!program) return nullptr;
  if (program->looksAtOperands()) return reason = "its epilogue looks at its operands", nullptr;
  program->limitBlock(kMost);
  auto compiled = std::make_shared<CompiledEpilogue>();
  compiled->program_ = std::move(*program);
  compiled->operands_ = std::move(operands);
  compiled->results_ = std::move(results);
  compiled->valueBytes_ = compiled->program_.inputs[0].bytes;
  return compiled;
}

int64_t CompiledEpilogue::scratchBytes() const { return blockBytes() + program_.scratchBytes(); }

int64_t CompiledEpilogue::blockBytes() const {
  int64_t bytes = valueBytes_ * kMost;
  for (size_t i = 0; i < operands_.size(); ++i) bytes += program_.inputs[i + 1].bytes * kMost;
  for (const int size : program_.outputBytes) bytes += size * kMost;
  return bytes;
}

bool CompiledEpilogue::reads(int extra) const {
  return std::ranges::any_of(operands_, [&](const Operand &o) { return o.extra == extra; });
}

bool CompiledEpilogue::canOverwrite(int extra, int output) const {
  const auto result = std::ranges::find(results_, output);
  if (result == results_.end()) return false;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].extra != extra) continue;
    return operands_[i].access == Access::kMatrix &&
           program_.canOverwrite(static_cast<int>(i) + 1, static_cast<int>(result - results_.begin()));
  }
  return false;
}

bool CompiledEpilogue::canOverwriteValue(int output) const {
  const auto result = std::ranges::find(results_, output);
  return result != results_.end() && program_.outputBytes[result - results_.begin()] == valueBytes_;
}

std::vector<int> CompiledEpilogue::matrices() const {
  std::vector<int> found;
  for (const Operand &o : operands_)
    if (o.access == Access::kMatrix) found.push_back(o.extra);
  return found;
}

BoundEpilogue::BoundEpilogue(const CompiledEpilogue &compiled, const void *const *extras, void *const *out,
                             void *scratch) noexcept
    : compiled_(compiled),
      extras_(extras),
      out_(out),
      scratch_(static_cast<char *>(scratch)),
      runs_(compiled.program_, scratch_ + compiled.blockBytes()) {
  runs_.setInput(0, scratch_);
}

void BoundEpilogue::apply(ptrdiff_t offset, ptrdiff_t stride, int64_t column, int64_t rows, int64_t cols) noexcept {
  using Access = CompiledEpilogue::Access;
  const ElementProgram &program = compiled_.program_;
  const bool isContiguous = rows == 1 || stride == cols;
  char *next = scratch_ + compiled_.valueBytes_ * kMost;
  const auto take = [&](int bytes) { return std::exchange(next, next + bytes * kMost); };
  for (size_t i = 0; i < compiled_.operands_.size(); ++i) {
    const CompiledEpilogue::Operand &o = compiled_.operands_[i];
    const int bytes = program.inputs[i + 1].bytes;
    char *own = take(bytes);
    const auto *from = static_cast<const char *>(extras_[o.extra]);
    if (o.access == Access::kMatrix) from += offset * bytes;
    if (o.access == Access::kRow) from += column * bytes;
    const bool isInPlace = o.access == Access::kOne || rows == 1 || (o.access == Access::kMatrix && isContiguous);
    if (!isInPlace)
      copyRows(from, o.access == Access::kMatrix ? stride * bytes : 0, own, cols * bytes, rows, cols * bytes);
    runs_.setInput(i + 1, isInPlace ? from : own);
  }
  char *const results = next;
  const auto resultAt = [&](size_t o) {
    return static_cast<char *>(out_[compiled_.results_[o]]) + offset * program.outputBytes[o];
  };
  for (size_t o = 0; o < compiled_.results_.size(); ++o) {
    char *own = take(program.outputBytes[o]);
    runs_.setOutput(o, isContiguous ? resultAt(o) : own);
  }
  runs_.run(rows * cols);
  next = results;
  for (size_t o = 0; o < compiled_.results_.size() && !isContiguous; ++o) {
    const int bytes = program.outputBytes[o];
    copyRows(take(bytes), cols * bytes, resultAt(o), stride * bytes, rows, cols * bytes);
  }
}

void BoundEpilogue::prefetch(ptrdiff_t offset, ptrdiff_t stride, int64_t rows, int64_t cols) const noexcept {
  for (size_t i = 0; i < compiled_.operands_.size(); ++i) {
    const CompiledEpilogue::Operand &o = compiled_.operands_[i];
    if (o.access != CompiledEpilogue::Access::kMatrix) continue;
    const int bytes = compiled_.program_.inputs[i + 1].bytes;
    const char *row = static_cast<const char *>(extras_[o.extra]) + offset * bytes;
    for (int64_t r = 0; r < rows; ++r, row += stride * bytes)
      for (int64_t b = 0; b < cols * bytes; b += kLineBytes) __builtin_prefetch(row + b, 0, 2);
  }
}

}  // namespace popart::cpu
