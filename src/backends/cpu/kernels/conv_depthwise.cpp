// Loop nest of depthwise sums, compiled once per instruction set by Highway.
//
//   task = (range of places, range of vectors of channels)     a place: a piece of a pair of output lines
//     for each place
//       for each block of kPixels pixels of both lines            its input is contiguous for each row of taps
//         for each vector of channels                               sums in registers
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

constexpr int kPixels = HWY_TARGET <= HWY_AVX3 ? 8 : 4;  // 16 or 8 sums, of 32 or 16 registers
static_assert(kPixels <= kMostDepthwisePixels);
constexpr int64_t kVector = static_cast<int64_t>(hn::MaxLanes(D())), kWidth = 2 * kVector;  // of a panel of weights
enum class Border : uint8_t { kInside, kCrossed };

// Where the inputs of a row of taps are. A row outside of the image is one vector of zeros.
struct InputRow {
  const float *first;  // of tap 0 of the block's first pixel; may be outside
  ptrdiff_t tapStep, pixelStep;
  int64_t column, columnStep, columnsInside;  // of `first`; from pixel to pixel; of the image
};

// One vector of channels of a block: what depends on the vector.
struct VectorPlace {
  const float *x, *weights;
  ptrdiff_t channel;  // from the block's first
};

// Adds the products of one row of taps. kOf: bit l is set where output line l reads the row.
template <int kLines, int kCount, unsigned kOf, Border kBorder, class Lanes>
HWY_INLINE void addRow(V *HWY_RESTRICT sums, const DepthwiseBlock &b, const float *first, const DepthwiseRow &row,
                       const InputRow &in, Lanes lanes) {
  const ptrdiff_t weightStep = b.weightStep * kWidth;
  const float *weights[2] = {first + row.weightRow[0] * kWidth, first + row.weightRow[1] * kWidth};
  const float *at = in.first;
  int64_t column = in.column;
  for (int64_t tap = 0; tap < b.columns; ++tap, at += in.tapStep, column += b.window->dilation[2]) {
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
HWY_INLINE void endVector(const V *HWY_RESTRICT sums, const DepthwiseBlock &b, ptrdiff_t channel, Lanes lanes) {
  const TileEnd &end = b.end;
  const V bias = end.bias ? lanes.load(end.bias + channel) : hn::Zero(D());
  const V low = hn::Set(D(), end.low), high = hn::Set(D(), end.high);
#pragma GCC unroll 2
  for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) {
      const ptrdiff_t at = line * b.outLine + p * b.outPixel + channel;
      V v = sums[line * kCount + p];
      if (end.bias) v = hn::Add(v, bias);
      if (end.residual) v = hn::Add(v, lanes.load(end.residual + at));
      if (end.hasLow()) v = hn::IfThenElse(hn::Lt(v, low), low, v);
      if (end.hasHigh()) v = hn::IfThenElse(hn::Gt(v, high), high, v);
      lanes.store(v, b.out + at);
    }
}

template <int kLines, int kCount, Border kBorder, class Lanes>
HWY_INLINE void sumVector(const DepthwiseBlock &b, const VectorPlace &place, Lanes lanes) {
  alignas(64) static constexpr float kZeros[hn::MaxLanes(D())] = {};
  const WindowShape &w = *b.window;
  V sums[kLines * kCount];
  for (V &sum : sums) sum = hn::Zero(D());
  const int64_t column = b.pixel * w.stride[2] - w.low[2];
  const auto isIn = [](int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); };
  for (const DepthwiseRow &row : *b.rows) {
    const int64_t z = b.depth + row.depth, y = b.line + row.line;
    InputRow in{kZeros, 0, 0, column, w.stride[2], w.in[2]};
    if (isIn(z, w.in[0]) && isIn(y, w.in[1])) {
      in.first = place.x + ((z * w.in[1] + y) * w.in[2] + column) * w.pixelStride;
      in.tapStep = w.dilation[2] * w.pixelStride, in.pixelStep = w.stride[2] * w.pixelStride;
    }
    if constexpr (kLines == 1) {
      addRow<1, kCount, 1, kBorder>(sums, b, place.weights, row, in, lanes);
    } else if (row.weightRow[0] >= 0 && row.weightRow[1] >= 0) {
      addRow<2, kCount, 3, kBorder>(sums, b, place.weights, row, in, lanes);
    } else if (row.weightRow[0] >= 0) {
      addRow<2, kCount, 1, kBorder>(sums, b, place.weights, row, in, lanes);
    } else {
      addRow<2, kCount, 2, kBorder>(sums, b, place.weights, row, in, lanes);
    }
  }
  endVector<kLines, kCount>(sums, b, place.channel, lanes);
}

