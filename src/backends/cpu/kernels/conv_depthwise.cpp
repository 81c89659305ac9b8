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
#include "backends/cpu/kernels/bounds-inl.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
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
constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 ? 32 : 16;
static_assert(kPixels <= kMostDepthwisePixels);
// kWidth: of a panel of weights.
constexpr int64_t kVector = static_cast<int64_t>(hn::MaxLanes(D())), kWidth = 2 * kVector;
enum class Border : uint8_t { kInside, kCrossed };

// A row of taps of one vector of channels. It is a copy, because the compiler must assume that stores of sums change
// memory.
struct TapRow {
  const float *x;           // at the first pixel's first tap; may be outside the line
  const float *weights[2];  // of that tap, by output line
  ptrdiff_t position, weightStep;
  int64_t column, positions;  // column: first position of x; positions: length of the line
};

template <Border kBorder, class Lanes>
HWY_INLINE V inputAt(const TapRow &row, int64_t position, Lanes lanes) {
  const bool isInside =
      kBorder == Border::kInside || static_cast<uint64_t>(row.column + position) < static_cast<uint64_t>(row.positions);
  return isInside ? lanes.load(row.x + position * row.position) : hn::Zero(D());
}

// Rows with any number of taps: an input is loaded for each tap that reads it. Bit l of kOf is set if output line l
// reads the row.
struct AnyTaps {
  template <int kLines, int kCount, unsigned kOf, Border kBorder, class Lanes>
  static HWY_INLINE void addRow(V *HWY_RESTRICT sums, const DepthwiseBlock &b, TapRow row, Lanes lanes) {
    for (int64_t tap = 0; tap < b.columns; ++tap) {
      V w[kLines];
      for (int line = 0; line < kLines; ++line)
        if (kOf >> line & 1) w[line] = hn::LoadU(D(), row.weights[line] + tap * row.weightStep);
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p) {
        const V x = inputAt<kBorder>(row, p * b.stride, lanes);
#pragma GCC unroll 2
        for (int line = 0; line < kLines; ++line)
          if (kOf >> line & 1) sums[line * kCount + p] = hn::MulAdd(x, w[line], sums[line * kCount + p]);
      }
      row.x += b.dilation * row.position, row.column += b.dilation;
    }
  }
};

// Rows whose number of taps is known at compile time: an input is loaded once, for all sums of its row.
template <int kTaps, int kStride>
struct KnownTaps {
  static bool areOf(const DepthwiseBlock &b) {
    return b.columns == kTaps && b.stride == kStride && (b.dilation == 1 || kTaps == 1);
  }
  // Adds the product of x, at position kPosition of a row, with its tap for pixel kPixel, if there is one.
  template <int kPosition, int kPixel>
  static HWY_INLINE void addProduct(V &sum, V x, const V *HWY_RESTRICT weights) {
    constexpr int kTap = kPosition - kStride * kPixel;
    if constexpr (kTap >= 0 && kTap < kTaps) sum = hn::MulAdd(x, weights[kTap], sum);
  }
  template <int kPosition, size_t... P>
  static HWY_INLINE void addProducts(V *HWY_RESTRICT sums, V x, const V *HWY_RESTRICT weights,
                                     std::index_sequence<P...>) {
    (addProduct<kPosition, static_cast<int>(P)>(sums[P], x, weights), ...);
  }
  template <int kCount, unsigned kOf, Border kBorder, int kPosition, class Lanes>
  static HWY_INLINE void addPosition(V *HWY_RESTRICT sums, const TapRow &row, const V *HWY_RESTRICT weights,
                                     Lanes lanes) {
    constexpr auto kPixelsOfLine = std::make_index_sequence<kCount>();
    const V x = inputAt<kBorder>(row, kPosition, lanes);
    if constexpr (kOf & 1) addProducts<kPosition>(sums, x, weights, kPixelsOfLine);
    if constexpr (kOf & 2) addProducts<kPosition>(sums + kCount, x, weights + kTaps, kPixelsOfLine);
  }
  template <size_t... T>
  static HWY_INLINE void loadWeights(V *HWY_RESTRICT to, const float *from, ptrdiff_t step, std::index_sequence<T...>) {
    ((to[T] = hn::LoadU(D(), from + static_cast<ptrdiff_t>(T) * step)), ...);
  }
  template <int kCount, unsigned kOf, Border kBorder, class Lanes, size_t... J>
  static HWY_INLINE void addPositions(V *HWY_RESTRICT sums, const TapRow &row, Lanes lanes, std::index_sequence<J...>) {
    constexpr auto kEach = std::make_index_sequence<kTaps>();
    V weights[2 * kTaps];
    if constexpr (kOf & 1) loadWeights(weights, row.weights[0], row.weightStep, kEach);
    if constexpr (kOf & 2) loadWeights(weights + kTaps, row.weights[1], row.weightStep, kEach);
    (addPosition<kCount, kOf, kBorder, static_cast<int>(J)>(sums, row, weights, lanes), ...);
  }
  template <int kLines, int kCount, unsigned kOf, Border kBorder, class Lanes>
  static HWY_INLINE void addRow(V *HWY_RESTRICT sums, const DepthwiseBlock &, const TapRow &row, Lanes lanes) {
    addPositions<kCount, kOf, kBorder>(sums, row, lanes, std::make_index_sequence<(kCount - 1) * kStride + kTaps>());
  }
};

