// Convolutions of planes, compiled once per instruction set by Highway, see conv_planes.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv_planes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/conv_planes.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/pool_rows-inl.hpp"
#include "backends/cpu/task_count.hpp"
// clang-format on
#include <algorithm>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kTileLines = PlanePlan::kTileLines;

// Operations on finished sums in registers, before the store.
struct PlaneScale {
  float alpha, bias;
  bool scales, adds;
};

// Where a tile reads and writes.
struct PlaneTile {
  const float *from;     // row 0 of the window of the first line, at its first column
  const float *weights;  // by tap
  float *to;
  int64_t lines;  // number of lines to store
  PlaneScale scale;
};

class StagedPlane {
 public:
  StagedPlane(const PlanePlan &plan, const float *x, float *scratch)
      : plan_(plan), s_(plan.shape), x_(x), end_(x + s_.n * s_.cin * volume(s_.in)), staged_(scratch) {}

  // Stages the rows of the input that the windows of `lines` output rows of a plane read, from row `line` on.
  void stage(int64_t plane, int64_t depth, int64_t line, int64_t lines) {
    const int64_t first = line * s_.stride[1] - s_.padLow[1];
    const int64_t rows = (lines - 1) * s_.stride[1] + (s_.kernel[1] - 1) * s_.dilation[1] + 1;
    for (int64_t i = 0; i < s_.kernel[0]; ++i) {
      const int64_t z = depth * s_.stride[0] - s_.padLow[0] + i * s_.dilation[0];
      const bool hasRows = z >= 0 && z < s_.in[0];
      const int64_t low = hasRows ? std::clamp<int64_t>(-first, 0, rows) : rows,
                    high = hasRows ? std::clamp<int64_t>(s_.in[1] - first, low, rows) : rows;
      float *to = staged_ + i * plan_.stagedRows * plan_.pitch;
      fillRows(to, 0, low);
      if (low < high) {
        const float *row = x_ + ((plane * s_.in[0] + z) * s_.in[1] + first + low) * s_.in[2];
        copyRows(row, high - low, to + low * plan_.pitch);
      }
      fillRows(to, high, rows);  // the copy of the last row may have written here
    }
  }

 protected:
  static constexpr bool kMasks = HWY_TARGET <= HWY_AVX2;  // masked instructions do not touch memory of the other lanes
  void fillRows(float *to, int64_t begin, int64_t end) const {
    for (int64_t phase = 0; phase < s_.stride[2]; ++phase)
      std::fill_n(to + phase * plan_.phase + begin * plan_.pitch, (end - begin) * plan_.pitch, 0.0f);
  }
  // Copies rows with zeros around them.
  void copyRows(const float *from, int64_t rows, float *to) const {
    const int64_t stride = s_.stride[2];
    if (kMasks && stride == 1) return copyLines(from, rows, to);
    for (int64_t r = 0; r < rows; ++r, from += s_.in[2], to += plan_.pitch)
      pools::stageRow({from, s_.in[2], end_}, -s_.padLow[2], plan_.span, stride, 0.0f, to, plan_.phase);
  }
  // The same by vectors, each at the same position of all rows in turn.
  void copyLines(const float *from, int64_t rows, float *to) const {
    const D d;
    const int64_t width = s_.in[2], pitch = plan_.pitch;
    from -= s_.padLow[2];
    int64_t at = -s_.padLow[2];
    for (int64_t i = 0; i < pitch; i += kLanes, at += kLanes) {
      const int64_t low = std::clamp<int64_t>(-at, 0, kLanes), high = std::clamp<int64_t>(width - at, low, kLanes);
      const auto mask = hn::AndNot(hn::FirstN(d, static_cast<size_t>(low)), hn::FirstN(d, static_cast<size_t>(high)));
      if (low == 0 && high == kLanes)
        for (int64_t r = 0; r < rows; ++r) hn::StoreU(hn::LoadU(d, from + r * width + i), d, to + r * pitch + i);
      else
        for (int64_t r = 0; r < rows; ++r)
          hn::StoreU(hn::MaskedLoad(mask, d, from + r * width + i), d, to + r * pitch + i);
    }
  }

