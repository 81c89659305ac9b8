// Loop nest of depthwise sums, compiled once per instruction set by Highway.
//
//   task = (range of places, range of vectors of channels)     a place: a piece of a pair of output lines
//     for each place                                            its input stays in the second level cache
//       for each vector of channels                               its taps stay in the first level cache
//         for each block of pixels                                  sums in registers: two lines x kPixels
//           for each row of taps, for each tap                        one load of x for both lines
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv_depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/conv_depthwise.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pack.hpp"
// clang-format on
#include <algorithm>
#include <map>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int kPixels = HWY_TARGET <= HWY_AVX3 ? 8 : 4;                  // 16 or 8 sums, of 32 or 16 registers
constexpr int64_t kWidth = 2 * static_cast<int64_t>(hn::MaxLanes(D()));  // of a panel of weights
enum class Border : uint8_t { kInside, kCrossed };

// Where the inputs of a row of taps are. A row outside of the image is one vector of zeros.
struct InputRow {
  const float *first;  // of tap 0 of the block's first pixel; may be outside
  ptrdiff_t tapStep, pixelStep;
  int64_t column, columnStep, columnsInside;  // of `first`; from pixel to pixel; of the image
};

// Adds the products of one row of taps. kOf: bit l is set where output line l reads the row.
template <int kLines, int kCount, unsigned kOf, Border kBorder, class Lanes>
HWY_INLINE void addRow(V *HWY_RESTRICT sums, const DepthwiseLines &l, const DepthwiseRow &row, const InputRow &in,
                       Lanes lanes) {
  const ptrdiff_t weightStep = l.weightStep * kWidth;
  const float *weights[2] = {l.weights + row.weightRow[0] * kWidth, l.weights + row.weightRow[1] * kWidth};
  const float *at = in.first;
  int64_t column = in.column;
  for (int64_t tap = 0; tap < l.columns; ++tap, at += in.tapStep, column += l.window->dilation[2]) {
    V w[kLines];
    for (int line = 0; line < kLines; ++line)
      if (kOf >> line & 1) w[line] = hn::LoadU(D(), weights[line] + tap * weightStep);
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) {
      const auto position = static_cast<uint64_t>(column + p * in.columnStep);
      const bool isInside = kBorder == Border::kInside || position < static_cast<uint64_t>(in.columnsInside);
      const V x = isInside ? lanes.load(at + p * in.pixelStep) : hn::Zero(D());
#pragma GCC unroll 2
      for (int line = 0; line < kLines; ++line)
        if (kOf >> line & 1) sums[line * kCount + p] = hn::MulAdd(x, w[line], sums[line * kCount + p]);
    }
  }
}

template <int kLines, int kCount, class Lanes>
HWY_INLINE void endBlock(V *HWY_RESTRICT sums, const DepthwiseLines &l, int64_t pixel, Lanes lanes) {
  const TileEnd &end = l.end;
  const V bias = end.bias ? lanes.load(end.bias) : hn::Zero(D());
  const V low = hn::Set(D(), end.low), high = hn::Set(D(), end.high);
#pragma GCC unroll 2
  for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) {
      const ptrdiff_t at = line * l.outLine + (pixel - l.firstPixel + p) * l.outPixel;
      V v = sums[line * kCount + p];
      if (end.bias) v = hn::Add(v, bias);
      if (end.residual) v = hn::Add(v, lanes.load(end.residual + at));
      if (end.isBounded) v = hn::IfThenElse(hn::Lt(v, low), low, v), v = hn::IfThenElse(hn::Gt(v, high), high, v);
      lanes.store(v, l.out + at);
    }
}

template <int kLines, int kCount, Border kBorder, class Lanes>
void block(const DepthwiseLines &l, int64_t pixel, Lanes lanes) {
  alignas(64) static constexpr float kZeros[hn::MaxLanes(D())] = {};
  const WindowShape &w = *l.window;
  V sums[kLines * kCount];
  for (V &sum : sums) sum = hn::Zero(D());
  const int64_t column = pixel * w.stride[2] - w.low[2];
  const auto isIn = [](int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); };
  for (const DepthwiseRow &row : *l.rows) {
    const int64_t z = l.depth + row.depth, y = l.line + row.line;
    InputRow in{kZeros, 0, 0, column, w.stride[2], w.in[2]};
    if (isIn(z, w.in[0]) && isIn(y, w.in[1])) {
      in.first = l.x + ((z * w.in[1] + y) * w.in[2] + column) * w.pixelStride;
      in.tapStep = w.dilation[2] * w.pixelStride, in.pixelStep = w.stride[2] * w.pixelStride;
    }
    if constexpr (kLines == 1) {
      addRow<1, kCount, 1, kBorder>(sums, l, row, in, lanes);
    } else if (row.weightRow[0] >= 0 && row.weightRow[1] >= 0) {
      addRow<2, kCount, 3, kBorder>(sums, l, row, in, lanes);
    } else if (row.weightRow[0] >= 0) {
      addRow<2, kCount, 1, kBorder>(sums, l, row, in, lanes);
    } else {
      addRow<2, kCount, 2, kBorder>(sums, l, row, in, lanes);
    }
  }
  endBlock<kLines, kCount>(sums, l, pixel, lanes);
}

