// Writes at index positions: Scatter, ScatterElements, ScatterND, ScatterReduce; and what reads or sums at coordinate
// tuples: GatherND and its gradient. An index out of range reads zeros, writes nothing and is reported. Every task owns
// a part of the result and applies the updates in order, so that the last write wins and sums do not depend on
// threads.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
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

// Integers wrap; of floats a NaN stays.
template <Combine kCombine, class T>
T combined(T old, T update) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  if constexpr (kCombine == Combine::Add) return static_cast<T>(static_cast<U>(old) + static_cast<U>(update));
  if constexpr (kCombine == Combine::Mul) return static_cast<T>(static_cast<U>(old) * static_cast<U>(update));
  if constexpr (kCombine == Combine::Max) return old != old || old > update ? old : update;
  if constexpr (kCombine == Combine::Min) return old != old || old < update ? old : update;
  return update;
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
// along the axis; -1: the tensor does not reach there.
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
  int initialOperand = 0;  // holds the values before the updates; -1: `start`
  int updateOperand = 2;
  double start = 0;
  bool firstReplaces = false;  // the first update of an element replaces its initial value
};

// Positions that both tensors reach.
std::vector<int64_t> reached(const std::vector<int64_t> &indices, const std::vector<int64_t> &updates) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] >= 0 && updates[i] >= 0) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

// A round of copies, then one of updates of the positions before and behind the axis that the indices reach. Updates of
// one element are in order: along the axis for one position, or for many positions at one place of the axis.
template <Combine kCombine, class T>
class AxisScatterKernel final : public executable::HostKernel {
 public:
  explicit AxisScatterKernel(const AxisScatter &form)
      : form_(form),
        outer_(reached(form.indices.outer, form.updates.outer)),
        inner_(reached(form.indices.inner, form.updates.inner)) {
    constexpr int64_t kUpdates = 1 << 12, kElements = 1 << 16;
    for (const int64_t c : inner_) indexSteps_.push_back(form.indices.inner[static_cast<size_t>(c)]);
    const auto outer = static_cast<int64_t>(outer_.size()), inner = static_cast<int64_t>(inner_.size());
    elements_ = form.result.outer * form.result.length * form.result.inner;
    outerParts_ = taskCount(outer * form.count * inner, kUpdates, outer);
    innerParts_ = taskCount(form.count * inner, kUpdates, std::min(inner / 16, kMostTasks / outerParts_));
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

  // Positions [begin, end) of those behind the axis.
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
    const auto column = static_cast<size_t>(inner_[static_cast<size_t>(c)]);
    const T value =
        static_cast<const T *>(args.in[form_.updateOperand])[form_.updates.outer[static_cast<size_t>(o)] +
                                                             k * form_.updates.stride + form_.updates.inner[column]];
    T &target = static_cast<T *>(args.out[0])[(o * r.length + at) * r.inner + static_cast<int64_t>(column)];
    if (!form_.firstReplaces) {
      target = combined<kCombine>(target, value);
      return;
    }
    char &started = static_cast<char *>(args.scratch)[at * flags + flag];
    target = started ? combined<kCombine>(target, value) : value;
    started = 1;
  }

  AxisScatter form_;
  std::vector<int64_t> outer_, inner_, indexSteps_;
  int64_t elements_ = 0, outerParts_ = 1, innerParts_ = 1;
  Rounds rounds_;
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
  const Shape &updates = request.inputs[2].info.shape();  // at least as large as indices: the leading part is used
  form.updates = linesOf(data, updates, ops::stridesInOrder(updates), axis);
  form.index = IndexOperand::of(request);
  return makeFor<AxisScatterKernel>(combineOf(*request.op), request.outputs[0].info.dataType(), reason, form);
}

// What a ScatterReduce of `source` into `result` and its gradient share. Input 1 is the index tensor: one of the
// source's rank, with stride 0 where it is broadcast.
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
  return makeFor<AxisScatterKernel>(combine, request.outputs[0].info.dataType(), reason, form);
}