  const PlanePlan &plan_;
  const ConvShape &s_;
  const float *x_, *end_;
  float *staged_;
};

class PlaneSums : public StagedPlane {
 public:
  using StagedPlane::StagedPlane;

  // The sums of one output channel, computed from the staged rows. Rows of results have out[2] floats.
  void run(int64_t lines, const float *weights, const PlaneScale &scale, float *to) const {
    const bool rowsAreNeighbours = s_.dilation[1] == 1 && s_.stride[1] <= 2;
    const int64_t kernel = rowsAreNeighbours ? s_.kernel[1] : 0;
    const bool two = s_.stride[1] == 2;
    switch (kernel) {
      case 3:
        return two ? runTiles<3, 2>(lines, weights, scale, to) : runTiles<3, 1>(lines, weights, scale, to);
      case 5:
        return two ? runTiles<5, 2>(lines, weights, scale, to) : runTiles<5, 1>(lines, weights, scale, to);
      case 7:
        return two ? runTiles<7, 2>(lines, weights, scale, to) : runTiles<7, 1>(lines, weights, scale, to);
      default:
        return runTiles<0, 0>(lines, weights, scale, to);
    }
  }

 private:
  template <int kKernel, int kStride>
  void runTiles(int64_t lines, const float *weights, const PlaneScale &scale, float *to) const {
    const int64_t width = plan_.out[2], step = s_.stride[1] * plan_.pitch;
    for (int64_t line = 0; line < lines;) {
      const PlaneTile tile{staged_ + line * step, weights, to + line * width,
                           std::min<int64_t>(kTileLines, lines - line), scale};
      if (tile.lines > 2)
        runLines<kKernel, kStride, kTileLines>(tile), line += tile.lines;
      else
        runLines<kKernel, kStride, 1>(tile), ++line;
    }
  }
  template <int kKernel, int kStride, int kLines>
  HWY_INLINE void runLines(PlaneTile t) const {
    int64_t left = plan_.out[2];
    for (; left > 2 * kLanes; left -= 2 * kLanes, t.from += 2 * kLanes, t.to += 2 * kLanes)
      one<kKernel, kStride, kLines, 2>(AllLanes(), t);
    if (left > kLanes)
      one<kKernel, kStride, kLines, 2>(FirstLanes(left - kLanes), t);
    else if (left > 0)
      one<kKernel, kStride, kLines, 1>(FirstLanes(left), t);
  }

  // A tile of kLines rows and kVectors vectors, of which only the last may be partial. kKernel: number of kernel rows,
  // if neighbouring kernel rows are neighbouring input rows and the stride is kStride, 1 or 2; 0: any kernel.
  template <int kKernel, int kStride, int kLines, int kVectors, class Last>
  HWY_NOINLINE void one(Last last, PlaneTile t) const {
    V sums[kLines * kVectors];
#pragma GCC unroll 8
    for (V &sum : sums) sum = hn::Zero(D());
    const int64_t columns = s_.kernel[2];
    const float *from = t.from, *weights = t.weights;
    for (int64_t depth = 0; depth < s_.kernel[0]; ++depth) {
      if constexpr (kKernel > 0)
        addRows<kKernel, kStride, kLines, kVectors>(from, weights, sums,
                                                    std::make_integer_sequence<int, kKernel + kStride *(kLines - 1)>());
      else
        addAnyRows<kLines, kVectors>(from, weights, sums);
      from += plan_.stagedRows * plan_.pitch, weights += s_.kernel[1] * columns;
    }
    for (int line = 0; line < kLines; ++line) {
      if (line >= t.lines) return;
      float *to = t.to + line * plan_.out[2];
#pragma GCC unroll 2
      for (int v = 0; v + 1 < kVectors; ++v)
        AllLanes().store(scaled(sums[line * kVectors + v], t.scale), to + v * kLanes);
      last.store(scaled(sums[(line + 1) * kVectors - 1], t.scale), to + (kVectors - 1) * kLanes);
    }
  }
  static HWY_INLINE V scaled(V v, const PlaneScale &s) {
    if (s.scales) v = hn::Mul(hn::Set(D(), s.alpha), v);
    if (s.adds) v = hn::Add(v, hn::Set(D(), s.bias));
    return v;
  }

