// Reads and sums at index positions: Gather and its gradient, GatherElements, OneHot. An index out of range reads
// zeros, writes nothing and is reported, unless the operator allows it. Gradients are added in the order of the
// indices; each task writes a separate range of the result, so sums do not depend on threads.
#include <algorithm>
#include <cstring>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/combine_row.hpp"
#include "base/element_types.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kTaskBytes = int64_t{1} << 17;

// Shared by Gather and its gradient: `outer` slices per index, `count` indices for each group of outer positions.
struct GatherForm {
  AxisSizes data;  // of the tensor gathered from
  int64_t count = 0, outerPerGroup = 1;
  IndexOperand indices;

  // Positions along the axis that indices [k, k + n) of outer position o select; -1: none.
  void places(const KernelArgs &args, int64_t o, int64_t k, int64_t n, int64_t *at) const noexcept {
    indices.places(args, o / outerPerGroup * count + k, 1, n, data.length, at);
  }
};

GatherForm gatherForm(const KernelRequest &request, const Shape &data) {
  const Op &op = *request.op;
  GatherForm f;
  f.data = aroundAxis(data, ops::axisOf(op.attributes(), static_cast<int64_t>(data.size())));
  const int64_t group = op.attrInt("group_size");
  f.count = request.inputs[1].info.nelms() / group;
  f.outerPerGroup = std::max<int64_t>(1, f.data.outer / group);
  if (group == 1) f.outerPerGroup = std::max<int64_t>(1, f.data.outer);
  f.indices = IndexOperand::of(request);
  f.indices.reports = op.attrInt("zero_OOR") == 0;
  if (!f.indices.reports) f.indices.negative = NegativeIndex::kOutOfRange;
  return f;
}

class GatherKernel final : public executable::HostKernel {
 public:
  GatherKernel(const GatherForm &form, int64_t bytes)
      : form_(form), slice_(form.data.inner * bytes), rows_(form.data.outer * form.count) {
    tasks_ = taskCount(rows_ * std::max<int64_t>(slice_, 16), kTaskBytes, rows_);
  }
  std::string name() const override { return "gather"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    switch (slice_) {
      case 0:
        return;
      case 1:
        return rows<1>(args, task);
      case 4:
        return rows<4>(args, task);
      case 8:
        return rows<8>(args, task);
      default:
        return rows<0>(args, task);
    }
  }