template <int kLines, int kCount, class Lanes>
void blockOf(const DepthwiseLines &l, int64_t pixel, int64_t count, Lanes lanes) {
  if constexpr (kCount > 1)
    if (count < kCount) return blockOf<kLines, kCount - 1>(l, pixel, count, lanes);
  const WindowShape &w = *l.window;
  const int64_t first = pixel * w.stride[2] - w.low[2],
                last = first + (count - 1) * w.stride[2] + (l.columns - 1) * w.dilation[2];
  if (first >= 0 && last < w.in[2]) return block<kLines, kCount, Border::kInside>(l, pixel, lanes);
  block<kLines, kCount, Border::kCrossed>(l, pixel, lanes);
}

template <int kLines, class Lanes>
void linesOf(const DepthwiseLines &l, Lanes lanes) {
  const int64_t blocks = ceilDiv(l.pixels, kPixels);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = l.pixels * b / blocks, end = l.pixels * (b + 1) / blocks;
    blockOf<kLines, kPixels>(l, l.firstPixel + begin, end - begin, lanes);
  }
}

void depthwiseLines(const DepthwiseLines &l) {
  const bool isWhole = l.channels * 2 == kWidth;
  if (l.lines == 2) return isWhole ? linesOf<2>(l, AllLanes()) : linesOf<2>(l, FirstLanes(l.channels));
  isWhole ? linesOf<1>(l, AllLanes()) : linesOf<1>(l, FirstLanes(l.channels));
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(depthwiseLines);

namespace {
constexpr int64_t kTasksPerThread = 4;              // so that dynamic claiming balances the load
constexpr int64_t kFewestTaskFlops = 100'000;       // about 1 us (executable/cost.cpp)
constexpr int64_t kFewestPixels = 32;               // of a piece of a line
constexpr int64_t kPlaceFloats = int64_t{1} << 16;  // of its input: 256 KiB stay in the second level cache
}  // namespace

struct DepthwiseProduct::Operands {
  const float *x, *weights;
  float *y;
  const Epilogue &epilogue;
  std::optional<TileEnd> end;
  float *sums;
};

DepthwiseProduct::DepthwiseProduct(WindowProductShape shape, GroupedWeights weights, int threads)
    : shape_(std::move(shape)), lanes_(panelWidth() / 2), vectors_(ceilDiv(shape_.groups, lanes_)) {
  makeRows(weights);
  chooseTasks(std::max(1, threads));
  scratchFloats_ = static_cast<size_t>(2 * ceilDiv(shape_.window.out[2], pieces_) * lanes_);
}

void DepthwiseProduct::makeRows(GroupedWeights weights) {
  const WindowShape &w = shape_.window;
  if (shape_.tapRows.empty()) return;
  const auto weightRow = [&](int64_t tap) {
    const int64_t row = shape_.tapRows[static_cast<size_t>(tap)];
    return weights == GroupedWeights::kExchanged ? shape_.weightRows - 1 - row : row;
  };
  columns_ = w.taps[2];
  if (columns_ > 1) weightStep_ = weightRow(1) - weightRow(0);  // the same everywhere: taps are evenly spaced
  for (int lines = 1; lines <= 2; ++lines) {
    std::map<std::pair<int64_t, int64_t>, DepthwiseRow> found;  // by position in the input: in the order of the sum
    for (int64_t depth = 0; depth < w.taps[0]; ++depth)
      for (int64_t row = 0; row < w.taps[1]; ++row)
        for (int line = 0; line < lines; ++line) {
          const int64_t z = depth * w.dilation[0], y = line * w.stride[1] + row * w.dilation[1];
          DepthwiseRow &r = found.try_emplace({z, y}, DepthwiseRow{z, y, {-1, -1}}).first->second;
          r.weightRow[line] = weightRow((depth * w.taps[1] + row) * w.taps[2]);
        }
    for (const auto &[position, row] : found) rows_[lines - 1].push_back(row);
  }
}

int64_t DepthwiseProduct::linePairs() const { return ceilDiv(shape_.window.out[1], 2); }
int64_t DepthwiseProduct::places() const { return shape_.window.n * shape_.window.out[0] * linePairs() * pieces_; }

// Lines are shared out first, so that a thread reads neighbouring lines of all channels; then pieces of lines; then
// vectors of channels.
void DepthwiseProduct::chooseTasks(int threads) {
  const WindowShape &w = shape_.window;
  const int64_t wanted =
      std::clamp<int64_t>(static_cast<int64_t>(2 * products()) / kFewestTaskFlops, 1, threads * kTasksPerThread);
  const int64_t pairs = std::max<int64_t>(1, places());
  const int64_t lineFloats = w.taps[0] * (w.taps[1] + 1) * w.in[2] * w.pixelStride;
  const int64_t most = std::max<int64_t>(1, w.out[2] / kFewestPixels);
  pieces_ = std::clamp<int64_t>(std::max(ceilDiv(wanted, pairs), ceilDiv(lineFloats, kPlaceFloats)), 1, most);
  placeTasks_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, places()));
  vectorTasks_ = std::clamp<int64_t>(ceilDiv(wanted, placeTasks_), 1, std::max<int64_t>(1, vectors_));
}

