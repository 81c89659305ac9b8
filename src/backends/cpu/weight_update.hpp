// The optimizer's update in the epilogue of a weight gradient: it is applied to each tile of the gradient while the
// tile is in cache, so that the gradient itself never reaches memory. Plain gradient descent runs in registers; any
// other update (momentum, Adam, accumulation, ...) runs as the element-wise program of the epilogue graph.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

// Inputs of the op: the two operands of the product, then those of the epilogue. Results and all operands of more than
// one element have the same layout, packed or plain.
class WeightUpdate {
 public:
  // The epilogue of request.op as plain gradient descent, or compiled to a program. nullopt and a reason if it is
  // something else, or an operand has another layout, or an op has no instruction.
  static std::optional<WeightUpdate> descent(const executable::KernelRequest &request, std::string &reason);
  static std::optional<WeightUpdate> compiled(const executable::KernelRequest &request, std::string &reason);

  // For Kernel::scratchBytes (a multiple of 64) and Kernel::canOverwrite.
  int64_t scratchBytes() const;
  bool canOverwrite(int input, int output) const;
  // Whether it runs as a program over spans of elements.
  bool isProgram() const { return std::holds_alternative<ElementProgram>(step_); }

  // Calls run(const Update &, scratch) with the update bound to the memory of one call. The call's scratch memory
  // begins with scratchBytes() for the update itself; run gets the rest.
  template <class Run>
  void bind(const executable::KernelArgs &args, const Run &run) const noexcept {
    auto *scratch = reinterpret_cast<float *>(static_cast<char *>(args.scratch) + scratchBytes());
    if (const auto *descent = std::get_if<MatchedDescent>(&step_)) return run(boundDescent(*descent, args), scratch);
    const Elements elements(std::get<ElementProgram>(step_), args);
    auto *parameter = static_cast<float *>(args.out[0]);
    run(Update{.kind = UpdateKind::kElements, .elements = &elements, .base = parameter, .type = type_}, scratch);
  }

 private:
  // The compiled update bound to the memory of one call.
  class Elements final : public ElementUpdate {
   public:
    Elements(const ElementProgram &program, const executable::KernelArgs &args) : program_(program), args_(args) {}
    void apply(const float *gradient, int64_t position, int64_t count) const noexcept override;
    void prefetch(int64_t position, int64_t count) const noexcept override;
    void clear(int64_t position, int64_t count) const noexcept override;

   private:
    char *result(size_t output, int64_t position) const noexcept;

    const ElementProgram &program_;
    const executable::KernelArgs &args_;
  };

  using Step = std::variant<MatchedDescent, ElementProgram>;
  explicit WeightUpdate(Step step, DataType type = DataType::FLOAT) : step_(std::move(step)), type_(type) {}
  static Update boundDescent(const MatchedDescent &descent, const executable::KernelArgs &args) noexcept;

  Step step_;
  DataType type_;  // of the gradient
};

}  // namespace popart::cpu