 private:
  // kBytes: bytes of a slice, 0: any.
  template <int64_t kBytes>
  void rows(const KernelArgs &args, int task) const noexcept {
    const auto bytes = static_cast<size_t>(kBytes != 0 ? kBytes : slice_);
    const char *from = static_cast<const char *>(args.in[0]);
    char *to = static_cast<char *>(args.out[0]);
    int64_t places[IndexOperand::kAtOnce];
    for (int64_t r = rows_ * task / tasks_, end = rows_ * (task + 1) / tasks_; r < end;) {
      const int64_t o = r / form_.count, k = r % form_.count,
                    n = std::min({IndexOperand::kAtOnce, form_.count - k, end - r});
      form_.places(args, o, k, n, places);
      for (int64_t i = 0; i < n; ++i, ++r) {
        if (places[i] < 0)
          std::memset(to + r * slice_, 0, bytes);
        else
          std::memcpy(to + r * slice_, from + (o * form_.data.length + places[i]) * slice_, bytes);
      }
    }
  }
  GatherForm form_;
  int64_t slice_, rows_, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createGather(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  return std::make_unique<GatherKernel>(gatherForm(request, request.inputs[0].info.shape()), bytes);
}

// A task has a range of positions of one outer position and a range of columns. It clears them, then reads all indices
// and adds the slices that belong to its range.
class GatherGradientKernel final : public executable::HostKernel {
 public:
  GatherGradientKernel(const GatherForm &form, int threads) : form_(form) {
    constexpr int64_t kElements = 1 << 15;
    const AxisSizes &d = form.data;
    // Every task reads all indices, so there are not more tasks than the threads need.
    placeParts_ = taskCount(d.length * d.inner, kElements, std::min<int64_t>(d.length, std::max(32, 2 * threads)));
    if (placeParts_ * d.outer < 16)
      columnParts_ = std::clamp<int64_t>(form.count * d.inner / kElements, 1, std::clamp<int64_t>(d.inner / 64, 1, 16));
  }
  std::string name() const override { return "gather gradient"; }
  int tasks() const override {
    return static_cast<int>(std::max<int64_t>(1, form_.data.outer * placeParts_ * columnParts_));
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const AxisSizes &d = form_.data;
    if (d.outer * d.length * d.inner == 0) return;
    const int64_t column = task % columnParts_, part = task / columnParts_ % placeParts_,
                  o = task / columnParts_ / placeParts_;
    const int64_t begin = d.inner * column / columnParts_, columns = d.inner * (column + 1) / columnParts_ - begin;
    const int64_t first = d.length * part / placeParts_, last = d.length * (part + 1) / placeParts_;
    const float *g = static_cast<const float *>(args.in[0]) + o * form_.count * d.inner + begin;
    float *y = static_cast<float *>(args.out[0]) + o * d.length * d.inner + begin;
    for (int64_t at = first; at < last; ++at) std::fill_n(y + at * d.inner, columns, 0.0f);
    int64_t places[IndexOperand::kAtOnce];
    for (int64_t k = 0; k < form_.count; ++k) {
      if (k % IndexOperand::kAtOnce == 0)
        form_.places(args, o, k, std::min(IndexOperand::kAtOnce, form_.count - k), places);
      const int64_t at = places[k % IndexOperand::kAtOnce];
      if (at < first || at >= last) continue;
      combineRow(RowCombine::kAdd, g + k * d.inner, columns, y + at * d.inner);
    }
  }

 private:
  GatherForm form_;
  int64_t placeParts_ = 1, columnParts_ = 1;
};

std::unique_ptr<executable::Kernel> createGatherGradient(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const auto &result = request.outputs[0].info;
  if (result.dataType() != DataType::FLOAT)
    return reason = "it sums FLOAT only: got " + toText(result.dataType()), nullptr;
  return std::make_unique<GatherGradientKernel>(gatherForm(request, result.shape()), request.threads);
}

// y[i] = x[i with its coordinate along the axis replaced by indices[i]].
class GatherElementsKernel final : public executable::HostKernel {
 public:
  GatherElementsKernel(const Shape &data, const Shape &result, int64_t axis, IndexOperand indices, int64_t bytes)
      : result_(result),
        length_(data[static_cast<size_t>(axis)]),
        strides_(data.size()),
        indices_(std::move(indices)),
        bytes_(bytes),
        elements_(elementCount(result)) {
    int64_t stride = 1;
    for (size_t d = data.size(); d-- > 0; stride *= data[d]) strides_[d] = stride;
    axisStride_ = strides_[static_cast<size_t>(axis)];
    strides_[static_cast<size_t>(axis)] = 0;
    tasks_ = taskCount(elements_, 1 << 13, elements_);
  }
  std::string name() const override { return "gather elements"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    if (!forWidth(bytes_, [&](auto zero) { gather<decltype(zero)>(args, task); })) gather<Wide>(args, task);
  }

 private:
  struct Wide {
    uint64_t parts[2];
  };