DepthwiseProduct::Part DepthwiseProduct::partOf(int task) const noexcept {
  const int64_t place = task / vectorTasks_, vector = task % vectorTasks_;
  return {places() * place / placeTasks_, places() * (place + 1) / placeTasks_, vectors_ * vector / vectorTasks_,
          vectors_ * (vector + 1) / vectorTasks_};
}

double DepthwiseProduct::products() const {
  const WindowShape &w = shape_.window;
  return static_cast<double>(w.n * volume(w.out) * vectors_ * lanes_) * static_cast<double>(shape_.tapRows.size());
}

double DepthwiseProduct::share(int task) const {
  const Part p = partOf(task);
  const int64_t whole = places() * vectors_;
  return whole == 0 ? 0
                    : static_cast<double>((p.endPlace - p.firstPlace) * (p.endVector - p.firstVector)) /
                          static_cast<double>(whole);
}

void DepthwiseProduct::run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
                           float *scratch) const noexcept {
  const Operands operands{x, packedWeights, y, epilogue, tileEnd(epilogue, 0), scratch};
  const Part part = partOf(task);
  for (int64_t place = part.firstPlace; place < part.endPlace; ++place)
    for (int64_t vector = part.firstVector; vector < part.endVector; ++vector) runPlace(place, vector, operands);
}

void DepthwiseProduct::runPlace(int64_t place, int64_t vector, const Operands &operands) const noexcept {
  const WindowShape &w = shape_.window;
  const int64_t piece = place % pieces_, pair = place / pieces_ % linePairs(), depth = place / pieces_ / linePairs(),
                channel = vector * lanes_, width = 2 * lanes_;
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  DepthwiseLines l{};
  l.window = &w;
  l.lines = static_cast<int>(std::min<int64_t>(2, w.out[1] - 2 * pair));
  l.rows = &rows_[l.lines - 1];
  l.columns = columns_, l.weightStep = weightStep_;
  l.x = operands.x + depth / w.out[0] * volume(w.in) * w.pixelStride + channel;
  l.weights = operands.weights + channel / width * shape_.weightRows * width + channel % width;
  l.channels = std::min(lanes_, shape_.groups - channel);
  l.depth = depth % w.out[0] * w.stride[0] - w.low[0];
  l.line = 2 * pair * w.stride[1] - w.low[1];
  l.firstPixel = w.out[2] * piece / pieces_;
  l.pixels = w.out[2] * (piece + 1) / pieces_ - l.firstPixel;
  const int64_t image = depth / w.out[0] * size[0] + first[0] + depth % w.out[0] * step[0],
                row = image * size[1] + first[1] + 2 * pair * step[1];
  const ptrdiff_t at = (row * size[2] + first[2] + l.firstPixel * step[2]) * shape_.groups + channel;
  const ptrdiff_t yPixel = step[2] * shape_.groups, yLine = step[1] * size[2] * shape_.groups;
  if (operands.end) {
    l.out = operands.y + at, l.outPixel = yPixel, l.outLine = yLine;
    l.end = operands.end->at(at, channel);
    return HWY_DYNAMIC_DISPATCH(depthwiseLines)(l);
  }
  l.out = operands.sums, l.outPixel = lanes_, l.outLine = l.pixels * lanes_;
  HWY_DYNAMIC_DISPATCH(depthwiseLines)(l);
  for (int line = 0; line < l.lines; ++line) {
    const ptrdiff_t to = at + line * yLine;
    applyEpilogue(operands.epilogue.at(to, channel), operands.sums + line * l.outLine, lanes_, operands.y + to, yPixel,
                  static_cast<int>(l.pixels), l.channels);
  }
}

}  // namespace popart::cpu
#endif
