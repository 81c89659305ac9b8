// Writes at index positions: Scatter, ScatterElements, ScatterND, ScatterReduce; and reads or sums at coordinate
// tuples: GatherND and its gradient. An index out of range reads zeros, writes nothing and is reported. Every task has
// a part of the result and applies the updates in order, so that the last write wins and sums do not depend on threads.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/combine_row.hpp"
#include "base/element_types.hpp"
#include "ops/index/scatter_layout.hpp"
#include "ops/rules.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

enum class Combine { None, Add, Mul, Max, Min };

Combine combineOf(const Op &op) {
  const std::string name = op.attributes().getAttribute<std::string>("reduction", "none");
  if (name == "add" || name == "Sum") return Combine::Add;
  if (name == "mul" || name == "Mul") return Combine::Mul;
  if (name == "max" || name == "Max") return Combine::Max;
  if (name == "min" || name == "Min") return Combine::Min;
  return Combine::None;
}

// Integers wrap; NaN of floats is kept.
template <Combine kCombine, class T>
T combined(T old, T update) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  if constexpr (kCombine == Combine::Add) return static_cast<T>(static_cast<U>(old) + static_cast<U>(update));
  if constexpr (kCombine == Combine::Mul) return static_cast<T>(static_cast<U>(old) * static_cast<U>(update));
  if constexpr (kCombine == Combine::Max) return old != old || old > update ? old : update;
  if constexpr (kCombine == Combine::Min) return old != old || old < update ? old : update;
  return update;
}

// The same for contiguous elements.
template <Combine kCombine, class T>
void combineElements(const T *updates, int64_t count, T *to) {
  if constexpr (kCombine == Combine::None) {
    std::copy_n(updates, count, to);
  } else if constexpr (std::is_same_v<T, float>) {
    constexpr RowCombine kHow = kCombine == Combine::Add   ? RowCombine::kAdd
                                : kCombine == Combine::Mul ? RowCombine::kMultiply
                                : kCombine == Combine::Max ? RowCombine::kMax
                                                           : RowCombine::kMin;
    combineRow(kHow, updates, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = combined<kCombine>(to[i], updates[i]);
  }
}

// Makes `K<combine, T>` for the element type: plain writes by size, reductions by type.
template <template <Combine, class> class K, class... A>
std::unique_ptr<executable::Kernel> makeFor(Combine combine, DataType type, std::string &reason, A &&...arguments) {
  std::unique_ptr<executable::Kernel> kernel;
  if (combine == Combine::None) {
    if (!forWidth(getDataTypeInfo(type).nbytes,
                  [&](auto zero) { kernel = std::make_unique<K<Combine::None, decltype(zero)>>(arguments...); }))
      reason = "it moves no elements of type " + toText(type);
    return kernel;
  }
  const auto reduce = [&](auto zero) {
    using T = decltype(zero);
    if (combine == Combine::Add) kernel = std::make_unique<K<Combine::Add, T>>(arguments...);
    if (combine == Combine::Mul) kernel = std::make_unique<K<Combine::Mul, T>>(arguments...);
    if (combine == Combine::Max) kernel = std::make_unique<K<Combine::Max, T>>(arguments...);
    if (combine == Combine::Min) kernel = std::make_unique<K<Combine::Min, T>>(arguments...);
  };
  if (!forElement(Elements<float>() + kIntegerElements, type, reduce))
    reason = "it combines no elements of type " + toText(type);
  return kernel;
}

// ---- along an axis

// How a tensor of updates or indices maps to the result: offset = outer[o] + k * stride + inner[c], for position k
// along the axis; -1: the tensor has no such position.
struct Lines {
  std::vector<int64_t> outer, inner;
  int64_t stride = 0;
};

// Offsets of the positions of `result` (one side of the axis, C order) in a tensor of shape `own` with `strides`.
std::vector<int64_t> offsetsOf(const Shape &result, const Shape &own, const Shape &strides, size_t begin, size_t end) {
  std::vector<int64_t> offsets{0};
  for (size_t d = begin; d < end; ++d) {
    std::vector<int64_t> next;
    for (int64_t base : offsets)
      for (int64_t i = 0; i < result[d]; ++i) {
        const bool reaches = base >= 0 && (i < own[d] || strides[d] == 0);
        next.push_back(reaches ? base + i * strides[d] : -1);
      }
    offsets = std::move(next);
  }
  return offsets;
}

Lines linesOf(const Shape &result, const Shape &own, const Shape &strides, size_t axis) {
  return {offsetsOf(result, own, strides, 0, axis), offsetsOf(result, own, strides, axis + 1, result.size()),
          strides[axis]};
}

struct AxisScatter {
  AxisSizes result;
  int64_t count = 0;  // updates along the axis
  Lines indices, updates;
  IndexOperand index;
  int initialOperand = 0;  // operand with the values before the updates; -1: `start`
  int updateOperand = 2;
  double start = 0;
  bool firstReplaces = false;  // the first update of an element replaces its initial value
};

// Positions that both tensors have.
std::vector<int64_t> reached(const std::vector<int64_t> &indices, const std::vector<int64_t> &updates) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] >= 0 && updates[i] >= 0) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