// ---- the epilogue of the sums of one vector; kCount of them belong to one line

template <size_t... I>
HWY_INLINE void addBias(V *HWY_RESTRICT sums, V bias, std::index_sequence<I...>) {
  ((sums[I] = hn::Add(sums[I], bias)), ...);
}
template <size_t... I>
HWY_INLINE void boundBelow(V *HWY_RESTRICT sums, V low, std::index_sequence<I...>) {
  ((sums[I] = bounds::atLeast(sums[I], low)), ...);
}
template <size_t... I>
HWY_INLINE void boundAbove(V *HWY_RESTRICT sums, V high, std::index_sequence<I...>) {
  ((sums[I] = bounds::atMost(sums[I], high)), ...);
}
template <size_t kCount, class Lanes, size_t... I>
HWY_INLINE void addLines(V *HWY_RESTRICT sums, const float *from, ptrdiff_t line, ptrdiff_t pixel, Lanes lanes,
                         std::index_sequence<I...>) {
  ((sums[I] = hn::Add(sums[I], lanes.load(from + static_cast<ptrdiff_t>(I / kCount) * line +
                                          static_cast<ptrdiff_t>(I % kCount) * pixel))),
   ...);
}
template <size_t kCount, class Lanes, size_t... I>
HWY_INLINE void storeLines(const V *HWY_RESTRICT sums, float *to, ptrdiff_t line, ptrdiff_t pixel, Lanes lanes,
                           std::index_sequence<I...>) {
  (lanes.store(sums[I], to + static_cast<ptrdiff_t>(I / kCount) * line + static_cast<ptrdiff_t>(I % kCount) * pixel),
   ...);
}

// `c`: offset of the vector's first channel from the block's first channel.
template <int kLines, int kCount, class Lanes>
HWY_INLINE void endVector(V *HWY_RESTRICT sums, const DepthwiseBlock &b, ptrdiff_t c, Lanes lanes) {
  constexpr auto kEach = std::make_index_sequence<static_cast<size_t>(kLines * kCount)>();
  const TileEnd &end = b.end;
  if (end.bias) addBias(sums, lanes.load(end.bias + c), kEach);
  if (end.residual) addLines<kCount>(sums, end.residual + c, b.outLine, b.outPixel, lanes, kEach);
  if (end.hasLow()) boundBelow(sums, hn::Set(D(), end.low), kEach);
  if (end.hasHigh()) boundAbove(sums, hn::Set(D(), end.high), kEach);
  storeLines<kCount>(sums, b.out + c, b.outLine, b.outPixel, lanes, kEach);
}

template <int kLines, int kCount, Border kBorder, class Row, class Lanes>
HWY_INLINE void sumVector(const DepthwiseBlock &b, ptrdiff_t c, Lanes lanes) {
  V sums[kLines * kCount];
  for (V &sum : sums) sum = hn::Zero(D());
  const int64_t channel = b.channel + c;
  const float *panel = b.weights + channel / kWidth * b.weightRows * kWidth + channel % kWidth;
  for (int64_t r = 0; r < b.rows; ++r) {
    const DepthwiseInput &in = b.inputs[r];
    const TapRow row{in.line + b.column * in.position + c * in.channel,
                     {panel + in.weightRow[0] * kWidth, panel + in.weightRow[1] * kWidth},
                     in.position,
                     b.weightStep * kWidth,
                     b.column,
                     b.positions};
    if constexpr (kLines == 1) {
      Row::template addRow<1, kCount, 1, kBorder>(sums, b, row, lanes);
    } else if (in.weightRow[1] < 0) {
      Row::template addRow<2, kCount, 1, kBorder>(sums, b, row, lanes);
    } else if (in.weightRow[0] < 0) {
      Row::template addRow<2, kCount, 2, kBorder>(sums, b, row, lanes);
    } else {
      Row::template addRow<2, kCount, 3, kBorder>(sums, b, row, lanes);
    }
  }
  endVector<kLines, kCount>(sums, b, c, lanes);
}

