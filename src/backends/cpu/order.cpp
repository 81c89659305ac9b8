// Operators along one axis, line by line: ArgMax, ArgMin, TopK, Sort and CumSum. NaN counts as larger than every
// number; ties go to the smaller index. Prefix sums accumulate in double, integers in 64 bits.
#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/comparable.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/extremes.hpp"
#include "base/element_types.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// Base class: lines are distributed evenly over tasks.
class LineKernel : public executable::HostKernel {
 public:
  LineKernel(const AxisSizes &sizes, int64_t costPerElement) : sizes_(sizes), lines_(sizes.outer * sizes.inner) {
    tasks_ = taskCount(lines_ * sizes.length * costPerElement, 1 << 15, lines_);
  }
  int tasks() const override { return static_cast<int>(tasks_); }

 protected:
  // Calls f(line, offset of its first element in a tensor with `length` elements along the axis).
  template <class F>
  void forLines(int task, int64_t length, F &&f) const {
    for (int64_t l = lines_ * task / tasks_; l < lines_ * (task + 1) / tasks_; ++l)
      f(l, l / sizes_.inner * length * sizes_.inner + l % sizes_.inner);
  }
  AxisSizes sizes_;
  int64_t lines_, tasks_ = 1;
};

template <class T>
class ArgKernel final : public LineKernel {
 public:
  ArgKernel(const AxisSizes &sizes, Extreme extreme, Tie tie, DataType indexType)
      : LineKernel(sizes, 1), extreme_(extreme), tie_(tie), indexType_(indexType) {}
  std::string name() const override { return "arg max or min"; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = lines_ * task / tasks_, end = lines_ * (task + 1) / tasks_;
    const T *x = static_cast<const T *>(args.in[0]);
    if constexpr (std::is_same_v<T, float>) {
      if (sizes_.inner > 1 && sizes_.length > 0 && sizes_.length <= std::numeric_limits<int32_t>::max())
        return columns(args, x, begin, end);
      for (int64_t l = begin; l < end && sizes_.inner == 1; ++l)
        setIndex(args.out[0], indexType_, l, placeOfExtreme(extreme_, tie_, x + l * sizes_.length, sizes_.length));
      if (sizes_.inner == 1) return;
    }
    forLines(task, sizes_.length,
             [&](int64_t line, int64_t at) { setIndex(args.out[0], indexType_, line, placeOfLine(x + at)); });
  }

 private:
  int64_t placeOfLine(const T *x) const noexcept {
    using C = Comparable<T>;
    const int64_t stride = sizes_.inner;
    int64_t best = 0;
    C top = sizes_.length > 0 ? static_cast<C>(x[0]) : C{};
    for (int64_t j = 1; j < sizes_.length; ++j) {
      const C v = static_cast<C>(x[j * stride]);
      const bool above = extreme_ == Extreme::kLargest ? isLess(top, v) : isLess(v, top);
      const bool below = extreme_ == Extreme::kLargest ? isLess(v, top) : isLess(top, v);
      if (above || (tie_ == Tie::kLast && !below)) best = j, top = v;
    }
    return best;
  }

  // Lines [begin, end), which are neighbours in memory.
  void columns(const KernelArgs &args, const float *x, int64_t begin, int64_t end) const noexcept {
    constexpr int64_t kMost = 512;
    int32_t places[kMost];
    for (int64_t line = begin; line < end;) {
      const int64_t outer = line / sizes_.inner, column = line % sizes_.inner,
                    count = std::min({kMost, sizes_.inner - column, end - line});
      placesOfExtremes(extreme_, tie_, x + outer * sizes_.length * sizes_.inner + column, sizes_.inner, sizes_.length,
                       count, places);
      for (int64_t c = 0; c < count; ++c) setIndex(args.out[0], indexType_, line + c, places[c]);
      line += count;
    }
  }

  Extreme extreme_;
  Tie tie_;
  DataType indexType_;
};