  // Reads each row of the input once, for all lines whose windows contain it.
  template <int kKernel, int kStride, int kLines, int kVectors, int... kRow>
  HWY_INLINE void addRows(const float *from, const float *weights, V *sums, std::integer_sequence<int, kRow...>) const {
    (addRow<kKernel, kStride, kLines, kVectors, kRow>(from + kRow * plan_.pitch, weights, sums), ...);
  }
  template <int kKernel, int kStride, int kLines, int kVectors, int kRow>
  HWY_INLINE void addRow(const float *from, const float *weights, V *sums) const {
    const int64_t columns = s_.kernel[2];
    const int64_t *places = plan_.columns.data();
    for (int64_t k = 0; k < columns; ++k) {
      const float *at = from + places[k];
      V v[kVectors];
#pragma GCC unroll 2
      for (int i = 0; i < kVectors; ++i) v[i] = hn::LoadU(D(), at + i * kLanes);
#pragma GCC unroll 4
      for (int line = 0; line < kLines; ++line) {
        const int of = kRow - line * kStride;  // row of the kernel
        if (of < 0 || of >= kKernel) continue;
        const V weight = hn::Set(D(), weights[of * columns + k]);
#pragma GCC unroll 2
        for (int i = 0; i < kVectors; ++i)
          sums[line * kVectors + i] = hn::MulAdd(v[i], weight, sums[line * kVectors + i]);
      }
    }
  }
  template <int kLines, int kVectors>
  HWY_INLINE void addAnyRows(const float *from, const float *weights, V *sums) const {
    const int64_t columns = s_.kernel[2], step = s_.stride[1] * plan_.pitch;
    for (int64_t row = 0; row < s_.kernel[1]; ++row, from += s_.dilation[1] * plan_.pitch)
      for (int64_t k = 0; k < columns; ++k) {
        const V weight = hn::Set(D(), *weights++);
        const float *at = from + plan_.columns[static_cast<size_t>(k)];
#pragma GCC unroll 4
        for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 2
          for (int i = 0; i < kVectors; ++i)
            sums[line * kVectors + i] =
                hn::MulAdd(hn::LoadU(D(), at + line * step + i * kLanes), weight, sums[line * kVectors + i]);
      }
  }
};

void planeConvs(const PlaneConv::Plan &plan, const float *x, const float *packed, float *y, const Epilogue &epilogue,
                float *scratch, int64_t begin, int64_t end) {
  const PlanePlan &p = plan.planes;
  const ConvShape &s = p.shape;
  Epilogue rest = epilogue;
  rest.alpha = 1.0f, rest.bias = nullptr;
  const auto *bias = static_cast<const float *>(epilogue.bias);
  const int64_t taps = s.taps(), pixels = volume(p.out);
  float *weights = scratch + p.stagedFloats, *sums = weights + taps;
  PlaneSums planes(p, x, scratch);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t piece = unit % p.pieces, depth = unit / p.pieces % p.out[0], plane = unit / p.unitsOfPlane();
    const int64_t line = piece * p.lines, lines = std::min(p.lines, p.out[1] - line);
    planes.stage(plane, depth, line, lines);
    for (int64_t i = 0; i < p.perGroup; ++i) {
      const int64_t channel = plane % s.cin * p.perGroup + i;
      const float *from = packed + plan.weightsOf(channel);
      for (int64_t t = 0; t < taps; ++t) weights[plan.reversed ? taps - 1 - t : t] = from[t * plan.panel];
      const ptrdiff_t at = (plane * p.perGroup + i) * pixels + (depth * p.out[1] + line) * p.out[2];
      const PlaneScale scale{epilogue.alpha, bias ? bias[channel] : 0.0f, epilogue.alpha != 1.0f, bias != nullptr};
      planes.run(lines, weights, scale, rest.isStore() ? y + at : sums);
      if (!rest.isStore()) applyEpilogue(rest.at(at, 0), sums, 0, y + at, 0, 1, lines * p.out[2]);
    }
  }
}