template <int kLines, int kCount, Border kBorder>
void sumVectors(const DepthwiseBlock &b) {
  for (int64_t c = 0; c < b.channels; c += kVector) {
    const int64_t channel = b.channel + c;
    const float *panel = b.weights + channel / kWidth * b.weightRows * kWidth + channel % kWidth;
    const VectorPlace place{b.x + channel, panel, c};
    if (b.channels - c >= kVector)
      sumVector<kLines, kCount, kBorder>(b, place, AllLanes());
    else
      sumVector<kLines, kCount, kBorder>(b, place, FirstLanes(b.channels - c));
  }
}

template <int kLines, int kCount>
void blockOf(const DepthwiseBlock &b) {
  if constexpr (kCount > 1)
    if (b.pixels < kCount) return blockOf<kLines, kCount - 1>(b);
  const WindowShape &w = *b.window;
  const int64_t first = b.pixel * w.stride[2] - w.low[2],
                last = first + (kCount - 1) * w.stride[2] + (b.columns - 1) * w.dilation[2];
  if (first >= 0 && last < w.in[2]) return sumVectors<kLines, kCount, Border::kInside>(b);
  sumVectors<kLines, kCount, Border::kCrossed>(b);
}

void depthwiseBlock(const DepthwiseBlock &b) { b.lines == 2 ? blockOf<2, kPixels>(b) : blockOf<1, kPixels>(b); }
int depthwisePixels() { return kPixels; }

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(depthwiseBlock);
HWY_EXPORT(depthwisePixels);

namespace {
constexpr int64_t kTasksPerThread = 4;         // so that dynamic claiming balances the load
constexpr int64_t kFewestTaskFlops = 100'000;  // about 1 us (executable/cost.cpp)
constexpr int64_t kFewestPixels = 32;          // of a piece of a line
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
  scratchFloats_ = static_cast<size_t>(2 * kMostDepthwisePixels * vectors_ * lanes_);
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
  const int64_t most = std::max<int64_t>(1, w.out[2] / kFewestPixels);
  pieces_ = std::clamp<int64_t>(ceilDiv(wanted, pairs), 1, most);
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
  for (int64_t place = part.firstPlace; place < part.endPlace; ++place) runPlace(place, part, operands);
}

void DepthwiseProduct::runPlace(int64_t place, const Part &part, const Operands &operands) const noexcept {
  const WindowShape &w = shape_.window;
  const int64_t piece = place % pieces_, pair = place / pieces_ % linePairs(), depth = place / pieces_ / linePairs();
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  DepthwiseBlock b{};
  b.window = &w;
  b.lines = static_cast<int>(std::min<int64_t>(2, w.out[1] - 2 * pair));
  b.rows = &rows_[b.lines - 1];
  b.columns = columns_, b.weightStep = weightStep_;
  b.x = operands.x + depth / w.out[0] * volume(w.in) * w.pixelStride;
  b.weights = operands.weights, b.weightRows = shape_.weightRows;
  b.channel = part.firstVector * lanes_;
  b.channels = std::min(part.endVector * lanes_, shape_.groups) - b.channel;
  b.depth = depth % w.out[0] * w.stride[0] - w.low[0];
  b.line = 2 * pair * w.stride[1] - w.low[1];
  const int64_t image = depth / w.out[0] * size[0] + first[0] + depth % w.out[0] * step[0],
                row = image * size[1] + first[1] + 2 * pair * step[1];
  const int64_t begin = w.out[2] * piece / pieces_, pixels = w.out[2] * (piece + 1) / pieces_ - begin,
                blocks = ceilDiv(pixels, HWY_DYNAMIC_DISPATCH(depthwisePixels)());
  for (int64_t i = 0; i < blocks; ++i) {
    b.pixel = begin + pixels * i / blocks;
    b.pixels = static_cast<int>(begin + pixels * (i + 1) / blocks - b.pixel);
    runBlock(b, (row * size[2] + first[2] + b.pixel * step[2]) * shape_.groups + b.channel, operands);
  }
}

// `at`: of the block's first element in y.
void DepthwiseProduct::runBlock(DepthwiseBlock &b, ptrdiff_t at, const Operands &operands) const noexcept {
  const ptrdiff_t yPixel = shape_.step[2] * shape_.groups, yLine = shape_.step[1] * shape_.size[2] * shape_.groups;
  if (operands.end) {
    b.out = operands.y + at, b.outPixel = yPixel, b.outLine = yLine;
    b.end = operands.end->at(at, b.channel);
    return HWY_DYNAMIC_DISPATCH(depthwiseBlock)(b);
  }
  b.out = operands.sums, b.outPixel = b.channels, b.outLine = b.pixels * b.channels;
  HWY_DYNAMIC_DISPATCH(depthwiseBlock)(b);
  for (int line = 0; line < b.lines; ++line) {
    const ptrdiff_t to = at + line * yLine;
    applyEpilogue(operands.epilogue.at(to, b.channel), operands.sums + line * b.outLine, b.channels, operands.y + to,
                  yPixel, b.pixels, b.channels);
  }
}

}  // namespace popart::cpu
#endif
