// Checks of floating-point values: the first NaN and the first infinity of a tensor in any layout, and the check of a
// result. Blocks are tested for any exponent of all ones, which vectorises; only a block that has one is searched
// element by element. Packed tensors are tested in their layout, including padding, and unpacked only if something was
// found.
#include <algorithm>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// Positions of the first NaN and the first infinity; -1: none.
struct Found {
  int64_t nan = -1, infinity = -1;
  bool any() const { return nan >= 0 || infinity >= 0; }
};

template <class Bits, Bits kExponent, Bits kMantissa>
Found findIn(const void *data, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 1024;
  const auto *x = static_cast<const Bits *>(data);
  Found found;
  for (int64_t from = begin; from < end && (found.nan < 0 || found.infinity < 0); from += kBlock) {
    const int64_t to = std::min(from + kBlock, end);
    int any = 0;
    for (int64_t i = from; i < to; ++i) any |= static_cast<int>((x[i] & kExponent) == kExponent);
    if (!any) continue;
    for (int64_t i = from; i < to; ++i) {
      if ((x[i] & kExponent) != kExponent) continue;
      int64_t &first = (x[i] & kMantissa) != 0 ? found.nan : found.infinity;
      if (first < 0) first = i;
    }
  }
  return found;
}

using Find = Found (*)(const void *data, int64_t begin, int64_t end);
Find findFor(DataType type) {
  switch (type) {
    case DataType::FLOAT:
      return findIn<uint32_t, 0x7f800000u, 0x007fffffu>;
    case DataType::DOUBLE:
      return findIn<uint64_t, 0x7ff0000000000000u, 0x000fffffffffffffu>;
    case DataType::FLOAT16:
      return findIn<uint16_t, 0x7c00u, 0x03ffu>;
    case DataType::BFLOAT16:
      return findIn<uint16_t, 0x7f80u, 0x007fu>;
    default:
      return nullptr;
  }
}

class FirstNonFiniteKernel final : public executable::HostKernel {
 public:
  FirstNonFiniteKernel(const executable::OperandDesc &x, Find find) : info_(x.info), layout_(x.layout), find_(find) {
    stored_ = executable::storageBytes(info_, layout_) / getDataTypeInfo(info_.dataType()).nbytes;
    constexpr int64_t kLeast = int64_t{1} << 14;
    rounds_.add(taskCount(stored_, kLeast, stored_ / kLeast), static_cast<double>(stored_));
    rounds_.add(1, 1);
  }
  std::string name() const override { return "first non-finite"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override { return layout_ ? info_.nbytes() : 0; }
  int64_t sharedBytes() const override { return rounds_.size(0) * static_cast<int64_t>(sizeof(Found)); }

  void run(const KernelArgs &args, int task) const noexcept override {
    auto *parts = static_cast<Found *>(args.shared);
    const auto [round, part] = rounds_.place(task);
    const int64_t count = rounds_.size(0);
    if (round == 0) {
      parts[part] = find_(args.in[0], stored_ * part / count, stored_ * (part + 1) / count);
      return;
    }
    Found first;
    for (int64_t p = count; p-- > 0;) {
      if (parts[p].nan >= 0) first.nan = parts[p].nan;
      if (parts[p].infinity >= 0) first.infinity = parts[p].infinity;
    }
    if (first.any() && layout_) {
      layout_->unpack(info_, args.in[0], args.scratch);
      first = find_(args.scratch, 0, info_.nelms());
    }
    auto *positions = static_cast<int64_t *>(args.out[0]);
    positions[0] = first.nan;
    positions[1] = first.infinity;
  }

 private:
  TensorInfo info_;
  const executable::Layout *layout_;
  Find find_;
  int64_t stored_;  // elements in memory, padding included
  Rounds rounds_;
};

std::unique_ptr<executable::Kernel> createFirstNonFinite(const KernelRequest &request, std::string &reason) {
  const DataType type = request.inputs[0].info.dataType();
  const Find find = findFor(type);
  if (!find) return reason = "it takes no elements of type " + toText(type), nullptr;
  return std::make_unique<FirstNonFiniteKernel>(request.inputs[0], find);
}

// The order of outputs is that of the reference: first the positions in the result.
class FloatingPointCheckKernel final : public executable::HostKernel {
 public:
  explicit FloatingPointCheckKernel(const KernelRequest &request)
      : inputs_(request.inputs.size()),
        op_(request.op->attrString("checked_op")),
        tensor_(request.op->attrString("tensor")) {}
  std::string name() const override { return "floating point check"; }
  void run(const KernelArgs &args, int) const noexcept override {
    using enum executable::FailureKind;
    for (const int which : {0, 1}) {
      const auto position = [&](size_t i) { return static_cast<const int64_t *>(args.in[i])[which]; };
      bool isNew = position(0) >= 0;
      for (size_t i = 1; i < inputs_; ++i) isNew = isNew && position(i) < 0;
      if (isNew)
        args.context.report({.kind = which == 0 ? NotANumber : Infinity,
                             .position = position(0),
                             .subject = op_.c_str(),
                             .tensor = tensor_.c_str()});
    }
  }

 private:
  size_t inputs_;
  std::string op_, tensor_;
};

std::unique_ptr<executable::Kernel> createFloatingPointCheck(const KernelRequest &request, std::string &) {
  return std::make_unique<FloatingPointCheckKernel>(request);
}

constexpr Entry kNonFiniteKernels[] = {{"FirstNonFinite", createFirstNonFinite},
                                       {"FloatingPointCheck", createFloatingPointCheck}};

}  // namespace

std::span<const Entry> nonFiniteKernels() { return kNonFiniteKernels; }

}  // namespace popart::cpu