// Gradient of a summing ScatterReduce: every source reads the gradient of its element; initial values get all of it.
class ScatterSumGradientKernel final : public executable::HostKernel {
 public:
  explicit ScatterSumGradientKernel(const AxisScatter &form) : form_(form) {
    const AxisSizes &r = form.result;
    tasks_ = taskCount(r.outer * form.count * r.inner, 1 << 14, r.outer);
  }
  std::string name() const override { return "scatter sum gradient"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const AxisSizes &r = form_.result;
    const auto *g = static_cast<const float *>(args.in[0]);
    auto *source = static_cast<float *>(args.out[0]);
    int64_t places[IndexOperand::kAtOnce];
    for (int64_t o = r.outer * task / tasks_; o < r.outer * (task + 1) / tasks_; ++o) {
      for (int64_t k = 0; k < form_.count; ++k)
        for (int64_t begin = 0; begin < r.inner; begin += IndexOperand::kAtOnce) {
          const int64_t count = std::min(IndexOperand::kAtOnce, r.inner - begin);
          form_.index.places(args, form_.indices.outer[static_cast<size_t>(o)] + k * form_.indices.stride,
                             form_.indices.inner.data() + begin, count, r.length, places);
          float *to = source + (o * form_.count + k) * r.inner + begin;
          const float *from = g + o * r.length * r.inner + begin;
          for (int64_t c = 0; c < count; ++c) to[c] = places[c] < 0 ? 0.0f : from[places[c] * r.inner + c];
        }
      const int64_t line = r.length * r.inner;
      if (form_.initialOperand >= 0) std::copy_n(g + o * line, line, static_cast<float *>(args.out[1]) + o * line);
    }
  }

 private:
  AxisScatter form_;
  int64_t tasks_ = 1;
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

// Tuples in the last dimension of an index tensor name slices of `elements` consecutive elements of the data.
struct Tuples {
  Shape sizes, strides;  // of the dimensions the tuples index
  int64_t count = 0, elements = 1, perBatch = 1, batchStride = 0, total = 1;
  IndexOperand index;

  // First element of the slice that tuple t names, or -1.
  int64_t at(const KernelArgs &args, int64_t t) const noexcept {
    const auto depth = static_cast<int64_t>(sizes.size());
    int64_t offset = t / perBatch * batchStride;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t place = index.place(args, t * depth + d, sizes[d]);
      if (place < 0) return -1;
      offset += place * strides[d];
    }
    return offset;
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
    element_ = bytes;
    tasks_ = taskCount(tuples.count * std::max<int64_t>(slice_, 16), 1 << 17, tuples.count);
  }
  std::string name() const override { return "gather tuples"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    if (slice_ == 0) return;
    const char *from = static_cast<const char *>(args.in[0]);
    char *to = static_cast<char *>(args.out[0]);
    for (int64_t t = tuples_.count * task / tasks_; t < tuples_.count * (task + 1) / tasks_; ++t) {
      const int64_t at = tuples_.at(args, t);
      if (at < 0)
        std::memset(to + t * slice_, 0, static_cast<size_t>(slice_));
      else
        std::memcpy(to + t * slice_, from + at * element_, static_cast<size_t>(slice_));
    }
  }

 private:
  Tuples tuples_;
  int64_t slice_, element_, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createGatherND(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Tuples tuples = tuplesOf(request.inputs[0].info.shape(), request, request.op->attrInt("batch_dims"));
  return std::make_unique<GatherTuplesKernel>(tuples, bytes);
}

// A task owns a range of the result.
template <Combine kCombine, class T>
class ScatterTuplesKernel final : public executable::HostKernel {
 public:
  ScatterTuplesKernel(const Tuples &tuples, int initialOperand, int updateOperand)
      : tuples_(tuples), initial_(initialOperand), updates_(updateOperand) {
    // Every task reads all indices: few tasks, so that this stays a small part of the work.
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
    for (int64_t t = 0; t < tuples_.count; ++t) {
      const int64_t at = tuples_.at(args, t);
      if (at < 0) continue;
      const int64_t first = std::max(at, begin), last = std::min(at + tuples_.elements, end);
      const T *slice = updates + t * tuples_.elements - at;
      for (int64_t i = first; i < last; ++i) to[i] = combined<kCombine>(to[i], slice[i]);
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

constexpr Entry kEntries[] = {
    {"Scatter", createScatterElements},      {"ScatterElements", createScatterElements},
    {"ScatterReduce", createScatterReduce},  {"ScatterReduceGradOp", createScatterReduceGradient},
    {"ScatterND", createScatterND},          {"GatherND", createGatherND},
    {"GatherNDGrad", createGatherNDGradient}};

}  // namespace

std::span<const Entry> scatterKernels() { return kEntries; }

}  // namespace popart::cpu
