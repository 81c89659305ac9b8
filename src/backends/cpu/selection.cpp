// Operators that choose by value. Unique sorts the numbers of the rows; NonMaxSuppression has a task for each batch and
// class. Both orders are total (value, then position), so that every algorithm gives the same result.
#include <algorithm>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/comparable.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "base/element_types.hpp"
#include "ops/index/box_overlap.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// Returns -1, 0 or 1.
template <class T>
int order(T a, T b) {
  return static_cast<int>(isLess(b, a)) - static_cast<int>(isLess(a, b));
}

// ---- Unique -------------------------------------------------------------------------------------

// The row numbers in the order of the rows' values, then of the numbers; equal rows are neighbours. Scratch memory: an
// item for each row, and the number of each group of equal rows.
template <class T>
class UniqueKernel final : public executable::HostKernel {
 public:
  UniqueKernel(const AxisSizes &sizes, bool isSorted) : sizes_(sizes), isSorted_(isSorted) {}
  std::string name() const override { return "sort of rows"; }
  int64_t scratchBytes() const override { return sizes_.length * static_cast<int64_t>(sizeof(Item) + sizeof(int64_t)); }

  void run(const KernelArgs &args, int) const noexcept override {
    const T *x = static_cast<const T *>(args.in[0]);
    auto *items = static_cast<Item *>(args.scratch);
    auto *names = reinterpret_cast<int64_t *>(items + sizes_.length);
    auto *first = static_cast<int64_t *>(args.out[0]), *inverse = static_cast<int64_t *>(args.out[1]),
         *counts = static_cast<int64_t *>(args.out[2]);
    const int64_t length =
        args.in[1] ? std::clamp<int64_t>(*static_cast<const int64_t *>(args.in[1]), 0, sizes_.length) : sizes_.length;
    for (int64_t i = 0; i < length; ++i) items[i] = {leading(x, i), i};
    std::sort(items, items + length, [&](const Item &a, const Item &b) {
      const int by = compare(x, a, b);
      return by != 0 ? by < 0 : a.row < b.row;
    });
    for (int64_t *out : {first, inverse, counts}) std::fill_n(out, sizes_.length, int64_t{0});
    const int64_t groups = group(x, items, length, first, inverse, counts);
    *static_cast<int64_t *>(args.out[3]) = groups;
    if (!isSorted_) renumber(length, groups, names, first, inverse, counts);
  }

 private:
  struct Item {
    Comparable<T> value;  // the row's first element
    int64_t row;
  };

  Comparable<T> leading(const T *x, int64_t row) const {
    return sizes_.outer * sizes_.inner == 0 ? Comparable<T>{} : static_cast<Comparable<T>>(x[row * sizes_.inner]);
  }

  int compare(const T *x, const Item &a, const Item &b) const {
    if (const int by = order(a.value, b.value); by != 0) return by;
    for (int64_t o = 0; o < sizes_.outer; ++o)
      for (int64_t k = o == 0 ? 1 : 0; k < sizes_.inner; ++k) {
        const auto at = [&](int64_t row) {
          return static_cast<Comparable<T>>(x[(o * sizes_.length + row) * sizes_.inner + k]);
        };
        if (const int by = order(at(a.row), at(b.row)); by != 0) return by;
      }
    return 0;
  }

  // Equal rows are a group; the first of them has the lowest number.
  int64_t group(const T *x, const Item *items, int64_t length, int64_t *first, int64_t *inverse,
                int64_t *counts) const {
    int64_t groups = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (i == 0 || compare(x, items[i - 1], items[i]) != 0) first[groups++] = items[i].row;
      inverse[items[i].row] = groups - 1;
      ++counts[groups - 1];
    }
    return groups;
  }

  // Renumbers groups in the order of their first rows.
  static void renumber(int64_t length, int64_t groups, int64_t *names, int64_t *first, int64_t *inverse,
                       int64_t *counts) {
    int64_t next = 0;
    for (int64_t row = 0; row < length; ++row)
      if (first[inverse[row]] == row) names[inverse[row]] = next++;
    for (int64_t row = 0; row < length; ++row) inverse[row] = names[inverse[row]];
    std::fill_n(first, groups, int64_t{-1});
    std::fill_n(counts, groups, int64_t{0});
    for (int64_t row = 0; row < length; ++row) {
      if (first[inverse[row]] < 0) first[inverse[row]] = row;
      ++counts[inverse[row]];
    }
  }

  AxisSizes sizes_;
  bool isSorted_;
};

std::unique_ptr<executable::Kernel> createUnique(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info;
  for (const auto &output : request.outputs)
    if (!output.connected) return reason = "it gives all four results", nullptr;
  const AxisSizes sizes = aroundAxis(x.shape(), ops::axisOf(op.attributes(), x.rank()));
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kRealElements, x.dataType(), [&](auto zero) {
        kernel = std::make_unique<UniqueKernel<decltype(zero)>>(sizes, op.attrInt("sorted") != 0);
      }))
    reason = "it orders no elements of type " + toText(x.dataType());
  return kernel;
}

