// Pad in every mode and for every element type: each axis has a table of the input position that an output position
// reads (-1: the fill value). The last axis is copied in runs of contiguous positions. The window kernel of moves.cpp
// is tried first and handles float constants, zeros and negative pads.
#include <algorithm>
#include <cstring>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "base/element_types.hpp"
#include "ops/shape/pad_index.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// A run of an output row: `count` elements from input position `from` on; fill values (from < 0); one element repeated
// (step 0); or elements read backwards (step -1).
struct Run {
  int64_t to, from, count, step;
};

std::vector<Run> runsOf(const std::vector<int64_t> &table) {
  std::vector<Run> runs;
  for (int64_t i = 0; i < static_cast<int64_t>(table.size()); ++i) {
    if (!runs.empty()) {
      Run &r = runs.back();
      const int64_t step = r.from < 0 ? 0 : table[i] - table[i - 1];
      const bool fits = r.from < 0 ? table[i] < 0 : table[i] >= 0 && step >= -1 && step <= 1;
      if (fits && (r.count == 1 || step == r.step)) {
        r.step = step;
        ++r.count;
        continue;
      }
    }
    runs.push_back({i, table[i], 1, 0});
  }
  return runs;
}

template <class T>
class PadKernel final : public executable::HostKernel {
 public:
  PadKernel(std::vector<std::vector<int64_t>> tables, const Shape &input, T fill)
      : tables_(std::move(tables)), runs_(runsOf(tables_.back())), fill_(fill) {
    width_ = static_cast<int64_t>(tables_.back().size());
    int64_t stride = input.back();
    inputWidth_ = stride;
    strides_.resize(tables_.size() - 1);
    for (size_t d = strides_.size(); d-- > 0; stride *= input[d]) {
      strides_[d] = stride;
      rows_ *= static_cast<int64_t>(tables_[d].size());
    }
    tasks_ = taskCount(rows_ * width_, 1 << 15, rows_);
  }
  std::string name() const override { return "pad by table"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *from = static_cast<const T *>(args.in[0]);
    T *to = static_cast<T *>(args.out[0]);
    for (int64_t row = rows_ * task / tasks_; row < rows_ * (task + 1) / tasks_; ++row) {
      const int64_t at = inputRow(row);
      if (at < 0)
        std::fill_n(to + row * width_, width_, fill_);
      else
        copyRow(from + at, to + row * width_);
    }
  }

 private:
  int64_t inputRow(int64_t row) const noexcept {
    int64_t at = 0;
    for (size_t d = strides_.size(); d-- > 0;) {
      const auto size = static_cast<int64_t>(tables_[d].size());
      const int64_t place = tables_[d][static_cast<size_t>(row % size)];
      if (place < 0) return -1;
      at += place * strides_[d];
      row /= size;
    }
    return at;
  }
  void copyRow(const T *from, T *to) const noexcept {
    for (const Run &r : runs_) {
      if (r.from < 0)
        std::fill_n(to + r.to, r.count, fill_);
      else if (r.step == 1)
        std::copy_n(from + r.from, r.count, to + r.to);
      else
        for (int64_t i = 0; i < r.count; ++i) to[r.to + i] = from[r.from + i * r.step];
    }
  }

  std::vector<std::vector<int64_t>> tables_;
  std::vector<Run> runs_;
  T fill_;
  int64_t width_ = 0, inputWidth_ = 0, rows_ = 1, tasks_ = 1;
  Shape strides_;
};

std::unique_ptr<executable::Kernel> createPadOfMode(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &from = request.inputs[0].info, &to = request.outputs[0].info;
  if (from.rank() == 0 || to.nelms() == 0) return reason = "it takes no scalars and gives no empty tensors", nullptr;
  const auto pads = ops::fullPads(op.attributes(), from.rank());
  const std::array<char, 16> element = ops::padFill(to.dataType(), op.attrFloat("value"));
  std::vector<std::vector<int64_t>> tables;
  for (int64_t d = 0; d < from.rank(); ++d)
    tables.push_back(ops::padIndices(op.attrString("mode"), from.shape()[static_cast<size_t>(d)],
                                     pads[static_cast<size_t>(d)], pads[static_cast<size_t>(from.rank() + d)]));
  std::unique_ptr<executable::Kernel> kernel;
  const bool known = forWidth(getDataTypeInfo(to.dataType()).nbytes, [&](auto zero) {
    using T = decltype(zero);
    T fill;
    std::memcpy(&fill, element.data(), sizeof fill);
    kernel = std::make_unique<PadKernel<T>>(std::move(tables), from.shape(), fill);
  });
  if (!known) reason = "it moves no elements of type " + toText(to.dataType());
  return kernel;
}

constexpr Entry kPadKernels[] = {{"Pad", createPadOfMode}};

}  // namespace

std::span<const Entry> padKernels() { return kPadKernels; }

}  // namespace popart::cpu