template <int kLines, int kCount, Border kBorder, class Row>
HWY_NOINLINE void sumVectors(const DepthwiseBlock &given) {
  const DepthwiseBlock b = given;
  ptrdiff_t c = 0;
  for (; c + kVector <= b.channels; c += kVector) sumVector<kLines, kCount, kBorder, Row>(b, c, AllLanes());
  if (c < b.channels) sumVector<kLines, kCount, kBorder, AnyTaps>(b, c, FirstLanes(b.channels - c));
}

// Known taps, for blocks of two lines that are not short. Their weights must fit in registers.
template <int kLines, int kCount, Border kBorder, class First, class... Others>
void sumKnownVectors(const DepthwiseBlock &b) {
  if (First::areOf(b)) return sumVectors<kLines, kCount, kBorder, First>(b);
  if constexpr (sizeof...(Others) > 0)
    sumKnownVectors<kLines, kCount, kBorder, Others...>(b);
  else
    sumVectors<kLines, kCount, kBorder, AnyTaps>(b);
}

template <int kLines, int kCount, Border kBorder>
void sumAnyVectors(const DepthwiseBlock &b) {
  if constexpr (kLines == 2 && 2 * kCount > kPixels && kRegisters == 32)
    sumKnownVectors<kLines, kCount, kBorder, KnownTaps<3, 1>, KnownTaps<3, 2>, KnownTaps<5, 1>>(b);
  else if constexpr (kLines == 2 && 2 * kCount > kPixels)
    sumKnownVectors<kLines, kCount, kBorder, KnownTaps<3, 1>>(b);
  else
    sumVectors<kLines, kCount, kBorder, AnyTaps>(b);
}