// A round of copies, then a round of updates of the positions before and after the axis that the indices cover. Updates
// of one element are applied in order: along the axis for one position, or for many positions at one place of the axis.
template <Combine kCombine, class T>
class AxisScatterKernel final : public executable::HostKernel {
 public:
  AxisScatterKernel(const AxisScatter &form, int threads)
      : form_(form),
        outer_(reached(form.indices.outer, form.updates.outer)),
        inner_(reached(form.indices.inner, form.updates.inner)) {
    constexpr int64_t kUpdates = 1 << 12, kElements = 1 << 16;
    constexpr int64_t kFewest = 16, kMost = 256;  // positions per task, which reads neighbouring indices
    for (const int64_t c : inner_) {
      indexSteps_.push_back(form.indices.inner[static_cast<size_t>(c)]);
      updateSteps_.push_back(form.updates.inner[static_cast<size_t>(c)]);
    }
    const auto outer = static_cast<int64_t>(outer_.size()), inner = static_cast<int64_t>(inner_.size());
    elements_ = form.result.outer * form.result.length * form.result.inner;
    outerParts_ = taskCount(outer * form.count * inner, kUpdates, outer);
    const int64_t width = std::clamp<int64_t>(outer * inner / (2 * threads), kFewest, kMost);
    innerParts_ = taskCount(form.count * inner, kUpdates, std::min(inner / width, kMostTasks / outerParts_));
    rounds_.add(taskCount(elements_, kElements, elements_), static_cast<double>(elements_));
    rounds_.add(outerParts_ * innerParts_, static_cast<double>(4 * outer * form.count * inner));
  }
  std::string name() const override { return "scatter"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  bool canOverwrite(int input, int) const override { return input == form_.initialOperand; }
  int64_t scratchBytes() const override {
    return form_.firstReplaces ? form_.result.length * (static_cast<int64_t>(inner_.size()) / innerParts_ + 1) : 0;
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    if (place.round == 0) return initialise(args, place.task);
    const int64_t part = place.task / innerParts_, column = place.task % innerParts_;
    const auto outer = static_cast<int64_t>(outer_.size()), inner = static_cast<int64_t>(inner_.size());
    const int64_t begin = inner * column / innerParts_, end = inner * (column + 1) / innerParts_;
    for (int64_t o = outer * part / outerParts_; o < outer * (part + 1) / outerParts_; ++o)
      update(args, outer_[static_cast<size_t>(o)], begin, end);
  }

 private:
  void initialise(const KernelArgs &args, int64_t task) const noexcept {
    const int64_t tasks = rounds_.size(0), begin = elements_ * task / tasks, end = elements_ * (task + 1) / tasks;
    T *to = static_cast<T *>(args.out[0]);
    const T *from = form_.initialOperand >= 0 ? static_cast<const T *>(args.in[form_.initialOperand]) : nullptr;
    if (!from)
      std::fill(to + begin, to + end, static_cast<T>(form_.start));
    else if (from != to)
      std::copy(from + begin, from + end, to + begin);
  }

  // Updates positions [begin, end) of those after the axis.
  void update(const KernelArgs &args, int64_t o, int64_t begin, int64_t end) const noexcept {
    constexpr int64_t kFew = 16;
    int64_t places[IndexOperand::kAtOnce];
    const int64_t length = form_.result.length, step = form_.indices.stride;
    const int64_t first = form_.indices.outer[static_cast<size_t>(o)];
    if (form_.firstReplaces) std::memset(args.scratch, 0, static_cast<size_t>(length * (end - begin)));
    if (end - begin < kFew) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t k = 0; k < form_.count; k += IndexOperand::kAtOnce) {
          const int64_t count = std::min(IndexOperand::kAtOnce, form_.count - k);
          form_.index.places(args, first + k * step + indexSteps_[static_cast<size_t>(c)], step, count, length, places);
          for (int64_t i = 0; i < count; ++i) write(args, o, k + i, c, c - begin, end - begin, places[i]);
        }
      return;
    }
    for (int64_t k = 0; k < form_.count; ++k)
      for (int64_t c = begin; c < end; c += IndexOperand::kAtOnce) {
        const int64_t count = std::min(IndexOperand::kAtOnce, end - c);
        form_.index.places(args, first + k * step, indexSteps_.data() + c, count, length, places);
        for (int64_t i = 0; i < count; ++i) write(args, o, k, c + i, c + i - begin, end - begin, places[i]);
      }
  }
  void write(const KernelArgs &args, int64_t o, int64_t k, int64_t c, int64_t flag, int64_t flags,
             int64_t at) const noexcept {
    if (at < 0) return;
    const AxisSizes &r = form_.result;
    const auto column = static_cast<size_t>(c);
    const T value =
        static_cast<const T *>(args.in[form_.updateOperand])[form_.updates.outer[static_cast<size_t>(o)] +
                                                             k * form_.updates.stride + updateSteps_[column]];
    T &target = static_cast<T *>(args.out[0])[(o * r.length + at) * r.inner + inner_[column]];
    if (!form_.firstReplaces) {
      target = combined<kCombine>(target, value);
      return;
    }
    char &started = static_cast<char *>(args.scratch)[at * flags + flag];
    target = started ? combined<kCombine>(target, value) : value;
    started = 1;
  }

  AxisScatter form_;
  std::vector<int64_t> outer_, inner_, indexSteps_, updateSteps_;
  int64_t elements_ = 0, outerParts_ = 1, innerParts_ = 1;
  Rounds rounds_;
};

