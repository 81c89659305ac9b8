// Element-wise operators, alone or fused (FusedElementwise), on the block engine of vector/.
#include <popart/ir.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/parted_kernel.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using Access = ElementOperand::Access;

class ElementKernel final : public PartedKernel {
 public:
  ElementKernel(ElementProgram program, std::string name) : program_(std::move(program)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  int tasks() const override { return program_.tasks(); }
  int64_t scratchBytes() const override { return program_.scratchBytes(); }
  bool canOverwrite(int input, int output) const override { return program_.canOverwrite(input, output); }
  void run(const KernelArgs &args, int task) const noexcept override {
    program_.run(args.in, args.out, args.scratch, args.context, task);
  }
  std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const override {
    ElementProgram program = program_;
    if (!program.cutInto(count)) return nullptr;
    cut = {0, (uint64_t{1} << program.outputBytes.size()) - 1};
    uint64_t whole = 0;  // operands of which each part reads more than its slice
    for (const ElementOperand &input : program.inputs)
      if (input.operand < 64 && input.access != Access::kUnused)
        (input.access == Access::kFull ? cut.inputs : whole) |= uint64_t{1} << input.operand;
    if ((cut.inputs & whole) != 0) return nullptr;
    return std::make_shared<ElementKernel>(std::move(program), name_);
  }

 private:
  ElementProgram program_;
  std::string name_;
};

ElementSource sourceOf(const Op &op) {
  if (op.is(Role::FusedElementwise)) return elementSource(*op.getCalledGraphs().front());
  return {&op.getGraph(), {&op}, op.inputs(), op.outputs()};
}

std::unique_ptr<executable::Kernel> createElementwise(const KernelRequest &request, std::string &reason) {
  const ElementSource source = sourceOf(*request.op);
  auto program = makeElementProgram(source, request.inputs, request.outputs, reason);
  if (!program) return nullptr;
  const std::string name =
      source.ops.size() == 1 ? "elementwise" : "elementwise of " + std::to_string(source.ops.size());
  return std::make_unique<ElementKernel>(std::move(*program), name);
}

std::vector<Entry> makeElementEntries() {
  std::vector<Entry> entries{{"FusedElementwise", createElementwise}};
  for (const char *type : elementTypes()) entries.push_back({type, createElementwise});
  return entries;
}

}  // namespace

std::span<const Entry> elementwiseKernels() {
  static const std::vector<Entry> entries = makeElementEntries();
  return entries;
}

}  // namespace popart::cpu
