// Windows at an offset known at run time: DynamicSlice, DynamicUpdate, DynamicAdd, DynamicZero. A window is a list of
// runs: contiguous ranges of memory along its last bounded axis and the inner dimensions. A window that exceeds the
// tensor is reported; elements outside the tensor are read as zeros and not written.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/stream_copy.hpp"
#include "backends/cpu/task_count.hpp"
#include "base/element_types.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// The tensor's dimensions up to the last one that the window bounds; `inner` elements follow.
struct WindowForm {
  Shape whole, window;
  std::vector<int> offsetOf;  // by dimension: position in the offset tensor; -1: the whole dimension
  int64_t inner = 1, runs = 1;
  DataType offsetType = DataType::INT32;

  int64_t runElements() const { return window.back() * inner; }
  int64_t elements() const { return runs * runElements(); }
  // For a kernel that calls forEachRun: the start of the window in each dimension.
  int64_t scratchBytes() const { return static_cast<int64_t>(whole.size() * sizeof(int64_t)); }

  // Calls f(first element in the tensor, first element in the window, elements, number of them inside the tensor) for
  // the runs of elements [begin, end) of the window; the first and the last run may be partial.
  template <class F>
  void forEachRun(const KernelArgs &args, int64_t begin, int64_t end, F &&f) const {
    auto *start = static_cast<int64_t *>(args.scratch);
    bool outside = false;
    for (size_t d = 0; d < whole.size(); ++d) {
      start[d] = 0;
      if (offsetOf[d] < 0) continue;
      start[d] = indexAt(args.in[1], offsetType, offsetOf[d]);
      if (start[d] < 0 || start[d] > whole[d] - window[d])
        args.context.report({executable::FailureKind::Offset, 1, offsetOf[d], start[d], 0, whole[d] - window[d]});
      if (start[d] < 0 || start[d] >= whole[d]) outside = true, start[d] = 0;
    }
    const size_t last = whole.size() - 1;
    const int64_t reach = std::min(window[last], whole[last] - start[last]) * inner;
    for (int64_t element = begin; element < end;) {
      const int64_t run = element / runElements(), skipped = element % runElements();
      const int64_t count = std::min(runElements() - skipped, end - element);
      int64_t at = start[last] * inner, rest = run, stride = whole[last] * inner;
      bool inside = !outside && skipped < reach;
      for (size_t d = last; d-- > 0; rest /= window[d]) {
        const int64_t place = start[d] + rest % window[d];
        inside = inside && place < whole[d];
        at += place * stride;
        stride *= whole[d];
      }
      f(inside ? at + skipped : 0, element, count, inside ? std::min(count, reach - skipped) : 0);
      element += count;
    }
  }
};

WindowForm formOf(const KernelRequest &request, const Shape &shape) {
  const auto &axes = request.op->attrInts("axes"), &sizes = request.op->attrInts("sizes");
  const auto rank = static_cast<int64_t>(shape.size());
  WindowForm f;
  f.offsetType = request.inputs[1].info.dataType();
  int64_t bounded = 0;
  for (int64_t axis : axes) bounded = std::max(bounded, normalizeAxis(axis, rank, "axes") + 1);
  f.whole.assign(shape.begin(), shape.begin() + bounded);
  for (int64_t d = bounded; d < rank; ++d) f.inner *= shape[static_cast<size_t>(d)];
  if (f.whole.empty()) f.whole.push_back(1);
  f.window = f.whole;
  f.offsetOf.assign(f.whole.size(), -1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(normalizeAxis(axes[i], rank, "axes"));
    f.window[d] = sizes[i];
    f.offsetOf[d] = static_cast<int>(i);
  }
  for (size_t d = 0; d + 1 < f.window.size(); ++d) f.runs *= f.window[d];
  return f;
}

