// The device's own packing, "reversed": elements from the last to the first, behind three of padding. And the backend
// that wants it for the weights of products: kernels of another backend, between conversions.
#include <array>

#include <popart/graph.hpp>

#include "executable/host_kernel.hpp"
#include "executable/permuted_layout.hpp"
#include "support/counting_device/reversed.hpp"

namespace popart::test {
namespace {

using executable::HostKernel;
using executable::Kernel;
using executable::KernelArgs;
using executable::KernelRequest;
using executable::Layout;
using executable::OperandDesc;

class Reversed final : public executable::PermutedLayout<Reversed> {
 public:
  Reversed() : PermutedLayout("reversed") {}
  bool describes(const TensorInfo &) const { return true; }
  int64_t places(const TensorInfo &info) const { return info.nelms() + kPadding; }
  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    for (int64_t i = 0; i < info.nelms(); ++i) move(i, places(info) - 1 - i);
  }

 private:
  static constexpr int64_t kPadding = 3;
};

const executable::LayoutFamily kFamily("reversed", [](std::string_view name) -> std::unique_ptr<const Layout> {
  if (name != "reversed") return nullptr;
  return std::make_unique<Reversed>();
});

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A kernel of plain operands, some of which arrive reversed.
class ConvertingKernel final : public HostKernel {
 public:
  ConvertingKernel(std::shared_ptr<const HostKernel> kernel, const KernelRequest &request)
      : kernel_(std::move(kernel)),
        inputs_(converted(request.inputs)),
        outputs_(converted(request.outputs)),
        shared_(bytes_),
        scratch_(shared_ + aligned(kernel_->sharedBytes())) {}

  std::string name() const override { return kernel_->name() + " reversed"; }
  int64_t scratchBytes() const override { return scratch_ + kernel_->scratchBytes(); }
  void run(const KernelArgs &args, int) const noexcept override {
    std::array<const void *, kMost + 1> in{};
    std::array<void *, kMost + 1> out{};
    char *memory = static_cast<char *>(args.scratch);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Operand &o = inputs_[i];
      in[i] = o.layout ? memory + o.offset : args.in[i];
      if (o.layout) o.layout->unpack(o.info, args.in[i], memory + o.offset);
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      out[i] = outputs_[i].layout ? memory + outputs_[i].offset : args.out[i];
    const KernelArgs inner{in.data(), out.data(), memory + scratch_, args.context, memory + shared_};
    for (int task = 0; task < kernel_->tasks(); ++task) kernel_->run(inner, task);
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (const Operand &o = outputs_[i]; o.layout) o.layout->pack(o.info, memory + o.offset, args.out[i]);
  }

  static constexpr size_t kMost = 64;  // operands

 private:
  struct Operand {
    TensorInfo info;
    const Layout *layout = nullptr;  // null: handed on as it is
    int64_t offset = 0;              // of its plain form in scratch memory
  };

  std::vector<Operand> converted(const std::vector<OperandDesc> &operands) {
    std::vector<Operand> result;
    for (const OperandDesc &o : operands) {
      const bool isReversed = o.connected && o.layout == reversed();
      result.push_back({o.info, isReversed ? o.layout : nullptr, bytes_});
      if (isReversed) bytes_ += aligned(o.info.nbytes());
    }
    return result;
  }

  std::shared_ptr<const HostKernel> kernel_;
  int64_t bytes_ = 0;  // of plain forms
  std::vector<Operand> inputs_, outputs_;
  int64_t shared_, scratch_;  // offsets of the kernel's own memory
};

class ReversingBackend final : public executable::Backend {
 public:
  explicit ReversingBackend(const executable::Backend &inner) : inner_(inner) {}
  std::string name() const override { return "counting"; }
  std::span<const executable::BackendPass> passes() const override { return inner_.passes(); }

  const Layout *wantedLayout(const Op &op, Side side, int index) const override {
    const bool isProduct = op.is("MatMul") || op.is("FusedMatMul");
    if (isProduct && side == Side::In && index == 1) return op.inRank(1) == 2 ? reversed() : nullptr;
    return inner_.wantedLayout(op, side, index);
  }

  std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const override {
    KernelRequest plain = request;
    bool isReversed = false;
    for (auto *list : {&plain.inputs, &plain.outputs})
      for (OperandDesc &o : *list)
        if (o.layout == reversed()) o.layout = nullptr, isReversed = true;
    auto kernel = inner_.createKernel(plain, reason);
    if (!kernel || !isReversed) return kernel;
    auto host = std::dynamic_pointer_cast<const HostKernel>(kernel);
    if (!host || std::max(request.inputs.size(), request.outputs.size()) > ConvertingKernel::kMost)
      return reason = "it converts the operands of kernels of the host, 64 at most", nullptr;
    return withCost(std::make_unique<ConvertingKernel>(std::move(host), request), request);
  }
  bool supports(const Op &op, std::string &reason) const override {
    return createKernel(executable::requestOf(op), reason) != nullptr;
  }

 private:
  const executable::Backend &inner_;
};

}  // namespace

const Layout *reversed() {
  static const Layout *const layout = executable::layoutNamed("reversed");
  return layout;
}

std::unique_ptr<executable::Backend> reversingBackend(const executable::Backend &inner) {
  return std::make_unique<ReversingBackend>(inner);
}

}  // namespace popart::test