  template <class T>
  void gather(const KernelArgs &args, int task) const noexcept {
    int64_t places[IndexOperand::kAtOnce];
    const T *x = static_cast<const T *>(args.in[0]);
    T *y = static_cast<T *>(args.out[0]);
    const size_t last = result_.size() - 1;
    const int64_t width = result_[last], columnStride = strides_[last];
    for (int64_t i = elements_ * task / tasks_, end = elements_ * (task + 1) / tasks_; i < end;) {
      int64_t row = i / width, base = 0, column = i % width;
      // Rows up to the end of the dimension above are `rowStride` apart.
      const int64_t rows = last == 0 ? 1 : result_[last - 1] - row % result_[last - 1],
                    rowStride = last == 0 ? 0 : strides_[last - 1];
      for (size_t d = last; d-- > 0; row /= result_[d]) base += row % result_[d] * strides_[d];
      for (int64_t r = 0; r < rows && i < end; ++r, base += rowStride, column = 0) {
        for (int64_t c = column; c < width && i < end;) {
          const int64_t count = std::min({IndexOperand::kAtOnce, width - c, end - i});
          indices_.places(args, i, 1, count, length_, places);
          for (int64_t k = 0; k < count; ++k)
            y[i + k] = places[k] < 0 ? T{} : x[base + (c + k) * columnStride + places[k] * axisStride_];
          c += count;
          i += count;
        }
      }
    }
  }

  Shape result_;
  int64_t length_, axisStride_ = 1;
  Shape strides_;
  IndexOperand indices_;
  int64_t bytes_, elements_, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createGatherElements(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const auto &data = request.inputs[0].info, &indices = request.inputs[1].info;
  if (data.rank() == 0) return reason = "it takes no scalars", nullptr;
  const int64_t axis = ops::axisOf(request.op->attributes(), data.rank());
  return std::make_unique<GatherElementsKernel>(data.shape(), indices.shape(), axis, IndexOperand::of(request), bytes);
}

// Fills the result with the first value, then writes the second one for each index.
class OneHotKernel final : public executable::HostKernel {
 public:
  OneHotKernel(const AxisSizes &sizes, DataType indexType, int64_t bytes)
      : sizes_(sizes), indexType_(indexType), bytes_(bytes) {
    tasks_ = taskCount(sizes.outer * sizes.length * sizes.inner * bytes, kTaskBytes, sizes.outer);
  }
  std::string name() const override { return "one hot"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    forWidth(bytes_, [&](auto zero) { rows<decltype(zero)>(args, task); });
  }

 private:
  template <class T>
  void rows(const KernelArgs &args, int task) const noexcept {
    const int64_t begin = sizes_.outer * task / tasks_, end = sizes_.outer * (task + 1) / tasks_,
                  block = sizes_.length * sizes_.inner;
    if (block == 0) return;
    const T *values = static_cast<const T *>(args.in[1]);
    T *y = static_cast<T *>(args.out[0]);
    std::fill(y + begin * block, y + end * block, values[0]);
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < sizes_.inner; ++i) {
        const int64_t at =
            placeOf(indexAt(args.in[0], indexType_, o * sizes_.inner + i), sizes_.length, NegativeIndex::kFromEnd);
        if (at >= 0) y[o * block + at * sizes_.inner + i] = values[1];
      }
  }
  AxisSizes sizes_;
  DataType indexType_;
  int64_t bytes_, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createOneHot(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const auto &result = request.outputs[0].info;
  const DataType type = request.inputs[0].info.dataType();
  const int64_t bytes = getDataTypeInfo(result.dataType()).nbytes;
  if (!isIndexType(type)) return reason = "it takes integer indices only: got " + toText(type), nullptr;
  if (bytes <= 0 || bytes > 8) return reason = "it makes no elements of type " + toText(result.dataType()), nullptr;
  return std::make_unique<OneHotKernel>(
      aroundAxis(result.shape(), ops::axisOf(request.op->attributes(), result.rank())), type, bytes);
}

constexpr Entry kIndexKernels[] = {{"Gather", createGather},
                                   {"GatherGrad", createGatherGradient},
                                   {"GatherElements", createGatherElements},
                                   {"OneHot", createOneHot}};

}  // namespace

std::span<const Entry> indexKernels() { return kIndexKernels; }

}  // namespace popart::cpu
