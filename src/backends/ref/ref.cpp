// The reference backend: finds the kernel of an op by its base type and wraps it as an executable::HostKernel. One task
// each; plain layouts only.
#include "backends/ref/ref.hpp"

#include <string_view>
#include <unordered_map>

#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

using executable::HostKernel;
using executable::Kernel;
using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

constexpr std::span<const Entry> (*kFamilies[])() = {
    unaryKernels,  mathKernels,    reduceKernels,    orderKernels,    shapeKernels,  indexKernels,     scatterKernels,
    nnKernels,     convKernels,    poolKernels,      roiAlignKernels, normKernels,   lossKernels,      optimKernels,
    randomKernels, controlKernels, smallTypeKernels, ctcKernels,      resizeKernels, selectionKernels, roiPoolKernels,
};

RefFn findKernel(std::string_view type) {
  static const std::unordered_map<std::string_view, RefFn> table = [] {
    std::unordered_map<std::string_view, RefFn> all;
    for (auto family : kFamilies) {
      for (const Entry &entry : family()) {
        if (!all.emplace(entry.type, entry.fn).second)
          throw internal_error("reference backend: two kernels for {}", entry.type);
      }
    }
    return all;
  }();
  auto it = table.find(type);
  return it == table.end() ? nullptr : it->second;
}

// Which operands the result of an op with the row `def` may overwrite.
enum class Overwrites : uint8_t { None, First, LikeResult };

Overwrites overwritesOf(const OpDef &def) {
  if (def.has(Trait::VarUpdate) || def.has(Trait::View)) return Overwrites::First;
  return def.has(Trait::Elementwise) ? Overwrites::LikeResult : Overwrites::None;
}

class RefKernel final : public HostKernel {
 public:
  RefKernel(RefFn fn, const KernelRequest &request)
      : fn_(fn), op_(*request.op), overwrites_(overwritesOf(request.op->def())) {
    for (const OperandDesc &d : request.inputs) inputs_.push_back({d.connected ? d.info : TensorInfo(), nullptr});
    for (const OperandDesc &d : request.outputs) outputs_.push_back({d.connected ? d.info : TensorInfo(), nullptr});
  }

  std::string name() const override { return "ref " + op_.type; }

  bool canOverwrite(int input, int output) const override {
    if (overwrites_ == Overwrites::First) return input == 0 && output == 0;
    return overwrites_ == Overwrites::LikeResult && inputs_[input].info == outputs_[output].info;
  }

  void run(const KernelArgs &args, int) const noexcept override {
    std::vector<View> in = inputs_, out = outputs_;
    for (size_t i = 0; i < in.size(); ++i) in[i].data = const_cast<void *>(args.in[i]);
    for (size_t i = 0; i < out.size(); ++i) out[i].data = args.out[i];
    fn_({op_, in, out, args.context});
  }

 private:
  RefFn fn_;
  OpValues op_;
  Overwrites overwrites_;
  std::vector<View> inputs_, outputs_;
};

class RefBackend final : public executable::Backend {
 public:
  std::string name() const override { return "ref"; }

  std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const override {
    if (!supports(*request.op, reason)) return nullptr;
    auto plain = [](const std::vector<OperandDesc> &operands) {
      for (const OperandDesc &d : operands) {
        if (d.connected && d.layout) return false;
      }
      return true;
    };
    if (!plain(request.inputs) || !plain(request.outputs)) {
      reason = "reference kernels take plain layouts only";
      return nullptr;
    }
    return withCost(std::make_unique<RefKernel>(findKernel(request.op->def().base().type()), request), request);
  }

  bool supports(const Op &op, std::string &reason) const override {
    if (op.isUserOp()) {
      reason = "user operators have no reference kernel";
      return false;
    }
    if (findKernel(op.def().base().type())) return true;
    reason = "there is no reference kernel for " + op.def().base().type();
    return false;
  }
};

}  // namespace

const executable::Backend &backend() {
  static const RefBackend instance;
  return instance;
}

std::vector<TensorData> evaluate(const Op &op, const std::vector<TensorData> &inputs) {
  RefFn fn = findKernel(op.def().base().type());
  check(fn != nullptr, "{}: there is no reference kernel: got {}, expected an operator with one", op.debugName(),
        op.opType());
  std::vector<View> in, out;
  for (const TensorData &value : inputs) {
    if (value.empty())
      in.push_back({});
    else
      in.push_back({value.info(), const_cast<void *>(value.data())});
  }
  std::vector<TensorData> results(op.outputCount());
  for (int i = 0; i < op.outputCount(); ++i) {
    if (!op.hasOutput(i)) {
      out.push_back({});
      continue;
    }
    results[i] = TensorData(op.outInfo(i));
    out.push_back({op.outInfo(i), results[i].mutableData()});
  }
  std::atomic<bool> failed{false};
  executable::RunContext run(failed);
  fn({OpValues(op), in, out, run});
  check(!failed, "{}", run.hasFailure() ? run.message(op.debugName()) : std::string());
  return results;
}

}  // namespace popart::ref
