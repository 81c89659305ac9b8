// Reductions that the vector kernels of reduce.cpp refuse: other element types, axes in any order. Elements are
// converted chunk by chunk and folded one after another in double (integers in 64 bits, wrapping), in C order over the
// reduced axes: bit-identical to the reference, several results at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/reduce_groups.hpp"
#include "backends/cpu/task_count.hpp"
#include "base/element_types.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kChunk = 256;

enum class Fold : uint8_t { kSum, kMean, kProduct, kSumSquare, kL1, kL2, kLogSum, kLogSumExp, kMax, kMin };
struct FoldRow {
  const char *type;
  Fold fold;
};
constexpr FoldRow kFoldRows[] = {{"ReduceSum", Fold::kSum},       {"ReduceMean", Fold::kMean},
                                 {"ReduceProd", Fold::kProduct},  {"ReduceSumSquare", Fold::kSumSquare},
                                 {"ReduceL1", Fold::kL1},         {"ReduceL2", Fold::kL2},
                                 {"ReduceLogSum", Fold::kLogSum}, {"ReduceLogSumExp", Fold::kLogSumExp},
                                 {"ReduceMax", Fold::kMax},       {"ReduceMin", Fold::kMin}};

template <class V>
V sumOf(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class V>
V productOf(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
// The result of a fold of no elements of type T: the smallest (largest) value of T for Max (Min), infinite if T has
// infinities.
template <class V, class T>
V identity(Fold fold) {
  using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, V>>;
  if (fold == Fold::kProduct) return V(1);
  if (fold == Fold::kMax) return static_cast<V>(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
  if (fold == Fold::kMin) return static_cast<V>(Limits::has_infinity ? Limits::infinity() : Limits::max());
  return V(0);
}

// total folded with `count` values. top: the group's maximum (kLogSumExp).
template <class V>
V foldChunk(Fold fold, V total, const V *v, int64_t count, V top) {
  for (int64_t i = 0; i < count; ++i) {
    const V x = v[i];
    switch (fold) {
      case Fold::kSum:
      case Fold::kMean:
      case Fold::kLogSum:
        total = sumOf(total, x);
        break;
      case Fold::kProduct:
        total = productOf(total, x);
        break;
      case Fold::kSumSquare:
      case Fold::kL2:
        total = sumOf(total, productOf(x, x));
        break;
      case Fold::kL1:
        total = x < V(0) ? sumOf(total, productOf(V(-1), x)) : sumOf(total, x);
        break;
      case Fold::kMax:
        total = total != total || total > x ? total : x;
        break;
      case Fold::kMin:
        total = total != total || total < x ? total : x;
        break;
      case Fold::kLogSumExp:
        if constexpr (std::is_floating_point_v<V>) total += std::exp(x - top);
        break;
    }
  }
  return total;
}

// T: element type; V: type in which elements are folded.
template <class T, class V>
class FoldKernel final : public executable::HostKernel {
 public:
  FoldKernel(Fold fold, Groups groups) : fold_(fold), groups_(std::move(groups)) {
    tasks_ = taskCount(groups_.results * groups_.members, 1 << 13, groups_.results);
  }
  std::string name() const override { return "fold"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *x = static_cast<const T *>(args.in[0]);
    T *y = static_cast<T *>(args.out[0]);
    for (int64_t i = groups_.results * task / tasks_; i < groups_.results * (task + 1) / tasks_; ++i) {
      const T *group = x + (groups_.members == 0 ? 0 : offsetOf(groups_.kept, i));
      V top = V(0);
      if (fold_ == Fold::kLogSumExp) top = foldGroup(Fold::kMax, group, V(0));
      if (fold_ == Fold::kLogSumExp && std::isinf(static_cast<double>(top)))
        y[i] = asElement<T>(top);
      else
        y[i] = asElement<T>(finish(foldGroup(fold_, group, top), top));
    }
  }

 private:
  V foldGroup(Fold fold, const T *group, V top) const {
    V total = identity<V, T>(fold), chunk[kChunk];
    const GroupAxis &last = groups_.reduced.back();
    for (int64_t at = 0; at < groups_.members; at += last.size) {
      const T *run = group + offsetOf(groups_.reduced, at);
      for (int64_t j = 0; j < last.size; j += kChunk) {
        const int64_t count = std::min(kChunk, last.size - j);
        for (int64_t k = 0; k < count; ++k) chunk[k] = static_cast<V>(run[(j + k) * last.stride]);
        total = foldChunk(fold, total, chunk, count, top);
      }
    }
    return total;
  }
  V finish(V total, [[maybe_unused]] V top) const {
    if constexpr (std::is_floating_point_v<V>) {
      if (fold_ == Fold::kL2) return std::sqrt(total);
      if (fold_ == Fold::kLogSum) return std::log(total);
      if (fold_ == Fold::kLogSumExp) return top + std::log(total);
    }
    if (fold_ != Fold::kMean) return total;
    if (std::is_integral_v<V> && groups_.members == 0) return V(0);
    return total / static_cast<V>(groups_.members);
  }
  Fold fold_;
  Groups groups_;
  int64_t tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createFold(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const std::string &type = request.op->def().base().type();
  const Fold fold =
      std::find_if(std::begin(kFoldRows), std::end(kFoldRows), [&](const FoldRow &r) { return type == r.type; })->fold;
  const TensorInfo &x = request.inputs[0].info;
  const Groups groups = groupsOf(x.shape(), ops::reductionAxes(request.op->attributes(), x.rank()));
  const bool isFloatResult = fold == Fold::kL2 || fold == Fold::kLogSum || fold == Fold::kLogSumExp;
  std::unique_ptr<executable::Kernel> kernel;
  const bool known = forElement(kRealElements, x.dataType(), [&](auto zero) {
    using T = decltype(zero);
    if (std::is_integral_v<T> && isFloatResult)
      reason = "its result is not an integer";
    else
      kernel = std::make_unique<FoldKernel<T, SumOf<T>>>(fold, groups);
  });
  if (!known) reason = "it reduces no elements of type " + toText(x.dataType());
  return kernel;
}

std::vector<Entry> makeFoldEntries() {
  std::vector<Entry> entries;
  for (const FoldRow &row : kFoldRows) entries.push_back({row.type, createFold});
  return entries;
}

}  // namespace

std::span<const Entry> foldKernels() {
  static const std::vector<Entry> entries = makeFoldEntries();
  return entries;
}

}  // namespace popart::cpu