template <Extreme kExtreme>
std::unique_ptr<executable::Kernel> createArg(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info;
  const AxisSizes sizes = aroundAxis(x.shape(), ops::axisOf(op.attributes(), x.rank()));
  const Tie tie = op.attrInt("select_last_index") != 0 ? Tie::kLast : Tie::kFirst;
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kNumericElements, x.dataType(), [&](auto zero) {
        kernel = std::make_unique<ArgKernel<decltype(zero)>>(sizes, kExtreme, tie, request.outputs[0].info.dataType());
      }))
    reason = "it compares no elements of type " + toText(x.dataType());
  return kernel;
}

// The first `count` elements of each line in order, and their indices. The order is total (value, then index), so that
// every sorting algorithm gives the same result.
template <class T>
class OrderKernel final : public LineKernel {
 public:
  OrderKernel(const AxisSizes &sizes, int64_t count, Extreme first, DataType indexType)
      : LineKernel(sizes, 8), count_(count), first_(first), indexType_(indexType) {}
  std::string name() const override { return count_ < sizes_.length ? "partial sort" : "sort"; }
  int64_t scratchBytes() const override {
    return sizes_.length * static_cast<int64_t>(usesKeys() ? sizeof(uint64_t) + sizeof(uint32_t) : sizeof(Item));
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *x = static_cast<const T *>(args.in[0]);
    forLines(task, sizes_.length, [&](int64_t line, int64_t at) {
      const int64_t to = line / sizes_.inner * count_ * sizes_.inner + line % sizes_.inner;
      if (usesKeys()) {
        auto *items = static_cast<uint64_t *>(args.scratch);
        auto *keys = reinterpret_cast<uint32_t *>(items + sizes_.length);
        findKeys(x + at, keys);
        largestKeys(keys, sizes_.length, count_, items);
        store(args, x + at, to, [=](int64_t j) { return placeOfItem(items[j]); });
      } else {
        auto *items = static_cast<Item *>(args.scratch);
        sortItems(x + at, items);
        store(args, x + at, to, [=](int64_t j) { return items[j].place; });
      }
    });
  }

 private:
  struct Item {
    Comparable<T> value;
    int64_t place;
  };
  // Whether elements fit into a key.
  bool usesKeys() const { return sizeof(T) <= sizeof(uint32_t) && sizes_.length <= int64_t{UINT32_MAX}; }

  void sortItems(const T *x, Item *items) const noexcept {
    auto before = [this](const Item &a, const Item &b) {
      const bool forth = first_ == Extreme::kLargest ? isLess(b.value, a.value) : isLess(a.value, b.value);
      const bool back = first_ == Extreme::kLargest ? isLess(a.value, b.value) : isLess(b.value, a.value);
      return forth || (!back && a.place < b.place);
    };
    for (int64_t j = 0; j < sizes_.length; ++j) items[j] = {static_cast<Comparable<T>>(x[j * sizes_.inner]), j};
    std::partial_sort(items, items + count_, items + sizes_.length, before);
  }

  void findKeys(const T *x, uint32_t *keys) const noexcept {
    if constexpr (std::is_same_v<T, float>) {
      if (sizes_.inner == 1) {
        orderKeys(x, sizes_.length, keys);
        if (first_ == Extreme::kSmallest)
          for (int64_t j = 0; j < sizes_.length; ++j) keys[j] = ~keys[j];
        return;
      }
    }
    for (int64_t j = 0; j < sizes_.length; ++j)
      keys[j] = first_ == Extreme::kLargest ? orderKeyOf(x[j * sizes_.inner]) : ~orderKeyOf(x[j * sizes_.inner]);
  }

  // placeOf(j): index of element j of the order.
  template <class F>
  void store(const KernelArgs &args, const T *x, int64_t to, F &&placeOf) const noexcept {
    T *y = args.out[0] ? static_cast<T *>(args.out[0]) : nullptr;
    const bool hasIndices = indexType_ != DataType::UNDEFINED && args.out[1] != nullptr;
    for (int64_t j = 0; j < count_; ++j) {
      const int64_t place = placeOf(j);
      if (y) y[to + j * sizes_.inner] = x[place * sizes_.inner];
      if (hasIndices) setIndex(args.out[1], indexType_, to + j * sizes_.inner, place);
    }
  }

