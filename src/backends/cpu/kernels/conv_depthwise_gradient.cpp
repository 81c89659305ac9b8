// Loop nest of depthwise weight gradients, compiled once per instruction set by Highway.
//
//   for some lines of places                             their inputs stay in the second level cache
//     for each vector of channels                          those of a line in the first level cache
//       for each part of the kernel: neighbouring taps       sums in registers
//         for each line, for each block of kPlaces places      dy in registers
//           for each column of x, for each row of taps           one load of x for all taps that read it
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv_depthwise_gradient.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/conv_depthwise_gradient.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pack.hpp"
// clang-format on
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#ifndef POPART_CPU_DEPTHWISE_LINES
#define POPART_CPU_DEPTHWISE_LINES
namespace popart::cpu {
// Lines of places of one image, for a part of the kernel and some channels of a panel.
struct DepthwiseLines {
  const WindowShape *window;
  DepthwiseTaps taps;
  WindowChunk places;
  const float *x, *dy;  // of the first image, at the first channel
  int64_t channels;
  float *sums;    // sums of all taps, at the first channel
  int64_t width;  // width of a panel
};
constexpr int kMostTapRows = 5, kMostTapColumns = 5;  // per part
}  // namespace popart::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int kPlaces = 4;                                   // per block
constexpr int kMostSums = HWY_TARGET <= HWY_AVX3 ? 26 : 10;  // 32 or 16 registers without those of dy and x
constexpr int64_t kVector = static_cast<int64_t>(hn::MaxLanes(D()));
alignas(64) constexpr float kZeros[kVector] = {};
// Whether neighbouring places, and the taps of a row, are neighbouring columns. If so, blocks share loads.
enum class Columns : uint8_t { kNeighbours, kApart };

template <int kCount>
constexpr auto kEach = std::make_integer_sequence<int, kCount>();

// Where the inputs of a row of taps are. A row outside the image is one vector of zeros.
struct TapRow {
  const float *at;  // at the first tap of a place
  ptrdiff_t tapStep, placeStep;
};

// The columns of a place's taps: the first one, the distance between taps, and the number of columns of the image.
struct TapColumns {
  int64_t first, step, size;
};

HWY_INLINE bool isIn(int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); }

// Advances a pointer. Without the assembly, the compiler would first compute the addresses of all columns, for which
// there are not enough registers.
HWY_INLINE void advance(const float *&at, ptrdiff_t step) {
  at += step;
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  asm("" : "+r"(at));
#endif
}

// The functions below expand index sequences, so that the compiler keeps each sum in its own register.

// Adds x times dy of place kPlace, if the block has that place.
template <int kPlace, int kCount>
HWY_INLINE V addTap(V sum, V x, const V *HWY_RESTRICT dy) {
  if constexpr (kPlace >= 0 && kPlace < kCount) return hn::MulAdd(x, dy[kPlace], sum);
  return sum;
}
template <int kColumn, int kCount, int... kTap>
HWY_INLINE void addTaps(V *HWY_RESTRICT sums, V x, const V *HWY_RESTRICT dy, std::integer_sequence<int, kTap...>) {
  ((sums[kTap] = addTap<kColumn - kTap, kCount>(sums[kTap], x, dy)), ...);
}

// Column kColumn of a block of kCount places: one input per row. The taps of several places must be inside the image.
template <int kColumns, int kColumn, int kCount, class Lanes>
HWY_INLINE void addInput(V *HWY_RESTRICT sums, const float *&at, ptrdiff_t tapStep, const V *HWY_RESTRICT dy,
                         bool isInside, Lanes lanes) {
  const V x = kCount > 1 || isInside ? lanes.load(at) : hn::Zero(D());
  advance(at, tapStep);
  addTaps<kColumn, kCount>(sums, x, dy, kEach<kColumns>);
}
template <int kColumns, int kColumn, int kCount, class Lanes, int... kRow>
HWY_INLINE void addColumn(V *HWY_RESTRICT sums, const float **at, const TapRow *rows, const V *HWY_RESTRICT dy,
                          TapColumns columns, Lanes lanes, std::integer_sequence<int, kRow...>) {
  const bool isInside = isIn(columns.first + kColumn * columns.step, columns.size);
  (addInput<kColumns, kColumn, kCount>(sums + kRow * kColumns, at[kRow], rows[kRow].tapStep, dy, isInside, lanes), ...);
}