// ---- NonMaxSuppression --------------------------------------------------------------------------

struct Suppression {
  int64_t rows = 0, classes = 0, boxes = 0, most = 0;
  ops::BoxForm form = ops::BoxForm::Corners;
  bool hasMost = false;
  DataType shareType = DataType::UNDEFINED, leastType = DataType::UNDEFINED;  // UNDEFINED: absent
};

double numberAt(const void *data, DataType type) {
  double value = 0;
  forElement(kFloatElements, type,
             [&](auto zero) { value = static_cast<double>(*static_cast<const decltype(zero) *>(data)); });
  return value;
}

template <class T>
class NonMaxSuppressionKernel final : public executable::HostKernel {
 public:
  explicit NonMaxSuppressionKernel(const Suppression &form)
      : form_(form), tasks_(taskCount(form.rows * form.boxes * 16, 1 << 12, form.rows)) {}
  std::string name() const override { return "non-maximum suppression"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override {
    return form_.boxes * static_cast<int64_t>(sizeof(Item)) + form_.most * static_cast<int64_t>(sizeof(ops::Box));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    for (int64_t row = form_.rows * task / tasks_; row < form_.rows * (task + 1) / tasks_; ++row) choose(args, row);
  }

 private:
  struct Item {
    Comparable<T> score;
    int64_t box;
  };

  // Boxes in decreasing order of their scores, equal scores in the order of boxes. Boxes with a NaN score are left out.
  int64_t candidates(const KernelArgs &args, int64_t row, Item *items) const {
    const T *scores = static_cast<const T *>(args.in[1]) + row * form_.boxes;
    const bool hasLeast = form_.leastType != DataType::UNDEFINED;
    const double least = hasLeast ? numberAt(args.in[4], form_.leastType) : 0;
    int64_t count = 0;
    for (int64_t i = 0; i < form_.boxes; ++i) {
      const auto score = static_cast<Comparable<T>>(scores[i]);
      const bool counts = hasLeast ? static_cast<double>(score) > least : score == score;
      if (counts) items[count++] = {score, i};
    }
    std::sort(items, items + count,
              [](const Item &a, const Item &b) { return a.score != b.score ? a.score > b.score : a.box < b.box; });
    return count;
  }

  void choose(const KernelArgs &args, int64_t row) const {
    auto *items = static_cast<Item *>(args.scratch);
    auto *kept = reinterpret_cast<ops::Box *>(items + form_.boxes);
    const T *boxes = static_cast<const T *>(args.in[0]) + row / form_.classes * form_.boxes * 4;
    auto *selected = static_cast<int64_t *>(args.out[0]) + row * form_.most;
    const int64_t most =
        form_.hasMost ? std::clamp<int64_t>(*static_cast<const int64_t *>(args.in[2]), 0, form_.most) : form_.most;
    const float share =
        form_.shareType != DataType::UNDEFINED ? static_cast<float>(numberAt(args.in[3], form_.shareType)) : 0.0f;
    const int64_t count = most > 0 ? candidates(args, row, items) : 0;
    int64_t found = 0;
    for (int64_t i = 0; i < count && found < most; ++i) {
      const ops::Box box = ops::Box::of(boxes + items[i].box * 4, form_.form);
      if (std::any_of(kept, kept + found, [&](const ops::Box &other) { return box.overlaps(other, share); })) continue;
      selected[found] = items[i].box;
      kept[found++] = box;
    }
    std::fill(selected + found, selected + form_.most, int64_t{0});
    static_cast<int64_t *>(args.out[1])[row] = found;
  }

  Suppression form_;
  int64_t tasks_;
};

std::unique_ptr<executable::Kernel> createNonMaxSuppression(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  for (const auto &output : request.outputs)
    if (!output.connected) return reason = "it gives both results", nullptr;
  const Op &op = *request.op;
  const Shape &scores = request.inputs[1].info.shape();
  const auto typeOf = [&](size_t input) {
    const bool isThere = input < request.inputs.size() && request.inputs[input].connected;
    return isThere ? request.inputs[input].info.dataType() : DataType::UNDEFINED;
  };
  Suppression form{scores[0] * scores[1], scores[1], scores[2], op.attrInt("most")};
  form.form = op.attrInt("center_point_box") != 0 ? ops::BoxForm::Centre : ops::BoxForm::Corners;
  form.hasMost = typeOf(2) != DataType::UNDEFINED;
  form.shareType = typeOf(3);
  form.leastType = typeOf(4);
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kFloatElements, request.inputs[1].info.dataType(),
                  [&](auto zero) { kernel = std::make_unique<NonMaxSuppressionKernel<decltype(zero)>>(form); }))
    reason = "it compares no elements of type " + toText(request.inputs[1].info.dataType());
  return kernel;
}

constexpr Entry kSelectionKernels[] = {{"Unique", createUnique}, {"NonMaxSuppression", createNonMaxSuppression}};

}  // namespace

std::span<const Entry> selectionKernels() { return kSelectionKernels; }

}  // namespace popart::cpu
