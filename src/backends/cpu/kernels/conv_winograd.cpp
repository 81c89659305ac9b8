// Loop nest of Winograd's algorithm:
//
//   task = (group, chunk of tiles, range of panels)
//     U of the task, if all U of a group fits into the second level cache
//     for some tiles at a time
//       for channels whose U fits
//         V of the tiles and channels
//         for panels that one kernel computes
//           for all matrices, or for each half of them
//             U of the channels and panels, if the task does not keep it
//             for each matrix: M += V U, with the register tiles of all products
//       y = transformed M, then the epilogue
//
// If all channels fit, M has the panels of one kernel, otherwise those of the task.
#include "backends/cpu/kernels/conv_winograd.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kTilesFinished = 8;  // transformed before the epilogue, in the first level cache
// Tiles whose V and M are in memory at once. More tiles read a transformed weight more often, and their V and M leave
// less of the second level cache to the weights.
constexpr int64_t kTilesAtOnce = 72, kTilesOfKeptWeights = 36;

// Time of the transforms, in units of a multiply-add of a vector: of the inputs of a tile and of the weights per
// channel and vector, and of the sums of a tile per vector.
constexpr double kInputTime = 48, kWeightTime = 60, kOutputTime = 44;

}  // namespace

bool WinogradProduct::fits(const WindowProductShape &s, DataType type) {
  const Spatial ones = {1, 1, 1};
  const bool isWhole = s.results.size() == 1 && s.step == ones && s.first == Spatial{} && s.size == s.window.out;
  return isWhole && type == DataType::FLOAT && WinogradTiles::fits(s.window, s.columns);
}

WinogradProduct::WinogradProduct(WindowProductShape shape, int threads)
    : shape_(std::move(shape)), tiles_(shape_.window), panels_(ceilDiv(shape_.columns, panelWidth())) {
  if (shape_.yStride == 0) shape_.yStride = shape_.groups * shape_.columns;
  panelsTogether_ = RowTiles(std::min(tiles_.count(), kTilesAtOnce), shape_.columns).panelsTogether();
  const int64_t channels = shape_.window.channels,
                ofChannel = kWinogradMatrices * panelWidth() * static_cast<int64_t>(sizeof(float));  // of one panel
  keepsWeights_ = panels_ * channels * ofChannel <= secondLevelCacheBytes();
  const int64_t fitting = std::max<int64_t>(1, secondLevelCacheBytes() / 2 / (panelsTogether_ * ofChannel)),
                rounds = keepsWeights_ ? 1 : ceilDiv(channels, fitting);
  channelsAtOnce_ = std::min(channels, ceilDiv(ceilDiv(channels, rounds), kCacheLineFloats) * kCacheLineFloats);
  chooseChunks(std::max(1, threads));
  tilesAtOnce_ = std::min(ceilDiv(tiles_.count(), chunks_), keepsWeights_ ? kTilesOfKeptWeights : kTilesAtOnce);
  chooseWeightParts();
}

double WinogradProduct::products() const {
  const WindowShape &w = shape_.window;
  return static_cast<double>(w.n * volume(w.out) * shape_.groups) *
         static_cast<double>(volume(w.taps) * w.channels * panels_ * panelWidth());
}

double WinogradProduct::share(int task) const {
  const int64_t split = task % splits_, chunk = task / splits_ % chunks_;
  const PanelRanges ranges = panelRanges();
  return static_cast<double>(tilesOf(chunk).count() * (ranges.begin(split + 1) - ranges.begin(split))) /
         static_cast<double>(tiles_.count() * panels_ * shape_.groups);
}

// Chooses the numbers of chunks and of ranges with the shortest elapsed time: every range of panels transforms all
// inputs, every chunk transforms all weights, and the last tasks of a run leave threads without work.
void WinogradProduct::chooseChunks(int threads) {
  constexpr double kWaiting = 0.1;  // of the time of a thread's only task
  constexpr int64_t kMostTasksPerThread = 16, kVectorsPerPanel = 2;
  const WindowShape &w = shape_.window;
  const int64_t smallest = static_cast<int64_t>(2 * products()) / kSmallestTaskFlops,
                mostTasks = std::clamp<int64_t>(smallest, 1, threads * kMostTasksPerThread);
  const int64_t fewest = keepsWeights_ ? 1 : ceilDiv(std::max<int64_t>(1, tiles_.count()), kTilesAtOnce);
  double best = -1;
  for (int64_t splits = 1; splits <= ceilDiv(panels_, panelsTogether_); ++splits)
    for (int64_t chunks = fewest; chunks <= std::max(fewest, std::min(mostTasks, tiles_.count())); ++chunks) {
      const auto tiles = static_cast<double>(ceilDiv(tiles_.count(), chunks));
      const auto vectors =
          static_cast<double>(kVectorsPerPanel * PanelRanges(panels_, splits, panelsTogether_).longest());
      const double weights =
          keepsWeights_ ? 1 : static_cast<double>(ceilDiv(ceilDiv(tiles_.count(), chunks), kTilesAtOnce));
      const double ofTask =
          static_cast<double>(ceilDiv(w.channels * kVectorsPerPanel, panelWidth())) * tiles * kInputTime +
          static_cast<double>(w.channels) * vectors * (weights * kWeightTime + kWinogradMatrices * tiles) +
          tiles * vectors * kOutputTime;
      const auto turns = static_cast<double>(ceilDiv(shape_.groups * chunks * splits, threads));
      const double elapsed = ofTask * (turns + (threads > 1 ? kWaiting : 0));
      if (best >= 0 && elapsed >= best) continue;
      best = elapsed, chunks_ = chunks, splits_ = splits;
    }
}