// ---- weight gradient

class PlaneProducts : public StagedPlane {
 public:
  using StagedPlane::StagedPlane;

  // Adds the products of the staged rows with rows of dy to the lanes of every tap's sum.
  void add(const std::vector<int64_t> &taps, int64_t lines, const float *dy, float *sums) const {
    const auto count = static_cast<int64_t>(taps.size());
    int64_t t = 0;
    for (; t + 9 <= count; t += 9) addTaps<9>(taps.data() + t, lines, dy, sums + t * kLanes);
    for (; t + 3 <= count; t += 3) addTaps<3>(taps.data() + t, lines, dy, sums + t * kLanes);
    for (; t < count; ++t) addTaps<1>(taps.data() + t, lines, dy, sums + t * kLanes);
  }

 private:
  template <int kTaps>
  void addTaps(const int64_t *taps, int64_t lines, const float *dy, float *sums) const {
    const int64_t width = plan_.out[2], step = s_.stride[1] * plan_.pitch, full = width - width % kLanes;
    const FirstLanes tail(width - full);
    V sum[kTaps];
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) sum[t] = hn::LoadU(D(), sums + t * kLanes);
    for (int64_t line = 0; line < lines; ++line, dy += width) {
      const float *from[kTaps];
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) from[t] = staged_ + line * step + taps[t];
      for (int64_t o = 0; o < full; o += kLanes) multiply<kTaps>(AllLanes(), from, o, dy, sum);
      if (full < width) multiply<kTaps>(tail, from, full, dy, sum);
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) hn::StoreU(sum[t], D(), sums + t * kLanes);
  }
  template <int kTaps, class Lanes>
  static HWY_INLINE void multiply(const Lanes &lanes, const float *const *from, int64_t o, const float *dy, V *sum) {
    const V g = lanes.load(dy + o);
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) sum[t] = hn::MulAdd(lanes.load(from[t] + o), g, sum[t]);
  }
};

// Sums units [begin, end) of a channel, which are (image, depth, piece), by tap.
void planeProducts(const PlanePlan &plan, const std::vector<int64_t> &taps, const float *x, const float *dy,
                   int64_t channel, int64_t begin, int64_t end, float *scratch, float *result) {
  const D d;
  PlaneProducts planes(plan, x, scratch);
  float *sums = scratch + plan.stagedFloats;
  std::fill_n(sums, static_cast<int64_t>(taps.size()) * kLanes, 0.0f);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t piece = unit % plan.pieces, depth = unit / plan.pieces % plan.out[0],
                  plane = unit / plan.unitsOfPlane() * plan.shape.cin + channel;
    const int64_t line = piece * plan.lines, lines = std::min(plan.lines, plan.out[1] - line);
    planes.stage(plane, depth, line, lines);
    planes.add(taps, lines, dy + ((plane * plan.out[0] + depth) * plan.out[1] + line) * plan.out[2], sums);
  }
  for (size_t t = 0; t < taps.size(); ++t)
    result[t] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums + static_cast<int64_t>(t) * kLanes)));
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(planeConvs);
HWY_EXPORT(planeProducts);