// Whether whole rows can be combined: indices and updates cover every position before and after the axis, one index is
// used for all positions after it, and updates have the same order there as the result.
bool hasRows(const AxisScatter &form) {
  constexpr int64_t kLeast = 16;  // elements of a row
  const auto isReached = [](int64_t offset) { return offset >= 0; };
  if (form.result.inner < kLeast || !std::ranges::all_of(form.indices.outer, isReached) ||
      !std::ranges::all_of(form.updates.outer, isReached))
    return false;
  for (size_t c = 0; c < form.updates.inner.size(); ++c)
    if (form.indices.inner[c] != 0 || form.updates.inner[c] != static_cast<int64_t>(c)) return false;
  return true;
}

// Scatter of whole rows. A task has positions of the axis, or, if there are few, also only some of the columns after
// it. It writes the initial values, then reads all indices and applies the updates of its own part.
template <Combine kCombine, class T>
class RowScatterKernel final : public executable::HostKernel {
 public:
  RowScatterKernel(const AxisScatter &form, int threads) : form_(form) {
    constexpr int64_t kElements = 1 << 15;
    const AxisSizes &r = form.result;
    // Few parts, so that reading indices takes a small part of the time.
    const int64_t most = std::max<int64_t>(r.inner / 16, int64_t{2} * threads);
    placeParts_ = taskCount(r.length * r.inner, kElements, std::min(r.length, most));
    const int64_t parts = r.outer * placeParts_;
    if (parts < 2 * threads)
      columnParts_ = taskCount(form.count * r.inner, kElements, std::min<int64_t>(r.inner / 64, 16));
  }
  std::string name() const override { return "scatter rows"; }
  int tasks() const override {
    return static_cast<int>(std::max<int64_t>(1, form_.result.outer * placeParts_ * columnParts_));
  }
  bool canOverwrite(int input, int) const override { return input == form_.initialOperand; }
  int64_t scratchBytes() const override { return form_.firstReplaces ? form_.result.length : 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const AxisSizes &r = form_.result;
    if (r.outer == 0) return;
    const int64_t column = task % columnParts_, part = task / columnParts_ % placeParts_,
                  o = task / columnParts_ / placeParts_;
    const int64_t begin = r.inner * column / columnParts_, count = r.inner * (column + 1) / columnParts_ - begin;
    const int64_t first = r.length * part / placeParts_, last = r.length * (part + 1) / placeParts_;
    const int64_t at = o * r.length * r.inner + begin;
    T *to = static_cast<T *>(args.out[0]) + at;
    initialise(args, at, to, first, last, count);
    update(args, o, to, first, last, begin, count);
  }

