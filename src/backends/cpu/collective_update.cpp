// CollectiveUpdate: the element-wise program of its body, which runs on the elements that a collective over replicas
// has joined.
#include <array>

#include <popart/graph.hpp>

#include "backends/collectives/collectives.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_operands.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// The joined elements are operand 0 of the program; the op's other operands follow.
class ElementwiseUpdate final : public executable::Update {
 public:
  explicit ElementwiseUpdate(ElementProgram program) : program_(std::move(program)) {}
  int64_t scratchBytes() const { return program_.scratchBytes(); }

  // Whether each result may be written over the operand that the op names for it. The gradient is read from the memory
  // where it was joined.
  bool canReplace(const std::vector<int64_t> &operands) const {
    for (size_t o = 0; o < operands.size(); ++o)
      if (operands[o] > 0 && !program_.canOverwrite(static_cast<int>(operands[o]), static_cast<int>(o))) return false;
    return true;
  }

  void run(const void *joined, int64_t at, int64_t count, const KernelArgs &args,
           void *const *out) const noexcept override {
    std::array<const void *, ElementProgram::kMaxPointers> in;
    std::copy_n(args.in, program_.inputs.size(), in.begin());
    in[0] = static_cast<const char *>(joined) - at * program_.inputs[0].bytes;
    program_.runRange(in.data(), out, args.scratch, args.context, at, at + count);
  }

 private:
  ElementProgram program_;
};

std::unique_ptr<executable::Kernel> createCollectiveUpdate(const KernelRequest &request, std::string &reason) {
  auto program = makeElementProgram(elementSource(*request.op->getCalledGraphs().front()), request.inputs,
                                    request.outputs, reason);
  if (!program) return nullptr;
  if (program->loop.mode != ElementLoop::Mode::kFlat || program->inputs[0].access != ElementOperand::Access::kFull)
    return reason = "the update broadcasts an operand", nullptr;
  auto update = std::make_shared<const ElementwiseUpdate>(std::move(*program));
  if (!update->canReplace(request.op->attrInts("replaces")))
    return reason = "a result is written before the operand that it replaces is read", nullptr;
  return collectives::updateKernel(request, update, update->scratchBytes(), reason);
}

}  // namespace

std::span<const Entry> collectiveUpdateKernels() {
  static const Entry entries[] = {{"CollectiveUpdate", createCollectiveUpdate}};
  return entries;
}

}  // namespace popart::cpu