  int64_t count_;
  Extreme first_;
  DataType indexType_;  // UNDEFINED: no second result
};

// The first `count` elements of each line (all without a count), in decreasing or increasing order.
std::unique_ptr<executable::Kernel> createOrder(const KernelRequest &request, bool descends,
                                                std::optional<int64_t> count, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info;
  if (x.rank() == 0) return reason = "it takes no scalars", nullptr;
  const AxisSizes sizes = aroundAxis(x.shape(), ops::axisOf(op.attributes(), x.rank()));
  const bool hasIndices = request.outputs.size() > 1 && request.outputs[1].connected;
  const DataType indexType = hasIndices ? request.outputs[1].info.dataType() : DataType::UNDEFINED;
  std::unique_ptr<executable::Kernel> kernel;
  auto make = [&](auto zero) {
    kernel = std::make_unique<OrderKernel<decltype(zero)>>(
        sizes, count.value_or(sizes.length), descends ? Extreme::kLargest : Extreme::kSmallest, indexType);
  };
  if (!forElement(kNumericElements, x.dataType(), make))
    reason = "it orders no elements of type " + toText(x.dataType());
  return kernel;
}

std::unique_ptr<executable::Kernel> createTopK(const KernelRequest &request, std::string &reason) {
  return createOrder(request, request.op->attrInt("largest") != 0, request.op->attrInt("k"), reason);
}
std::unique_ptr<executable::Kernel> createSort(const KernelRequest &request, std::string &reason) {
  return createOrder(request, request.op->attrInt("descending") != 0, std::nullopt, reason);
}

// ---- CumSum -------------------------------------------------------------------------------------

template <class T>
class CumulativeSumKernel final : public LineKernel {
 public:
  struct Form {
    bool isExclusive, isReverse;
  };
  CumulativeSumKernel(const AxisSizes &sizes, Form form) : LineKernel(sizes, 2), form_(form) {}
  std::string name() const override { return "prefix sum"; }
  bool canOverwrite(int, int) const override { return true; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *x = static_cast<const T *>(args.in[0]);
    T *y = static_cast<T *>(args.out[0]);
    forLines(task, sizes_.length, [&](int64_t, int64_t at) {
      Sum total{};
      for (int64_t j = 0; j < sizes_.length; ++j) {
        const int64_t i = at + (form_.isReverse ? sizes_.length - 1 - j : j) * sizes_.inner;
        const Sum next = total + static_cast<Sum>(x[i]);
        y[i] = asElement<T>(form_.isExclusive ? total : next);
        total = next;
      }
    });
  }

 private:
  // Integers wrap modulo 2^64.
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Form form_;
};

std::unique_ptr<executable::Kernel> createCumulativeSum(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info;
  const AxisSizes sizes = aroundAxis(x.shape(), ops::axisOf(op.attributes(), x.rank()));
  std::unique_ptr<executable::Kernel> kernel;
  auto make = [&](auto zero) {
    using K = CumulativeSumKernel<decltype(zero)>;
    kernel = std::make_unique<K>(sizes, typename K::Form{op.attrInt("exclusive") != 0, op.attrInt("reverse") != 0});
  };
  if (!forElement(kNumericElements, x.dataType(), make)) reason = "it adds no elements of type " + toText(x.dataType());
  return kernel;
}

constexpr Entry kOrderKernels[] = {{"ArgMax", createArg<Extreme::kLargest>},
                                   {"ArgMin", createArg<Extreme::kSmallest>},
                                   {"TopK", createTopK},
                                   {"Sort", createSort},
                                   {"CumSum", createCumulativeSum}};

}  // namespace

std::span<const Entry> orderKernels() { return kOrderKernels; }

}  // namespace popart::cpu