 private:
  // Elements [at, at + count) of rows [first, last).
  void initialise(const KernelArgs &args, int64_t at, T *to, int64_t first, int64_t last,
                  int64_t count) const noexcept {
    const T *from = form_.initialOperand >= 0 ? static_cast<const T *>(args.in[form_.initialOperand]) + at : nullptr;
    for (int64_t place = first; place < last; ++place) {
      const int64_t row = place * form_.result.inner;
      if (!from)
        std::fill_n(to + row, count, static_cast<T>(form_.start));
      else if (from != to)
        std::copy_n(from + row, count, to + row);
    }
  }
  void update(const KernelArgs &args, int64_t o, T *to, int64_t first, int64_t last, int64_t begin,
              int64_t count) const noexcept {
    const auto outer = static_cast<size_t>(o);
    const T *updates = static_cast<const T *>(args.in[form_.updateOperand]) + form_.updates.outer[outer] + begin;
    char *started = static_cast<char *>(args.scratch);
    if (form_.firstReplaces) std::fill_n(started + first, last - first, char{0});
    int64_t places[IndexOperand::kAtOnce];
    for (int64_t k = 0; k < form_.count; ++k) {
      const int64_t within = k % IndexOperand::kAtOnce;
      if (within == 0)
        form_.index.places(args, form_.indices.outer[outer] + k * form_.indices.stride, form_.indices.stride,
                           std::min(IndexOperand::kAtOnce, form_.count - k), form_.result.length, places);
      const int64_t place = places[within];
      if (place < first || place >= last) continue;
      const T *from = updates + k * form_.updates.stride;
      T *row = to + place * form_.result.inner;
      if (form_.firstReplaces && !started[place])
        std::copy_n(from, count, row);
      else
        combineElements<kCombine>(from, count, row);
      if (form_.firstReplaces) started[place] = 1;
    }
  }

  AxisScatter form_;
  int64_t placeParts_ = 1, columnParts_ = 1;
};

std::unique_ptr<executable::Kernel> createScatterElements(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Shape &data = request.inputs[0].info.shape(), &indices = request.inputs[1].info.shape();
  if (data.empty()) return reason = "it takes no scalars", nullptr;
  const auto axis = static_cast<size_t>(ops::axisOf(request.op->attributes(), static_cast<int64_t>(data.size())));
  AxisScatter form;
  form.result = aroundAxis(data, static_cast<int64_t>(axis));
  form.count = indices[axis];
  form.indices = linesOf(data, indices, ops::stridesInOrder(indices), axis);
  const Shape &updates = request.inputs[2].info.shape();  // at least as large as indices; only the leading part is used
  form.updates = linesOf(data, updates, ops::stridesInOrder(updates), axis);
  form.index = IndexOperand::of(request);
  return makeFor<AxisScatterKernel>(combineOf(*request.op), request.outputs[0].info.dataType(), reason, form,
                                    request.threads);
}