template <int kColumns, class Lanes, int... kPlace, int... kRow, int... kColumn>
HWY_INLINE void addBlock(V *HWY_RESTRICT sums, TapRow *rows, const float *&dy, ptrdiff_t dyStep, TapColumns columns,
                         Lanes lanes, std::integer_sequence<int, kPlace...>,
                         std::integer_sequence<int, kRow...> eachRow, std::integer_sequence<int, kColumn...>) {
  constexpr int kCount = sizeof...(kPlace);
  V gradients[kCount];
  const float *at[] = {rows[kRow].at...};
  ((gradients[kPlace] = lanes.load(dy), advance(dy, dyStep)), ...);
  (addColumn<kColumns, kColumn, kCount>(sums, at, rows, gradients, columns, lanes, eachRow), ...);
  ((rows[kRow].at += kCount * rows[kRow].placeStep), ...);
}

// Distance in floats from the first tap of a part to sum kSum.
template <int kSum, int kColumns>
HWY_INLINE ptrdiff_t offsetOf(const DepthwiseLines &l) {
  return (kSum / kColumns * l.window->taps[2] + kSum % kColumns) * l.width;
}
template <int kColumns, class Lanes, int... kSum>
HWY_INLINE void loadSums(V *HWY_RESTRICT sums, const DepthwiseLines &l, const float *from, Lanes lanes,
                         std::integer_sequence<int, kSum...>) {
  ((sums[kSum] = lanes.load(from + offsetOf<kSum, kColumns>(l))), ...);
}
template <int kColumns, class Lanes, int... kSum>
HWY_INLINE void storeSums(const V *HWY_RESTRICT sums, const DepthwiseLines &l, float *to, Lanes lanes,
                          std::integer_sequence<int, kSum...>) {
  (lanes.store(sums[kSum], to + offsetOf<kSum, kColumns>(l)), ...);
}

// Row y at depth z of the image, from `column` on; all three may be outside.
HWY_INLINE TapRow rowAt(const DepthwiseLines &l, const float *x, int64_t z, int64_t y, int64_t column) {
  const WindowShape &w = *l.window;
  if (!isIn(z, w.in[0]) || !isIn(y, w.in[1])) return {kZeros, 0, 0};
  return {x + (((l.places.image * w.in[0] + z) * w.in[1] + y) * w.in[2] + column) * w.pixelStride,
          w.dilation[2] * w.pixelStride, w.stride[2] * w.pixelStride};
}
template <int... kRow>
HWY_INLINE void findRows(TapRow *rows, const DepthwiseLines &l, const float *x, int64_t line, int64_t column,
                         std::integer_sequence<int, kRow...>) {
  const WindowShape &w = *l.window;
  const int64_t z = l.places.depth * w.stride[0] - w.low[0] + l.taps.depth * w.dilation[0],
                y = line * w.stride[1] - w.low[1] + l.taps.row * w.dilation[1];
  ((rows[kRow] = rowAt(l, x, z, y + kRow * w.dilation[1], column)), ...);
}

template <int kRows, int kColumns, Columns kPlaced, class Lanes>
void addLines(const DepthwiseLines &l, int64_t channel, Lanes lanes) {
  const WindowShape &w = *l.window;
  const WindowChunk &p = l.places;
  const int64_t firstTap = (l.taps.depth * w.taps[1] + l.taps.row) * w.taps[2] + l.taps.column;
  float *const own = l.sums + firstTap * l.width + channel;
  V sums[kRows * kColumns];
  loadSums<kColumns>(sums, l, own, lanes, kEach<kRows * kColumns>);
  const int64_t column = p.pixel * w.stride[2] - w.low[2] + l.taps.column * w.dilation[2];
  for (int64_t line = p.line; line < p.line + p.lines; ++line) {
    TapRow rows[kRows];
    findRows(rows, l, l.x + channel, line, column, kEach<kRows>);
    const int64_t first = ((p.image * w.out[0] + p.depth) * w.out[1] + line) * w.out[2] + p.pixel;
    const float *dy = l.dy + first * w.pixelStride + channel;
    for (int64_t place = 0; place < p.pixels; ++place) {
      if constexpr (kPlaced == Columns::kNeighbours) {
        // End of the places whose taps are all inside.
        const int64_t end = std::min(p.pixels, w.in[2] - column - (kColumns - 1));
        for (; place >= -column && place + kPlaces <= end; place += kPlaces)
          addBlock<kColumns>(sums, rows, dy, w.pixelStride, {}, lanes, kEach<kPlaces>, kEach<kRows>,
                             kEach<kPlaces - 1 + kColumns>);
        if (place == p.pixels) break;
      }
      addBlock<kColumns>(sums, rows, dy, w.pixelStride, {column + place * w.stride[2], w.dilation[2], w.in[2]}, lanes,
                         kEach<1>, kEach<kRows>, kEach<kColumns>);
    }
  }
  storeSums<kColumns>(sums, l, own, lanes, kEach<kRows * kColumns>);
}

