// Resize and its gradient: the maps of all axes in one pass, in the order of memory. A row of the first axis that
// changes is summed (or only located, if it is one row of the input), then the next axis within that row, down to the
// result. A row that equals the one before it is copied. Tasks are rows of the first axis.
//
//   x (2, W)  ──row o of axis H──▶  row (W)  ──axis W──▶  row o of y (2 W)
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/resample.hpp"
#include "base/element_types.hpp"
#include "ops/shape/resize_taps.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::AxisTaps;

// One axis that changes, within one element of the axis before it.
struct Level {
  AxisSizes x;             // around the axis, in the input of this level
  int64_t rows = 0;        // elements of the result along the axis
  int64_t result = 0;      // elements that one row adds to the result, including later levels
  bool byElement = false;  // whether rows are elements of the result: the last level, if a row has one element
  // By row: taps [begin[r], begin[r + 1]); by element: tap k of element o at k rows + o.
  std::vector<int64_t> begin;
  std::vector<int32_t> index;
  std::vector<float> weight, offset;  // offset: empty or one number per row
  int64_t count = 0;
  std::vector<int32_t> window;
  std::vector<char> repeats;  // row r is row r - 1

  ElementTaps elements() const {
    return {rows, count, index.data(), weight.data(), offset.empty() ? nullptr : offset.data(), window.data()};
  }
  float offsetOf(int64_t row) const { return offset.empty() ? 0.0f : offset[static_cast<size_t>(row)]; }
  std::span<const int32_t> indexOf(int64_t row) const {
    return std::span(index).subspan(static_cast<size_t>(begin[row]), static_cast<size_t>(begin[row + 1] - begin[row]));
  }
  RowTaps row(int64_t r) const { return {indexOf(r), weight.data() + begin[r], offsetOf(r)}; }
  // The row of the input to which row r is equal, or -1.
  int64_t same(int64_t r) const {
    return begin[r + 1] - begin[r] == 1 && weight[begin[r]] == 1 && offsetOf(r) == 0 ? index[begin[r]] : -1;
  }
};

void addTapsByRow(Level &level, const AxisTaps &taps) {
  level.begin.push_back(0);
  for (int64_t r = 0; r < level.rows; ++r) {
    for (int64_t i = r * taps.count; i < (r + 1) * taps.count; ++i) {
      if (taps.weight[i] == 0) continue;
      level.index.push_back(static_cast<int32_t>(taps.index[i]));
      level.weight.push_back(static_cast<float>(taps.weight[i]));
    }
    level.begin.push_back(static_cast<int64_t>(level.index.size()));
  }
  level.repeats.assign(static_cast<size_t>(level.rows), 0);
  for (int64_t r = 1; r < level.rows; ++r) {
    const auto a = level.indexOf(r - 1), b = level.indexOf(r);
    const float *w = level.weight.data();
    level.repeats[r] = std::ranges::equal(a, b) &&
                       std::equal(w + level.begin[r - 1], w + level.begin[r], w + level.begin[r]) &&
                       level.offsetOf(r - 1) == level.offsetOf(r);
  }
}

void addTapsByElement(Level &level, const AxisTaps &taps) {
  level.count = taps.count;
  for (int64_t k = 0; k < taps.count; ++k)
    for (int64_t o = 0; o < level.rows; ++o) {
      level.index.push_back(static_cast<int32_t>(taps.index[o * taps.count + k]));
      level.weight.push_back(static_cast<float>(taps.weight[o * taps.count + k]));
    }
  level.window = windowsOf(level.index, level.rows, level.x.length);
}

// The axes of `shape`, in the order of memory, with their maps; at least one.
std::vector<Level> levelsOf(const Shape &shape, const std::vector<AxisTaps> &maps) {
  std::vector<Level> levels;
  size_t last = 0;  // axis that changes
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (!maps[axis].changesNothing(shape[axis])) last = axis;
  int64_t outer = 1, inner = elementCount(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    inner = shape[axis] == 0 ? 0 : inner / shape[axis];
    if (maps[axis].changesNothing(shape[axis])) {
      outer *= shape[axis];
      continue;
    }
    Level level;
    level.x = {outer, shape[axis], inner};
    level.rows = maps[axis].rows();
    for (double offset : maps[axis].offset) level.offset.push_back(static_cast<float>(offset));
    level.byElement = axis == last && inner == 1;  // later axes may have one element and also change
    level.byElement ? addTapsByElement(level, maps[axis]) : addTapsByRow(level, maps[axis]);
    levels.push_back(std::move(level));
    outer = 1;
  }
  int64_t result = levels.empty() ? 1 : levels.back().x.inner;
  for (size_t i = levels.size(); i-- > 0;) {
    levels[i].result = result;
    result *= levels[i].x.outer * levels[i].rows;
  }
  return levels;
}

// How elements are computed: as copies of one element, or as sums.
template <class T>
struct Selected {
  using Element = T;
  static void sumRow(const Level &level, int64_t r, const T *x, T *y) {
    std::memcpy(y, x + level.index[level.begin[r]] * level.x.inner, sizeof(T) * static_cast<size_t>(level.x.inner));
  }
  static void sumElements(const Level &level, const T *x, T *y) {
    if constexpr (sizeof(T) == sizeof(uint32_t))
      pickElements(x, level.elements(), y);
    else
      for (int64_t o = 0; o < level.rows; ++o) y[o] = x[level.index[o]];
  }
};
struct Summed {
  using Element = float;
  static void sumRow(const Level &level, int64_t r, const float *x, float *y) {
    sumOfRows(x, level.row(r), level.x.inner, y);
  }
  static void sumElements(const Level &level, const float *x, float *y) { sumOfElements(x, level.elements(), y); }
};