// Shared by a ScatterReduce of `source` into `result` and its gradient. Input 1 is the index tensor; it has the
// source's rank, with stride 0 along broadcast dimensions.
AxisScatter reduceForm(const KernelRequest &request, const Shape &result, const Shape &source) {
  const Attributes &attributes = request.op->attributes();
  const auto axis = static_cast<size_t>(ops::axisOf(attributes, static_cast<int64_t>(source.size())));
  const ops::ScatterLayout layout = ops::scatterLayout(attributes, source, request.inputs[1].info.shape());
  Shape strides = ops::stridesInOrder(layout.indices);
  for (size_t d = 0; d < strides.size(); ++d)
    if (layout.indices[d] != layout.window[d]) strides[d] = 0;
  AxisScatter form;
  form.result = aroundAxis(result, static_cast<int64_t>(axis));
  form.count = layout.window[axis];
  form.indices = linesOf(result, layout.indices, strides, axis);
  form.updates = linesOf(result, source, ops::stridesInOrder(source), axis);
  form.index = IndexOperand::of(request);
  return form;
}

std::unique_ptr<executable::Kernel> createScatterReduce(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Combine combine = combineOf(*request.op);
  AxisScatter form = reduceForm(request, request.outputs[0].info.shape(), request.inputs[0].info.shape());
  form.updateOperand = 0;
  const bool initial = request.inputs.size() > 2 && request.inputs[2].connected;
  form.initialOperand = initial ? 2 : -1;
  form.start = combine == Combine::Mul ? 1 : 0;
  form.firstReplaces = !initial && (combine == Combine::Max || combine == Combine::Min);
  const DataType type = request.outputs[0].info.dataType();
  if (hasRows(form)) return makeFor<RowScatterKernel>(combine, type, reason, form, request.threads);
  return makeFor<AxisScatterKernel>(combine, type, reason, form, request.threads);
}

// Gradient of a summing ScatterReduce: every source reads the gradient of its element; initial values get the whole
// gradient. A task has positions before and along the axis.
class ScatterSumGradientKernel final : public executable::HostKernel {
 public:
  explicit ScatterSumGradientKernel(const AxisScatter &form)
      : form_(form), hasRows_(hasRows(form)), rows_(form.result.outer * form.count) {
    const AxisSizes &r = form.result;
    elements_ = form.initialOperand >= 0 ? r.outer * r.length * r.inner : 0;
    tasks_ = taskCount(rows_ * r.inner + elements_, 1 << 14, std::max(rows_, elements_));
  }
  std::string name() const override { return "scatter sum gradient"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const auto *g = static_cast<const float *>(args.in[0]);
    const int64_t first = elements_ * task / tasks_, last = elements_ * (task + 1) / tasks_;
    if (first < last) std::copy(g + first, g + last, static_cast<float *>(args.out[1]) + first);
    for (int64_t r = rows_ * task / tasks_, end = rows_ * (task + 1) / tasks_; r < end;) {
      const int64_t o = r / form_.count, k = r % form_.count;
      const int64_t count = hasRows_ ? std::min({IndexOperand::kAtOnce, form_.count - k, end - r}) : 1;
      const float *from = g + o * form_.result.length * form_.result.inner;
      float *to = static_cast<float *>(args.out[0]) + r * form_.result.inner;
      if (hasRows_)
        readRows(args, o, k, count, from, to);
      else
        readElements(args, o, k, from, to);
      r += count;
    }
  }

 private:
  void readRows(const KernelArgs &args, int64_t o, int64_t k, int64_t count, const float *from,
                float *to) const noexcept {
    int64_t places[IndexOperand::kAtOnce];
    const int64_t inner = form_.result.inner, step = form_.indices.stride;
    form_.index.places(args, form_.indices.outer[static_cast<size_t>(o)] + k * step, step, count, form_.result.length,
                       places);
    for (int64_t i = 0; i < count; ++i, to += inner)
      if (places[i] < 0)
        std::fill_n(to, inner, 0.0f);
      else
        std::copy_n(from + places[i] * inner, inner, to);
  }
  void readElements(const KernelArgs &args, int64_t o, int64_t k, const float *from, float *to) const noexcept {
    int64_t places[IndexOperand::kAtOnce];
    const AxisSizes &r = form_.result;
    for (int64_t begin = 0; begin < r.inner; begin += IndexOperand::kAtOnce) {
      const int64_t count = std::min(IndexOperand::kAtOnce, r.inner - begin);
      form_.index.places(args, form_.indices.outer[static_cast<size_t>(o)] + k * form_.indices.stride,
                         form_.indices.inner.data() + begin, count, r.length, places);
      for (int64_t c = 0; c < count; ++c) to[begin + c] = places[c] < 0 ? 0.0f : from[places[c] * r.inner + begin + c];
    }
  }