template <int kRows, int kColumns, class Lanes>
HWY_INLINE void addVector(const DepthwiseLines &l, int64_t channel, Lanes lanes) {
  // other instruction sets read the first lanes of a vector one by one
  constexpr bool kHasBlocks = std::is_same_v<Lanes, AllLanes> || HWY_TARGET <= HWY_AVX2;
  if constexpr (kHasBlocks)
    if (l.window->stride[2] == 1 && l.window->dilation[2] == 1)
      return addLines<kRows, kColumns, Columns::kNeighbours>(l, channel, lanes);
  addLines<kRows, kColumns, Columns::kApart>(l, channel, lanes);
}

template <int kRows, int kColumns>
void addPart(const DepthwiseLines &l) {
  if constexpr (kRows * kColumns <= kMostSums) {
    const int64_t whole = l.channels / kVector * kVector;
    for (int64_t channel = 0; channel < whole; channel += kVector) addVector<kRows, kColumns>(l, channel, AllLanes());
    if (whole < l.channels) addVector<kRows, kColumns>(l, whole, FirstLanes(l.channels - whole));
  }
}

template <int kRows, int... kColumns>
constexpr auto partsOf(std::integer_sequence<int, kColumns...>) {
  return std::array{&addPart<kRows, kColumns + 1>...};
}
template <int... kRows>
constexpr auto partTable(std::integer_sequence<int, kRows...>) {
  return std::array{partsOf<kRows + 1>(kEach<kMostTapColumns>)...};
}

void depthwiseLines(const DepthwiseLines &l) {
  static constexpr auto kTable = partTable(kEach<kMostTapRows>);
  kTable[static_cast<size_t>(l.taps.rows - 1)][static_cast<size_t>(l.taps.columns - 1)](l);
}
int depthwiseSums() { return kMostSums; }

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(depthwiseLines);
HWY_EXPORT(depthwiseSums);

DepthwiseTapSums::DepthwiseTapSums(const WindowShape &shape) : shape_(shape) {
  const Spatial &taps = shape.taps;
  const int64_t columnParts = ceilDiv(taps[2], kMostTapColumns), columns = ceilDiv(taps[2], columnParts);
  const int64_t most = std::min<int64_t>(kMostTapRows, HWY_DYNAMIC_DISPATCH(depthwiseSums)() / columns);
  const int64_t rowParts = ceilDiv(taps[1], most);
  for (int64_t depth = 0; depth < taps[0]; ++depth)
    for (int64_t i = 0; i < rowParts; ++i)
      for (int64_t j = 0; j < columnParts; ++j) {
        const int64_t row = taps[1] * i / rowParts, column = taps[2] * j / columnParts;
        parts_.push_back({depth, row, column, static_cast<int>(taps[1] * (i + 1) / rowParts - row),
                          static_cast<int>(taps[2] * (j + 1) / columnParts - column)});
      }
}

// Number of lines whose inputs fit in a part of the second level cache; each vector of channels is computed for all of
// them before the next.
int64_t DepthwiseTapSums::linesTogether(int64_t channels) const noexcept {
  constexpr int64_t kShare = 8;
  const auto line = std::max<int64_t>(1, shape_.in[2]) * channels * static_cast<int64_t>(sizeof(float));
  const int64_t lines = secondLevelCacheBytes() / kShare / line;  // of x and dy
  return std::max<int64_t>(1, (lines - shape_.taps[1] + 1) / 2);
}

void DepthwiseTapSums::add(const WindowChunk &chunk, int64_t first, int64_t end, const float *x, const float *dy,
                           float *sums) const noexcept {
  const int64_t width = panelWidth(), vector = width / 2, groups = ceilDiv(chunk.lines, linesTogether(end - first));
  DepthwiseLines l{&shape_, {}, chunk, nullptr, nullptr, 0, nullptr, width};
  l.places.images = 1;
  for (int64_t i = 0; i < chunk.images * groups; ++i) {
    const int64_t group = i % groups;
    l.places.image = chunk.image + i / groups;
    l.places.line = chunk.line + chunk.lines * group / groups;
    l.places.lines = chunk.line + chunk.lines * (group + 1) / groups - l.places.line;
    for (int64_t c = first; c < end; c += vector) {
      l.x = x + c, l.dy = dy + c, l.channels = std::min(vector, end - c);
      l.sums = sums + (c - first) / width * volume(shape_.taps) * width + c % width;
      for (const DepthwiseTaps &taps : parts_) {
        l.taps = taps;
        HWY_DYNAMIC_DISPATCH(depthwiseLines)(l);
      }
    }
  }
}

}  // namespace popart::cpu
#endif