template <class Way>
class ResizeKernel final : public executable::HostKernel {
  using T = typename Way::Element;

 public:
  explicit ResizeKernel(std::vector<Level> levels) : levels_(std::move(levels)) {
    const Level &first = levels_.front();
    pieces_ = first.x.outer * (first.byElement ? 1 : first.rows);
    tasks_ = taskCount(first.x.outer * first.rows * first.result, int64_t{1} << 14, pieces_);
    for (size_t i = 0; i + 1 < levels_.size(); ++i) scratch_ += levels_[i].x.inner;
  }
  std::string name() const override { return "resize " + std::to_string(levels_.size()) + " axes"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override { return scratch_ * static_cast<int64_t>(sizeof(T)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *x = static_cast<const T *>(args.in[0]);
    T *y = static_cast<T *>(args.out[0]), *scratch = static_cast<T *>(args.scratch);
    const Level &first = levels_.front();
    const int64_t begin = pieces_ * task / tasks_, end = pieces_ * (task + 1) / tasks_;
    const int64_t block = first.x.length * first.x.inner;
    if (first.byElement) {
      for (int64_t i = begin; i < end; ++i) Way::sumElements(first, x + i * block, y + i * first.rows);
      return;
    }
    for (int64_t i = begin; i < end;) {
      const int64_t r = i % first.rows, rows = std::min(first.rows - r, end - i);
      addRows(0, r, r + rows, x + i / first.rows * block, y + i * first.result, scratch);
      i += rows;
    }
  }

 private:
  // Rows [begin, end) of one block of level `at`.
  void addRows(size_t at, int64_t begin, int64_t end, const T *x, T *y, T *scratch) const {
    const Level &level = levels_[at];
    for (int64_t r = begin; r < end; ++r, y += level.result) {
      if (r > begin && level.repeats[r]) {
        std::memcpy(y, y - level.result, sizeof(T) * static_cast<size_t>(level.result));
      } else if (at + 1 == levels_.size()) {
        Way::sumRow(level, r, x, y);
      } else if (const int64_t same = level.same(r); same >= 0) {
        addBlocks(at + 1, x + same * level.x.inner, y, scratch);
      } else {
        Way::sumRow(level, r, x, scratch);
        addBlocks(at + 1, scratch, y, scratch + level.x.inner);
      }
    }
  }
  void addBlocks(size_t at, const T *x, T *y, T *scratch) const {
    const Level &level = levels_[at];
    for (int64_t o = 0; o < level.x.outer; ++o, x += level.x.length * level.x.inner, y += level.rows * level.result) {
      if (level.byElement)
        Way::sumElements(level, x, y);
      else
        addRows(at, 0, level.rows, x, y, scratch);
    }
  }

  std::vector<Level> levels_;
  int64_t pieces_ = 0, tasks_ = 1, scratch_ = 0;
};

template <class T>
std::vector<T> inOrderOfMemory(const std::vector<T> &axes, const executable::Layout *layout) {
  std::vector<T> result = axes;
  if (layout == executable::channelsLast()) std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

std::unique_ptr<executable::Kernel> create(const KernelRequest &request, const std::vector<AxisTaps> &maps,
                                           std::string &reason) {
  const executable::Layout *layout = request.inputs[0].layout;
  if (layout != request.outputs[0].layout || (layout && layout != executable::channelsLast()))
    return reason = "it takes operands in the same layout, plain or channels last", nullptr;
  const TensorInfo &info = request.inputs[0].info;
  if (std::ranges::any_of(info.shape(), [](int64_t d) { return d > std::numeric_limits<int32_t>::max(); }))
    return reason = "an axis is longer than 32-bit indices reach", nullptr;
  std::vector<Level> levels = levelsOf(inOrderOfMemory(info.shape(), layout), inOrderOfMemory(maps, layout));
  if (levels.empty()) return reason = "no axis changes", nullptr;
  std::unique_ptr<executable::Kernel> kernel;
  if (std::ranges::all_of(maps, [](const AxisTaps &t) { return t.selects(); }))
    forWidth(getDataTypeInfo(info.dataType()).nbytes,
             [&]<class T>(T) { kernel = std::make_unique<ResizeKernel<Selected<T>>>(std::move(levels)); });
  else if (info.dataType() == DataType::FLOAT)
    kernel = std::make_unique<ResizeKernel<Summed>>(std::move(levels));
  if (!kernel) reason = "it interpolates no elements of type " + toText(info.dataType());
  return kernel;
}

std::unique_ptr<executable::Kernel> createForward(const KernelRequest &request, std::string &reason) {
  return create(request, ops::forwardMaps(request.op->attributes(), request.inputs[0].info.shape()), reason);
}

std::unique_ptr<executable::Kernel> createResizeGradient(const KernelRequest &request, std::string &reason) {
  return create(request, ops::gradientMaps(request.op->attributes(), request.outputs[0].info.shape()), reason);
}

constexpr Entry kResizeKernels[] = {{"Resize", createForward}, {"ResizeGrad", createResizeGradient}};

}  // namespace

std::span<const Entry> resizeKernels() { return kResizeKernels; }

}  // namespace popart::cpu