  AxisScatter form_;
  bool hasRows_;
  int64_t rows_, elements_ = 0, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createScatterReduceGradient(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  if (combineOf(*request.op) != Combine::Add) return reason = "it takes the reduction Sum only", nullptr;
  if (request.outputs[0].info.dataType() != DataType::FLOAT)
    return reason = "it takes FLOAT only: got " + toText(request.outputs[0].info.dataType()), nullptr;
  const Shape &result = request.inputs[0].info.shape(), &source = request.inputs[2].info.shape();
  AxisScatter form = reduceForm(request, result, source);
  const auto axis = static_cast<size_t>(ops::axisOf(request.op->attributes(), static_cast<int64_t>(source.size())));
  for (size_t d = 0; d < source.size(); ++d)
    if (form.count != source[axis] || (d != axis && result[d] != source[d]))
      return reason = "it takes indices for all of src, and a result as large outside the axis", nullptr;
  form.initialOperand = request.outputs.size() > 1 && request.outputs[1].connected ? 3 : -1;
  return std::make_unique<ScatterSumGradientKernel>(form);
}

// ---- at coordinate tuples

// Tuples in the last dimension of an index tensor select slices of `elements` contiguous elements of the data.
struct Tuples {
  Shape sizes, strides;  // of the dimensions that the tuples index
  int64_t count = 0, elements = 1, perBatch = 1, batchStride = 0, total = 1;
  IndexOperand index;

  static constexpr int64_t kAtOnce = IndexOperand::kAtOnce;
  // First elements of the slices that tuples [t, t + n) select, or -1; n is at most kAtOnce.
  void find(const KernelArgs &args, int64_t t, int64_t n, int64_t *first) const noexcept {
    int64_t places[kAtOnce], batch = t / perBatch, left = perBatch - t % perBatch;
    for (int64_t i = 0; i < n; ++i) {
      first[i] = batch * batchStride;
      if (--left == 0) ++batch, left = perBatch;
    }
    const auto depth = static_cast<int64_t>(sizes.size());
    for (int64_t d = 0; d < depth; ++d) {
      const auto axis = static_cast<size_t>(d);
      index.places(args, t * depth + d, depth, n, sizes[axis], places);
      for (int64_t i = 0; i < n; ++i)
        first[i] = first[i] < 0 || places[i] < 0 ? -1 : first[i] + places[i] * strides[axis];
    }
  }
};

Tuples tuplesOf(const Shape &data, const KernelRequest &request, int64_t batch) {
  const Shape &shape = request.inputs[1].info.shape(), all = ops::stridesInOrder(data);
  Tuples t;
  const auto first = data.begin() + batch, last = first + shape.back();
  t.sizes.assign(first, last);
  t.strides.assign(all.begin() + batch, all.begin() + batch + shape.back());
  t.count = elementCount(Shape(shape.begin(), shape.end() - 1));
  t.elements = elementCount(Shape(last, data.end()));
  t.batchStride = elementCount(Shape(first, data.end()));
  t.perBatch = std::max<int64_t>(1, t.count / std::max<int64_t>(1, elementCount(Shape(data.begin(), first))));
  t.total = elementCount(data);
  t.index = IndexOperand::of(request);
  return t;
}

class GatherTuplesKernel final : public executable::HostKernel {
 public:
  GatherTuplesKernel(const Tuples &tuples, int64_t bytes) : tuples_(tuples), slice_(tuples.elements * bytes) {
    constexpr int64_t kLine = 64;  // least number of bytes that reading a slice costs
    element_ = bytes;
    tasks_ = taskCount(tuples.count * std::max(slice_, kLine), 1 << 17, tuples.count);
  }
  std::string name() const override { return "gather tuples"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    switch (slice_) {
      case 0:
        return;
      case 4:
        return slices<4>(args, task);
      case 8:
        return slices<8>(args, task);
      default:
        return slices<0>(args, task);
    }
  }