namespace {

constexpr int64_t kPlaneRoom = 64;  // floats after an array that may be read and written: the widest vector

ConvShape gradientShape(const ConvShape &forward) {
  ConvShape s = forward;
  s.in = forward.out();
  for (size_t d = 0; d < 3; ++d) {
    s.padLow[d] = forward.dilation[d] * (forward.kernel[d] - 1) - forward.padLow[d];
    s.padHigh[d] = forward.in[d] - s.in[d] + forward.dilation[d] * (forward.kernel[d] - 1) - s.padLow[d];
  }
  return s;
}

}  // namespace

PlanePlan::PlanePlan(const ConvShape &s) : shape(s), out(s.out()), perGroup(s.cout / std::max<int64_t>(1, s.cin)) {
  constexpr int64_t kFloats = int64_t{1} << 13;  // staged rows: 32 KiB, in the first or second level cache
  const int64_t stride = s.stride[2], spannedColumns = s.dilation[2] * (s.kernel[2] - 1) + 1;
  span = std::max<int64_t>(0, (out[2] - 1) * stride) + spannedColumns;
  // Rows begin at cache lines, so that some loads cross none.
  pitch = ceilDiv(ceilDiv(span, stride), kCacheLineFloats) * kCacheLineFloats;
  // The number of lines whose input rows stay in the cache, in equal pieces of whole tiles.
  const int64_t spannedRows = s.dilation[1] * (s.kernel[1] - 1) + 1, rows = kFloats / (pitch * stride * s.kernel[0]);
  const int64_t most = std::max(kTileLines, rows < spannedRows ? 0 : (rows - spannedRows) / s.stride[1] + 1);
  const int64_t all = std::max<int64_t>(1, out[1]);
  lines = std::min(all, ceilDiv(ceilDiv(all, ceilDiv(all, most)), kTileLines) * kTileLines);
  pieces = ceilDiv(out[1], lines);
  stagedRows = (lines + kTileLines - 2) * s.stride[1] + spannedRows;  // a tile may read after the last line
  phase = stagedRows * s.kernel[0] * pitch + kPlaneRoom;
  for (int64_t k = 0; k < s.kernel[2]; ++k) {
    const int64_t at = k * s.dilation[2];
    columns.push_back(at % stride * phase + at / stride);
  }
  stagedFloats = stride * phase;
}

// In double, because strides and dilations of a model may be any numbers.
bool PlanePlan::fits(const ConvShape &s) {
  constexpr double kMostFloats = 1 << 20;
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const auto spanned = [&](size_t d) { return number(s.dilation[d]) * number(s.kernel[d] - 1) + 1; };
  const double row = number(s.stride[2]) * number(s.out()[2] + kCacheLineFloats) + spanned(2);
  const double rows = 2.0 * kTileLines * number(s.stride[1]) + spanned(1);
  return number(s.kernel[0]) * rows * row + number(s.stride[2]) * kPlaneRoom <= kMostFloats;
}

PlaneConv::PlaneConv(const ConvShape &s, const ConvShape &forward, bool reversed)
    : plan_{PlanePlan(s), panelWidth(), forward.joinsGroups() ? 1 : forward.groups, reversed} {
  const int64_t work = s.n * s.cout * volume(plan_.planes.out) * (s.taps() + 4);
  tasks_ = static_cast<int>(taskCount(work, int64_t{1} << 16, plan_.planes.units()));
}

bool PlaneConv::hasDataGradient(const ConvShape &shape) {
  return shape.isDepthwise() && volume(shape.stride) == 1 && PlanePlan::fits(gradientShape(shape));
}

PlaneConv PlaneConv::dataGradient(const ConvShape &forward) { return {gradientShape(forward), forward, true}; }

int64_t PlaneConv::Plan::weightsOf(int64_t channel) const {
  const ConvShape &s = planes.shape;
  const int64_t columns = s.cout / groups, column = channel % columns;
  const int64_t at = channel / columns * ceilDiv(columns, panel) + column / panel;
  return at * s.taps() * panel + column % panel;
}