// Half of U at a time where V, U and M together exceed the second level cache.
void WinogradProduct::chooseWeightParts() {
  static constexpr std::array kWhole = {WinogradPart::kAll};
  static constexpr std::array kHalves = {WinogradPart::kOuter, WinogradPart::kInner};
  weightParts_ = kWhole;
  if (!keepsWeights_ && static_cast<int64_t>(scratchFloats() * sizeof(float)) > secondLevelCacheBytes())
    weightParts_ = kHalves;
}

// Rows of 16 matrices are written at the same time, and those of several tiles are read at the same time: strides in
// lines are odd, so that they do not compete for the same places of the cache.
int64_t WinogradProduct::inputStride() const {
  return (ceilDiv(channelsAtOnce_, kCacheLineFloats) | 1) * kCacheLineFloats;
}
int64_t WinogradProduct::inputPlane() const {
  return (tilesAtOnce_ * inputStride() / kCacheLineFloats | 1) * kCacheLineFloats;
}
int64_t WinogradProduct::weightPlane() const {
  return (keepsWeights_ ? panelRanges().longest() : panelsTogether_) * channelsAtOnce_ * panelWidth() +
         kCacheLineFloats;
}
int64_t WinogradProduct::sumStride() const {
  return (keepsSums() ? panelRanges().longest() : panelsTogether_) * panelWidth();
}
int64_t WinogradProduct::sumPlane() const { return tilesAtOnce_ * sumStride() + kCacheLineFloats; }

void WinogradProduct::writeInputs(const Range &tiles, const Range &channels, const float *x, const float *zeros,
                                  float *v) const noexcept {
  for (int64_t t = tiles.begin; t < tiles.end; ++t, v += inputStride())
    transformInputs(tiles_.inputs(t, x + channels.begin, zeros), channels.count(), v, inputPlane());
}

void WinogradProduct::writeWeights(WinogradPart part, const Range &panels, const Range &channels, const float *weights,
                                   float *u) const noexcept {
  const int64_t width = panelWidth(), count = channels.count() * width;
  std::array<const float *, 9> taps;
  for (int64_t p = panels.begin; p < panels.end; ++p, u += count) {
    for (size_t t = 0; t < taps.size(); ++t)
      taps[t] = weights + (p * shape_.weightRows + shape_.tapRows[t] + channels.begin) * width;
    transformWeights(part, taps, count, u, weightPlane());
  }
}

// The rows of a tap are contiguous, and so are the taps of a panel and the panels.
AheadRanges WinogradProduct::rangesOf(const Range &panels, const Range &channels, const float *weights) const noexcept {
  const int64_t width = panelWidth();
  return {weights + (panels.begin * shape_.weightRows + channels.begin) * width, channels.count() * width,
          9 * panels.count(), shape_.window.channels * width};
}

void WinogradProduct::multiply(WinogradPart part, const Range &tiles, const Range &panels, const Range &channels,
                               const float *v, const float *u, float *m,
                               const AheadRanges &nextWeights) const noexcept {
  const int64_t width = panelWidth(), columns = std::min(shape_.columns - panels.begin * width, panels.count() * width);
  const RowTiles rows(tiles.count(), columns);
  const BlockOffset block;
  TileArgs tile;
  tile.aStride = inputStride();
  tile.bStride = width;
  tile.bPanelStride = channels.count() * width;
  tile.blocks = &block, tile.blockCount = 1;
  tile.k = channels.count();
  tile.inStride = tile.outStride = sumStride();
  const int64_t before = part == WinogradPart::kInner ? matricesOf(WinogradPart::kOuter) : 0;
  for (int64_t i = 0; i < matricesOf(part); ++i)
    for (int64_t t = 0; t < rows.count(); ++t) {
      const int64_t begin = rows.begin(t), count = rows.begin(t + 1) - begin, matrix = matrixOf(part, i);
      tile.a = v + matrix * inputPlane() + begin * inputStride();
      for (int64_t p = 0; p < panels.count();) {
        const auto choice = microKernels().choose(AMode::kRows, static_cast<int>(count), columns - p * width);
        tile.b = u + i * weightPlane() + p * tile.bPanelStride;
        tile.out = m + matrix * sumPlane() + begin * sumStride() + p * width;
        tile.in = channels.begin == 0 ? nullptr : tile.out;
        tile.next = nullptr;
        if (nextWeights.first && p == 0)
          askAhead(tile, (before + i) * rows.count() + t, kWinogradMatrices * rows.count(),
                   choice.parts * (tile.k / kStepsPerLine), nextWeights);
        choice.run(tile);
        p += choice.panels;
      }
    }
}

