// In the compiled update the product is operand 0 of the program; the epilogue's operands follow in the op's order.
#include "backends/cpu/weight_update.hpp"

#include <array>
#include <cstring>

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

constexpr int kFirstUpdateOperand = 2;  // after the operands of the product

const Graph &epilogueOf(const KernelRequest &request) { return *request.op->getCalledGraphs().front(); }

}  // namespace

std::optional<WeightUpdate> WeightUpdate::descent(const KernelRequest &request, std::string &reason) {
  const auto matched = matchDescent(epilogueOf(request), reason);
  if (!matched) return std::nullopt;
  const OperandDesc &parameter = request.inputs[static_cast<size_t>(kFirstUpdateOperand + matched->parameter)];
  if (parameter.layout != request.outputs[0].layout)
    return reason = "its parameter has layout " + executable::layoutName(parameter.layout), std::nullopt;
  return WeightUpdate(*matched);
}

std::optional<WeightUpdate> WeightUpdate::compiled(const KernelRequest &request, std::string &reason) {
  const OperandDesc &result = request.outputs[0];
  const Graph &epilogue = epilogueOf(request);
  // The gradient has memory of FLOAT, and is rounded to its type.
  std::vector<OperandDesc> inputs{{TensorInfo(DataType::FLOAT, result.info.shape()), result.layout}};
  inputs.insert(inputs.end(), request.inputs.begin() + kFirstUpdateOperand, request.inputs.end());
  auto program = makeElementProgram(elementSource(epilogue), inputs, request.outputs, reason);
  if (!program) return std::nullopt;
  if (program->loop.mode != ElementLoop::Mode::kFlat)
    return reason = "the update after the product broadcasts an operand", std::nullopt;
  program->padding.clear();  // Elements::clear() handles padding
  return WeightUpdate(std::move(*program), epilogue.info(epilogue.inputs()[0]).dataType());
}

int64_t WeightUpdate::scratchBytes() const {
  const auto *program = std::get_if<ElementProgram>(&step_);
  return program ? program->scratchBytes() : 0;
}

bool WeightUpdate::canOverwrite(int input, int output) const {
  const int operand = input - kFirstUpdateOperand;
  if (operand < 0) return false;
  if (const auto *program = std::get_if<ElementProgram>(&step_)) return program->canOverwrite(1 + operand, output);
  return output == 0 && operand == std::get<MatchedDescent>(step_).parameter;
}

Update WeightUpdate::boundDescent(const MatchedDescent &descent, const KernelArgs &args) noexcept {
  const void *const *operands = args.in + kFirstUpdateOperand;
  const auto *old = static_cast<const float *>(operands[descent.parameter]);
  return {.kind = UpdateKind::kSgd,
          .rate = descent.rate.read(operands),
          .decay = descent.decay.read(operands),
          .source = old - static_cast<const float *>(args.out[0])};
}

char *WeightUpdate::Elements::result(size_t output, int64_t position) const noexcept {
  return static_cast<char *>(args_.out[output]) + position * program_.outputBytes[output];
}

void WeightUpdate::Elements::apply(const float *gradient, int64_t position, int64_t count) const noexcept {
  std::array<const void *, ElementProgram::kMaxPointers> in;
  std::array<void *, ElementProgram::kMaxPointers> out;
  in[0] = gradient;
  for (size_t i = 1; i < program_.inputs.size(); ++i) {
    const bool isFull = program_.inputs[i].access == ElementOperand::Access::kFull;
    const auto *operand = static_cast<const char *>(args_.in[kFirstUpdateOperand + i - 1]);
    in[i] = isFull ? operand + position * program_.inputs[i].bytes : operand;
  }
  for (size_t o = 0; o < program_.outputBytes.size(); ++o) out[o] = result(o, position);
  program_.runSpan(in.data(), out.data(), args_.scratch, args_.context, count);
}

void WeightUpdate::Elements::prefetch(int64_t position, int64_t count) const noexcept {
  constexpr int64_t kLineBytes = 64;
  for (size_t i = 1; i < program_.inputs.size(); ++i) {
    if (program_.inputs[i].access != ElementOperand::Access::kFull) continue;
    const auto *first =
        static_cast<const char *>(args_.in[kFirstUpdateOperand + i - 1]) + position * program_.inputs[i].bytes;
    for (int64_t byte = 0; byte < count * program_.inputs[i].bytes; byte += kLineBytes)
      __builtin_prefetch(first + byte, 1, 2);
  }
}

void WeightUpdate::Elements::clear(int64_t position, int64_t count) const noexcept {
  for (size_t o = 0; o < program_.outputBytes.size(); ++o)
    std::memset(result(o, position), 0, static_cast<size_t>(count * program_.outputBytes[o]));
}

}  // namespace popart::cpu