template <int kLines, int kCount>
void blockOf(const DepthwiseBlock &b) {
  if constexpr (kCount > 1)
    if (b.pixels < kCount) return blockOf<kLines, kCount - 1>(b);
  const int64_t last = b.column + (kCount - 1) * b.stride + (b.columns - 1) * b.dilation;
  if (b.column >= 0 && last < b.positions) return sumAnyVectors<kLines, kCount, Border::kInside>(b);
  sumAnyVectors<kLines, kCount, Border::kCrossed>(b);
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
constexpr int64_t kTasksPerThread = 4;        // so that dynamic claiming balances the load
constexpr int64_t kFewestTaskFlops = 50'000;  // about 1 us: an input is read for few multiply-adds
constexpr int64_t kFewestPixels = 32;         // least length of a piece of a line
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

bool DepthwiseProduct::fits(const ConvShape &s) {
  return s.isDepthwise() && 2 * s.kernel[0] * s.kernel[1] <= kMostDepthwiseRows;
}

void DepthwiseProduct::makeRows(GroupedWeights weights) {
  const WindowShape &w = shape_.window;
  if (shape_.tapRows.empty()) return;
  const auto weightRow = [&](int64_t tap) {
    const int64_t row = shape_.tapRows[static_cast<size_t>(tap)];
    return weights == GroupedWeights::kExchanged ? shape_.weightRows - 1 - row : row;
  };
  columns_ = w.taps[2];
  if (columns_ > 1) weightStep_ = weightRow(1) - weightRow(0);  // equal for all taps, which are evenly spaced
  for (int lines = 1; lines <= 2; ++lines) {
    // By position in the input, which is the order of the sum.
    std::map<std::pair<int64_t, int64_t>, DepthwiseRow> found;
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

// First divides lines, so that a thread reads neighbouring lines of all channels; then pieces of lines. Vectors of
// channels are divided as far as all threads get more equal shares.
void DepthwiseProduct::chooseTasks(int threads) {
  constexpr double kWorthDividing = 0.97;  // of the elapsed time
  const WindowShape &w = shape_.window;
  const int64_t wanted =
      std::clamp<int64_t>(static_cast<int64_t>(2 * products()) / kFewestTaskFlops, 1, threads * kTasksPerThread);
  pieces_ = std::clamp<int64_t>(ceilDiv(wanted, std::max<int64_t>(1, places())), 1,
                                std::max<int64_t>(1, w.out[2] / kFewestPixels));
  double best = -1;
  for (int64_t v = 1; v <= std::min(std::max<int64_t>(1, vectors_), wanted); ++v) {
    const int64_t p = std::min(std::max<int64_t>(1, places()), ceilDiv(wanted, v));
    const double elapsed = elapsedOf(p, v, threads);
    if (best >= 0 && elapsed >= kWorthDividing * best) continue;
    best = elapsed, placeTasks_ = p, vectorTasks_ = v;
  }
}

// Time of all turns of tasks, in vectors of a place.
double DepthwiseProduct::elapsedOf(int64_t placeTasks, int64_t vectorTasks, int threads) const {
  return static_cast<double>(ceilDiv(placeTasks * vectorTasks, threads) * ceilDiv(places(), placeTasks) *
                             ceilDiv(vectors_, vectorTasks));
}

bool DepthwiseProduct::takeWholeImages(int threads) {
  constexpr double kMostElapsed = 1.1;     // a pass for the means takes at least a tenth of the convolution's time
  constexpr double kWorthNarrowing = 0.9;  // of the elapsed time
  constexpr int64_t kLeastRowBytes = 256;  // shorter pieces of rows are read more slowly
  constexpr int64_t kFewestPerThread = 2;  // tasks, so that dynamic claiming balances the load
  const WindowShape &w = shape_.window;
  if (w.n == 0 || volume(w.out) == 0 || vectors_ == 0) return false;
  const int64_t bytesPerVector = lanes_ * static_cast<int64_t>(sizeof(float));
  const int64_t most = ceilDiv(vectors_, std::max<int64_t>(1, kLeastRowBytes / bytesPerVector));
  int64_t best = std::min(most, ceilDiv(kFewestPerThread * threads, w.n));
  if (ceilDiv(vectors_, best) * (volume(w.in) + volume(w.out)) * bytesPerVector > secondLevelCacheBytes() / 2)
    return false;
  for (int64_t v = best + 1; v <= most; ++v)
    if (elapsedOf(w.n, v, threads) < kWorthNarrowing * elapsedOf(w.n, best, threads)) best = v;
  if (elapsedOf(w.n, best, threads) > kMostElapsed * elapsedOf(placeTasks_, vectorTasks_, threads)) return false;
  placeTasks_ = w.n, vectorTasks_ = best;
  return true;
}

ImageChannels DepthwiseProduct::channelsOf(int task) const noexcept {
  const Part part = partOf(task);
  const int64_t first = part.firstVector * lanes_;
  return {task / vectorTasks_, first, std::min(part.endVector * lanes_, shape_.groups) - first};
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

// Finds where a pair of lines reads its rows of taps. `depth`, `line`: position in the input of tap 0 of the first
// line's window.
void DepthwiseProduct::readRows(int lines, int64_t depth, int64_t line, const float *image,
                                DepthwiseInput *inputs) const noexcept {
  alignas(64) static constexpr float kZeros[kMaxPanelWidth] = {};
  const WindowShape &w = shape_.window;
  const auto isIn = [](int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); };
  for (const DepthwiseRow &row : rows_[lines - 1]) {
    const int64_t z = depth + row.depth, y = line + row.line;
    const bool isInside = isIn(z, w.in[0]) && isIn(y, w.in[1]);
    inputs->line = isInside ? image + (z * w.in[1] + y) * w.in[2] * w.pixelStride : kZeros;
    inputs->position = isInside ? w.pixelStride : 0;
    inputs->channel = isInside ? 1 : 0;
    std::copy_n(row.weightRow, 2, inputs->weightRow);
    ++inputs;
  }
}

void DepthwiseProduct::runPlace(int64_t place, const Part &part, const Operands &operands) const noexcept {
  const WindowShape &w = shape_.window;
  const int64_t piece = place % pieces_, pair = place / pieces_ % linePairs(), depth = place / pieces_ / linePairs();
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  DepthwiseInput inputs[kMostDepthwiseRows];
  DepthwiseBlock b{};
  b.lines = static_cast<int>(std::min<int64_t>(2, w.out[1] - 2 * pair));
  b.channel = part.firstVector * lanes_;
  b.channels = std::min(part.endVector * lanes_, shape_.groups) - b.channel;
  readRows(b.lines, depth % w.out[0] * w.stride[0] - w.low[0], 2 * pair * w.stride[1] - w.low[1],
           operands.x + depth / w.out[0] * volume(w.in) * w.pixelStride + b.channel, inputs);
  b.inputs = inputs, b.rows = static_cast<int64_t>(rows_[b.lines - 1].size());
  b.columns = columns_, b.weightStep = weightStep_;
  b.weights = operands.weights, b.weightRows = shape_.weightRows;
  b.positions = w.in[2], b.stride = w.stride[2], b.dilation = w.dilation[2];
  const int64_t image = depth / w.out[0] * size[0] + first[0] + depth % w.out[0] * step[0],
                row = image * size[1] + first[1] + 2 * pair * step[1];
  const int64_t begin = w.out[2] * piece / pieces_, pixels = w.out[2] * (piece + 1) / pieces_ - begin,
                blocks = ceilDiv(pixels, HWY_DYNAMIC_DISPATCH(depthwisePixels)());
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t pixel = begin + pixels * i / blocks;
    b.column = pixel * w.stride[2] - w.low[2];
    b.pixels = static_cast<int>(begin + pixels * (i + 1) / blocks - pixel);
    runBlock(b, (row * size[2] + first[2] + pixel * step[2]) * shape_.groups + b.channel, operands);
  }
}

// `at`: offset of the block's first element in y.
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