void WinogradProduct::finish(const Range &tiles, const Range &panels, int64_t group, const float *m, float *y,
                             const Epilogue &epilogue) const noexcept {
  const WindowShape &w = shape_.window;
  alignas(64) std::array<float, size_t{2 * 2 * kTilesFinished * kMaxTilePanels * kMaxPanelWidth}> finished;
  const int64_t width = panelWidth(), column = group * shape_.columns + panels.begin * width,
                columns = std::min(shape_.columns - panels.begin * width, panels.count() * width),
                padded = ceilDiv(columns, width / 2) * (width / 2);
  for (int64_t tile = tiles.begin, count = 0; tile < tiles.end; tile += count, m += count * sumStride()) {
    const int64_t first = tile % tiles_.columns, line = tile / tiles_.columns % tiles_.lines * 2,
                  image = tile / (tiles_.lines * tiles_.columns);
    count = std::min({kTilesFinished, tiles_.columns - first, tiles.end - tile});
    transformSums(m, sumStride(), sumPlane(), count, padded, finished.data());
    const int64_t pixels = std::min(2 * count, w.out[2] - 2 * first);
    for (int64_t l = 0; l < std::min<int64_t>(2, w.out[1] - line); ++l) {
      const ptrdiff_t at = ((image * w.out[1] + line + l) * w.out[2] + 2 * first) * shape_.yStride + column;
      applyEpilogue(epilogue.at(at, column), finished.data() + l * 2 * count * padded, padded, y + at, shape_.yStride,
                    pixels, columns);
    }
  }
}

void WinogradProduct::run(int task, const float *x, const float *weights, float *y, const Epilogue &epilogue,
                          float *scratch) const noexcept {
  const int64_t split = task % splits_, chunk = task / splits_ % chunks_, group = task / splits_ / chunks_;
  float *const zeros = scratch, *const v = zeros + zeroFloats(), *const u = v + inputFloats(),
               *const m = u + weightFloats();
  const Range all{0, shape_.window.channels}, tiles = tilesOf(chunk);
  const PanelRanges ranges = panelRanges();
  const Range panels{ranges.begin(split), ranges.begin(split + 1)};
  std::fill_n(zeros, all.end, 0.0f);
  const float *ofGroup = weights + group * panels_ * shape_.weightRows * panelWidth();
  const auto panelsFrom = [&](int64_t panel) { return Range{panel, std::min(panels.end, panel + panelsTogether_)}; };
  // Calls f(panels that one kernel computes, their place in U if all U are there).
  const auto forPanels = [&](auto &&f) {
    for (Range p = panelsFrom(panels.begin); p.begin < panels.end; p = panelsFrom(p.end))
      f(p, u + (p.begin - panels.begin) * all.end * panelWidth());
  };
  if (keepsWeights_)
    forPanels([&](const Range &p, float *kept) { writeWeights(WinogradPart::kAll, p, all, ofGroup, kept); });
  const auto channelsFrom = [&](int64_t c) { return Range{c, std::min(all.end, c + channelsAtOnce_)}; };
  const auto sumsOf = [&](const Range &p) { return keepsSums() ? m + (p.begin - panels.begin) * panelWidth() : m; };
  for (Range t{tiles.begin, 0}; t.begin < tiles.end; t.begin = t.end) {
    t.end = std::min(tiles.end, t.begin + tilesAtOnce_);
    for (Range c = channelsFrom(0); c.begin < all.end; c = channelsFrom(c.end)) {
      writeInputs(t, c, x + group * all.end, zeros, v);
      const Range after = channelsFrom(c.end < all.end ? c.end : 0);
      const bool isLast = c.end == all.end && t.end == tiles.end;
      forPanels([&](const Range &p, const float *kept) {
        AheadRanges next;
        if (!keepsWeights_ && (p.end < panels.end || !isLast))
          next = p.end < panels.end ? rangesOf(panelsFrom(p.end), c, ofGroup)
                                    : rangesOf(panelsFrom(panels.begin), after, ofGroup);
        for (const WinogradPart part : weightParts_) {
          if (!keepsWeights_) writeWeights(part, p, c, ofGroup, u);
          multiply(part, t, p, c, v, keepsWeights_ ? kept : u, sumsOf(p), next);
        }
        if (!keepsSums()) finish(t, p, group, m, y, epilogue);
      });
    }
    if (keepsSums()) forPanels([&](const Range &p, const float *) { finish(t, p, group, sumsOf(p), y, epilogue); });
  }
}

}  // namespace popart::cpu