 private:
  // kBytes: bytes of a slice, 0: any.
  template <int64_t kBytes>
  void slices(const KernelArgs &args, int task) const noexcept {
    const auto bytes = static_cast<size_t>(kBytes != 0 ? kBytes : slice_);
    const char *from = static_cast<const char *>(args.in[0]);
    int64_t first[Tuples::kAtOnce];
    for (int64_t t = tuples_.count * task / tasks_, end = tuples_.count * (task + 1) / tasks_; t < end;) {
      const int64_t n = std::min(Tuples::kAtOnce, end - t);
      tuples_.find(args, t, n, first);
      char *to = static_cast<char *>(args.out[0]) + t * slice_;
      for (int64_t i = 0; i < n; ++i, to += bytes) {
        if (first[i] < 0)
          std::memset(to, 0, bytes);
        else
          std::memcpy(to, from + first[i] * element_, bytes);
      }
      t += n;
    }
  }

  Tuples tuples_;
  int64_t slice_, element_, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createGatherND(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Tuples tuples = tuplesOf(request.inputs[0].info.shape(), request, request.op->attrInt("batch_dims"));
  return std::make_unique<GatherTuplesKernel>(tuples, bytes);
}

// A task has a range of the result.
template <Combine kCombine, class T>
class ScatterTuplesKernel final : public executable::HostKernel {
 public:
  ScatterTuplesKernel(const Tuples &tuples, int initialOperand, int updateOperand)
      : tuples_(tuples), initial_(initialOperand), updates_(updateOperand) {
    // Every task reads all indices, so there are few tasks to keep this a small part of the work.
    tasks_ = taskCount(tuples.total, (1 << 15) + 4 * tuples.count, tuples.total);
  }
  std::string name() const override { return "scatter tuples"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  bool canOverwrite(int input, int) const override { return input == initial_; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = tuples_.total * task / tasks_, end = tuples_.total * (task + 1) / tasks_;
    T *to = static_cast<T *>(args.out[0]);
    const T *from = initial_ >= 0 ? static_cast<const T *>(args.in[initial_]) : nullptr;
    if (!from)
      std::fill(to + begin, to + end, T(0));
    else if (from != to)
      std::copy(from + begin, from + end, to + begin);
    const T *updates = static_cast<const T *>(args.in[updates_]);
    int64_t starts[Tuples::kAtOnce];
    for (int64_t t = 0; t < tuples_.count; ++t) {
      const int64_t within = t % Tuples::kAtOnce;
      if (within == 0) tuples_.find(args, t, std::min(Tuples::kAtOnce, tuples_.count - t), starts);
      const int64_t at = starts[within], first = std::max(at, begin), last = std::min(at + tuples_.elements, end);
      if (at >= 0 && first < last)
        combineElements<kCombine>(updates + t * tuples_.elements + (first - at), last - first, to + first);
    }
  }

 private:
  Tuples tuples_;
  int initial_, updates_;
  int64_t tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createScatterND(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const auto &data = request.inputs[0].info;
  return makeFor<ScatterTuplesKernel>(combineOf(*request.op), data.dataType(), reason,
                                      tuplesOf(data.shape(), request, 0), 0, 2);
}

std::unique_ptr<executable::Kernel> createGatherNDGradient(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const auto &result = request.outputs[0].info;
  if (result.dataType() != DataType::FLOAT)
    return reason = "it sums FLOAT only: got " + toText(result.dataType()), nullptr;
  return std::make_unique<ScatterTuplesKernel<Combine::Add, float>>(
      tuplesOf(result.shape(), request, request.op->attrInt("batch_dims")), -1, 0);
}

constexpr Entry kScatterKernels[] = {
    {"Scatter", createScatterElements},      {"ScatterElements", createScatterElements},
    {"ScatterReduce", createScatterReduce},  {"ScatterReduceGradOp", createScatterReduceGradient},
    {"ScatterND", createScatterND},          {"GatherND", createGatherND},
    {"GatherNDGrad", createGatherNDGradient}};

}  // namespace

std::span<const Entry> scatterKernels() { return kScatterKernels; }

}  // namespace popart::cpu