class DynamicSliceKernel final : public executable::HostKernel {
 public:
  DynamicSliceKernel(const WindowForm &form, int64_t bytes) : form_(form), bytes_(bytes) {
    const int64_t all = form.elements() * bytes;
    tasks_ = taskCount(all, 1 << 17, form.elements());
    isStreamed_ = form.runElements() * bytes >= kLeastStreamed && exceedsCaches(all, all);
  }
  std::string name() const override { return "dynamic slice"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override { return form_.scratchBytes(); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const char *from = static_cast<const char *>(args.in[0]);
    char *to = static_cast<char *>(args.out[0]);
    const int64_t all = form_.elements();
    form_.forEachRun(args, all * task / tasks_, all * (task + 1) / tasks_,
                     [&](int64_t whole, int64_t window, int64_t count, int64_t inside) {
                       char *run = to + window * bytes_;
                       if (isStreamed_)
                         streamBytes(run, from + whole * bytes_, inside * bytes_);
                       else
                         std::memcpy(run, from + whole * bytes_, static_cast<size_t>(inside * bytes_));
                       std::memset(run + inside * bytes_, 0, static_cast<size_t>((count - inside) * bytes_));
                     });
    if (isStreamed_) flushStreams();
  }

 private:
  static constexpr int64_t kLeastStreamed = 512;  // bytes of a run
  WindowForm form_;
  int64_t bytes_, tasks_ = 1;
  bool isStreamed_ = false;
};

enum class Write { Update, Add, Zero };

// One task: copies the whole tensor (nothing if in place), then writes the window.
template <Write kWrite, class T>
class DynamicWriteKernel final : public executable::HostKernel {
 public:
  DynamicWriteKernel(const WindowForm &form, int64_t bytes) : form_(form), bytes_(bytes) {}
  std::string name() const override { return "dynamic write"; }
  // Of the window alone: the tensor is usually updated in place.
  double bytes() const override {
    constexpr double kMoves = kWrite == Write::Zero ? 1 : kWrite == Write::Update ? 2 : 3;
    return kMoves * static_cast<double>(form_.elements()) * sizeof(T);
  }
  bool canOverwrite(int input, int) const override { return input == 0; }
  int64_t scratchBytes() const override { return form_.scratchBytes(); }
  void run(const KernelArgs &args, int) const noexcept override {
    if (bytes_ > 0 && args.out[0] != args.in[0]) std::memcpy(args.out[0], args.in[0], static_cast<size_t>(bytes_));
    T *to = static_cast<T *>(args.out[0]);
    const T *slice = kWrite == Write::Zero ? nullptr : static_cast<const T *>(args.in[2]);
    form_.forEachRun(args, 0, form_.elements(), [&](int64_t whole, int64_t window, int64_t, int64_t inside) {
      if constexpr (kWrite == Write::Zero) std::fill_n(to + whole, inside, T(0));
      if constexpr (kWrite == Write::Update) std::copy_n(slice + window, inside, to + whole);
      if constexpr (kWrite == Write::Add)
        for (int64_t i = 0; i < inside; ++i) to[whole + i] = static_cast<T>(to[whole + i] + slice[window + i]);
    });
  }

 private:
  WindowForm form_;
  int64_t bytes_;
};

constexpr int64_t kMostBytes = 8;

std::unique_ptr<executable::Kernel> createDynamicSlice(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason, kMostBytes);
  if (bytes == 0) return nullptr;
  return std::make_unique<DynamicSliceKernel>(formOf(request, request.inputs[0].info.shape()), bytes);
}

template <Write kWrite>
std::unique_ptr<executable::Kernel> createWrite(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason, kMostBytes);
  if (bytes == 0) return nullptr;
  const WindowForm form = formOf(request, request.outputs[0].info.shape());
  const int64_t all = request.outputs[0].info.nbytes();
  std::unique_ptr<executable::Kernel> kernel;
  forWidth(bytes, [&](auto zero) { kernel = std::make_unique<DynamicWriteKernel<kWrite, decltype(zero)>>(form, all); });
  return kernel;
}

// Addition modulo 2^n is the same for signed and unsigned integers.
std::unique_ptr<executable::Kernel> createAdd(const KernelRequest &request, std::string &reason) {
  const DataType type = request.outputs[0].info.dataType();
  if (isIndexType(type)) return createWrite<Write::Add>(request, reason);
  if (!allPlain(request, reason)) return nullptr;
  if (type != DataType::FLOAT) return reason = "it adds no elements of type " + toText(type), nullptr;
  return std::make_unique<DynamicWriteKernel<Write::Add, float>>(formOf(request, request.outputs[0].info.shape()),
                                                                 request.outputs[0].info.nbytes());
}

constexpr Entry kDynamicKernels[] = {{"DynamicSlice", createDynamicSlice},
                                     {"DynamicUpdate", createWrite<Write::Update>},
                                     {"DynamicZero", createWrite<Write::Zero>},
                                     {"DynamicAdd", createAdd}};

}  // namespace

std::span<const Entry> dynamicKernels() { return kDynamicKernels; }

}  // namespace popart::cpu