double PlaneConv::share(int task) const {
  const int64_t units = plan_.planes.units();
  return static_cast<double>(units * (task + 1) / tasks_ - units * task / tasks_) /
         static_cast<double>(std::max<int64_t>(1, units));
}

size_t PlaneConv::scratchFloats() const {
  const PlanePlan &p = plan_.planes;
  return static_cast<size_t>(p.stagedFloats + p.shape.taps() + p.lines * p.out[2]);
}

void PlaneConv::run(int task, const void *x, const void *packedWeights, void *y, const Epilogue &epilogue,
                    float *scratch) const noexcept {
  const int64_t units = plan_.planes.units();
  HWY_DYNAMIC_DISPATCH(planeConvs)
  (plan_, static_cast<const float *>(x), static_cast<const float *>(packedWeights), static_cast<float *>(y), epilogue,
   scratch, units * task / tasks_, units * (task + 1) / tasks_);
}

PlaneWeightGradient::PlaneWeightGradient(const ConvShape &s) : planes_(s) {
  constexpr int64_t kProductsPerTask = int64_t{1} << 16;
  for (int64_t depth = 0; depth < s.kernel[0]; ++depth)
    for (int64_t row = 0; row < s.kernel[1]; ++row)
      for (const int64_t column : planes_.columns)
        taps_.push_back((depth * planes_.stagedRows + row * s.dilation[1]) * planes_.pitch + column);
  const int64_t products = s.n * volume(planes_.out) * s.taps();  // per channel
  leaves_ = leafCount(products, kProductsPerTask,
                      std::min(s.n * planes_.unitsOfPlane(), ceilDiv(kMostTasks, std::max<int64_t>(1, s.cin))));
  ranges_ = taskCount(products * s.cin / leaves_, kProductsPerTask, std::min(s.cin, ceilDiv(kMostTasks, leaves_)));
  rounds_.add(leaves_ * ranges_, static_cast<double>(products));
  rounds_.add(ceilDiv(s.cin, panelWidth()), static_cast<double>(leaves_ * s.taps()));
}

size_t PlaneWeightGradient::scratchFloats() const {
  return static_cast<size_t>(planes_.stagedFloats + planes_.shape.taps() * std::max<int64_t>(kPlaneRoom, panelWidth()));
}

void PlaneWeightGradient::run(int task, const void *x, const void *dy, float *packedWeights, const Update &update,
                              float *scratch, float *shared) const noexcept {
  const Rounds::Place place = rounds_.place(task);
  if (place.round == 1) return addUp(place.task, packedWeights, update, scratch, shared);
  const int64_t leaf = place.task % leaves_, range = place.task / leaves_, channels = planes_.shape.cin;
  const int64_t units = planes_.shape.n * planes_.unitsOfPlane(), taps = planes_.shape.taps();
  for (int64_t c = channels * range / ranges_; c < channels * (range + 1) / ranges_; ++c)
    HWY_DYNAMIC_DISPATCH(planeProducts)
  (planes_, taps_, static_cast<const float *>(x), static_cast<const float *>(dy), c, units * leaf / leaves_,
   units * (leaf + 1) / leaves_, scratch, shared + (leaf * channels + c) * taps);
}

void PlaneWeightGradient::addUp(int64_t panel, float *packedWeights, const Update &update, float *total,
                                const float *leaves) const noexcept {
  const int64_t width = panelWidth(), taps = planes_.shape.taps(), channels = planes_.shape.cin;
  const int64_t first = panel * width, count = std::min(width, channels - first);
  for (int64_t c = 0; c < count; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      float sum = leaves[(first + c) * taps + t];
      for (int64_t leaf = 1; leaf < leaves_; ++leaf) sum += leaves[(leaf * channels + first + c) * taps + t];
      total[t * width + c] = sum;
    }
  applyPanelUpdate(update, total, width, packedWeights + first * taps, width, taps, count);
}

}  // namespace popart::cpu
#endif
