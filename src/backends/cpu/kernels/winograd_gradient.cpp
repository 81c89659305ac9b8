// Loop nest of the weight gradient:
//
//   round 1: task = (group, leaf, block of channels, range of panels)
//     for some of the leaf's tiles at a time
//       V of the block, Z of the panels
//       for each of the 16 matrices: N += transposed V Z, with the register tiles of all products
//     transformed N: a leaf's weight gradient, or the update of the weights if there is one leaf
//   round 2, where there are several leaves: their sum, in ranges of rows of the packed weights, and the update
#include "backends/cpu/kernels/winograd_gradient.hpp"

#include <algorithm>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kTaps = 9;
constexpr int64_t kTilesAtOnce = 64;   // V and Z of so many tiles, and N, share the second level cache
constexpr int64_t kMostChannels = 64;  // of a block: its N and Z are transformed, and V read, for all panels
constexpr int64_t kRowsAtOnce = 16;    // of packed weights, which are added up in the first level cache
// Leaves make work for many threads if there are few weights. With this many tiles in a leaf, its partial sums cost
// little to store and to add.
constexpr int64_t kTilesPerLeaf = 128, kEnoughPieces = 64, kColumnsOfPiece = 32;

// Time of the transforms per vector, in units of a multiply-add: of a tile's inputs and gradients, and of sums.
constexpr double kInputTime = 48, kGradientTime = 36, kSumTime = 100;

}  // namespace

bool WinogradGradient::fits(const WindowGradientShape &s) {
  return s.type == DataType::FLOAT && WinogradTiles::fits(s.window, s.columns);
}

WinogradGradient::WinogradGradient(const WindowGradientShape &shape, int threads)
    : shape_(shape), tiles_(shape.window), panels_(ceilDiv(shape.columns, panelWidth())) {
  panelsTogether_ = std::min<int64_t>(2, RowTiles(kMostChannels, shape_.columns).panelsTogether());
  chooseLeaves();
  chooseTasks(std::max(1, threads));
  const double products = static_cast<double>(kWinogradMatrices * tiles_.count()) * static_cast<double>(weightFloats());
  constexpr double kProductsPerFloat = 25;  // multiply-adds in the time to move a float
  rounds_.add(shape_.groups * leaves_ * blocks_ * splits_, products / static_cast<double>(kTaps) / kProductsPerFloat);
  if (leaves_ == 1) return;
  const int64_t floats = leaves_ * weightFloats();
  rounds_.add(taskCount(floats, int64_t{1} << 13, weightFloats() / panelWidth() / kRowsAtOnce),
              static_cast<double>(floats));
}

// Depends on the shape alone: on the smallest parts of the weights that a task may have, whatever the width of panels.
void WinogradGradient::chooseLeaves() {
  const int64_t pieces =
      shape_.groups * ceilDiv(shape_.window.channels, kCacheLineFloats) * ceilDiv(shape_.columns, kColumnsOfPiece);
  leaves_ = std::clamp<int64_t>(kEnoughPieces / pieces, 1, std::max<int64_t>(1, tiles_.count() / kTilesPerLeaf));
}

// Every block of channels transforms dy, every range of panels transforms x.
void WinogradGradient::chooseTasks(int threads) {
  constexpr double kWaiting = 0.1;  // of the time of a thread's only task
  constexpr int64_t kVectorsPerPanel = 2;
  const int64_t channels = shape_.window.channels, lines = ceilDiv(channels, kCacheLineFloats),
                tiles = ceilDiv(tiles_.count(), leaves_);
  const int64_t sumBytes = kWinogradMatrices * kMostChannels * panelWidth() * static_cast<int64_t>(sizeof(float)),
                mostPanels = std::max(panelsTogether_, secondLevelCacheBytes() / 4 / sumBytes);
  const double flops = 2.0 * static_cast<double>(tiles_.count() * kWinogradMatrices) *
                       static_cast<double>(channels * panels_ * panelWidth());
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(flops) / kSmallestTaskFlops);
  double best = -1;
  for (int64_t blocks = ceilDiv(channels, kMostChannels); blocks <= lines; ++blocks)
    for (int64_t splits = ceilDiv(panels_, mostPanels); splits <= panels_; ++splits) {
      if (best >= 0 && leaves_ * blocks * splits > most) continue;
      const auto vectors =
          static_cast<double>(kVectorsPerPanel * PanelRanges(panels_, splits, panelsTogether_).longest());
      const auto rows = static_cast<double>(ceilDiv(lines, blocks) * kCacheLineFloats),
                 count = static_cast<double>(tiles);
      const double ofTask = count * (rows * kVectorsPerPanel / panelWidth() * kInputTime + vectors * kGradientTime) +
                            rows * vectors * (kWinogradMatrices * count + kSumTime);
      const auto turns = static_cast<double>(ceilDiv(shape_.groups * leaves_ * blocks * splits, threads));
      const double elapsed = ofTask * (turns + (threads > 1 ? kWaiting : 0));
      if (best >= 0 && elapsed >= best) continue;
      best = elapsed, blocks_ = blocks, splits_ = splits;
    }
}

WinogradGradient::Range WinogradGradient::channelsOf(int64_t block) const {
  const int64_t channels = shape_.window.channels, lines = ceilDiv(channels, kCacheLineFloats);
  return {lines * block / blocks_ * kCacheLineFloats,
          std::min(channels, lines * (block + 1) / blocks_ * kCacheLineFloats)};
}

int64_t WinogradGradient::mostChannels() const {
  return ceilDiv(ceilDiv(shape_.window.channels, kCacheLineFloats), blocks_) * kCacheLineFloats;
}
// The 16 matrices are written at the same time: planes have an odd number of lines, so that they do not compete for the
// same places of the cache.
int64_t WinogradGradient::inputPlane() const { return kTilesAtOnce * mostChannels() + kCacheLineFloats; }
int64_t WinogradGradient::gradientPlane() const {
  return kTilesAtOnce * mostPanels() * panelWidth() + kCacheLineFloats;
}
int64_t WinogradGradient::sumPlane() const { return mostChannels() * mostPanels() * panelWidth() + kCacheLineFloats; }
size_t WinogradGradient::zeroFloats() const {
  const int64_t most = std::max(mostChannels(), mostPanels() * panelWidth());
  return static_cast<size_t>(ceilDiv(most, kCacheLineFloats) * kCacheLineFloats);
}
size_t WinogradGradient::tapFloats() const { return static_cast<size_t>(kTaps * mostChannels() * panelWidth()); }
int64_t WinogradGradient::weightFloats() const {
  return shape_.groups * panels_ * kTaps * shape_.window.channels * panelWidth();
}
ptrdiff_t WinogradGradient::weightsAt(const Part &part, int64_t panel, int64_t tap) const {
  const int64_t channels = shape_.window.channels;
  return (((part.group * panels_ + panel) * kTaps + tap) * channels + part.channels.begin) * panelWidth();
}

void WinogradGradient::multiply(const Part &part, int64_t tiles, bool isFirst, const float *v, const float *z,
                                float *n) const noexcept {
  const int64_t width = panelWidth();
  TileArgs tile;
  const BlockOffset block;
  tile.aStride = mostChannels();
  tile.bStride = width;
  tile.bPanelStride = kTilesAtOnce * width;
  tile.blocks = &block, tile.blockCount = 1;
  tile.k = tiles;
  tile.inStride = tile.outStride = mostPanels() * width;
  for (int64_t i = 0; i < kWinogradMatrices; ++i)
    for (int64_t p = 0; p < part.panels.count(); p += panelsTogether_) {
      const int64_t panels = std::min(panelsTogether_, part.panels.count() - p),
                    columns = std::min(panels * width, shape_.columns - (part.panels.begin + p) * width);
      const RowTiles rows(part.channels.count(), columns);
      for (int64_t r = 0; r < rows.count(); ++r) {
        const int64_t begin = rows.begin(r), count = rows.begin(r + 1) - begin;
        tile.a = v + i * inputPlane() + begin;
        for (int64_t done = 0; done < panels;) {
          const auto choice = microKernels().choose(AMode::kPanel, static_cast<int>(count), columns - done * width);
          tile.b = z + i * gradientPlane() + (p + done) * tile.bPanelStride;
          tile.out = n + i * sumPlane() + begin * tile.outStride + (p + done) * width;
          tile.in = isFirst ? nullptr : tile.out;
          choice.run(tile);
          done += choice.panels;
        }
      }
    }
}

void WinogradGradient::addLeaf(int64_t task, const float *x, const float *dy, float *packedWeights,
                               const Update &update, float *scratch, float *leaves) const noexcept {
  const int64_t split = task % splits_, block = task / splits_ % blocks_, leaf = task / splits_ / blocks_ % leaves_;
  const PanelRanges ranges = panelRanges();
  const Part part{
      task / splits_ / blocks_ / leaves_, channelsOf(block), {ranges.begin(split), ranges.begin(split + 1)}};
  const Range tiles{tiles_.count() * leaf / leaves_, tiles_.count() * (leaf + 1) / leaves_};
  float *const zeros = scratch, *const v = zeros + zeroFloats(), *const z = v + inputFloats(),
               *const n = z + gradientFloats(), *const taps = n + sumFloats();
  std::fill_n(zeros, zeroFloats(), 0.0f);
  if (tiles.count() == 0) std::fill_n(n, sumFloats(), 0.0f);
  const int64_t width = panelWidth(), channelsOfY = shape_.groups * shape_.columns, column = part.panels.begin * width,
                columns = std::min(part.panels.count() * width, shape_.columns - column);
  x += part.group * shape_.window.channels + part.channels.begin;
  dy += part.group * shape_.columns + column;
  for (Range t{tiles.begin, 0}; t.begin < tiles.end; t.begin = t.end) {
    t.end = std::min(tiles.end, t.begin + kTilesAtOnce);
    for (int64_t i = 0; i < t.count(); ++i) {
      transformInputs(tiles_.inputs(t.begin + i, x, zeros), part.channels.count(), v + i * mostChannels(),
                      inputPlane());
      transformGradients(tiles_.outputs(t.begin + i, dy, channelsOfY, zeros), columns, z + i * width, gradientPlane(),
                         kTilesAtOnce * width);
    }
    multiply(part, t.count(), t.begin == tiles.begin, v, z, n);
  }
  if (leaves_ == 1) return writeSums(part, n, packedWeights, update, taps);
  for (int64_t p = part.panels.begin; p < part.panels.end; ++p)
    transformWeightSums(n + (p - part.panels.begin) * width, mostPanels() * width, sumPlane(), part.channels.count(),
                        leaves + leaf * weightFloats() + weightsAt(part, p, 0), shape_.window.channels * width);
}

void WinogradGradient::writeSums(const Part &part, const float *n, float *packedWeights, const Update &update,
                                 float *taps) const noexcept {
  const int64_t width = panelWidth(), rows = part.channels.count(), tap = rows * width;
  for (int64_t p = part.panels.begin; p < part.panels.end; ++p) {
    transformWeightSums(n + (p - part.panels.begin) * width, mostPanels() * width, sumPlane(), rows, taps, tap);
    for (int64_t t = 0; t < kTaps; ++t) {
      if (t + 1 < kTaps) prefetchUpdate(update, packedWeights + weightsAt(part, p, t + 1), tap);
      applyPanelUpdate(update, taps + t * tap, width, packedWeights + weightsAt(part, p, t), width, rows,
                       std::min(width, shape_.columns - p * width));
    }
  }
}

void WinogradGradient::addUp(int64_t task, const float *leaves, float *packedWeights,
                             const Update &update) const noexcept {
  const int64_t width = panelWidth(), ofPanel = kTaps * shape_.window.channels, rows = weightFloats() / width,
                tasks = rounds_.size(1);
  alignas(64) float sums[kRowsAtOnce * kMaxPanelWidth];
  for (int64_t row = rows * task / tasks, count = 0; row < rows * (task + 1) / tasks; row += count) {
    const int64_t panel = row / ofPanel;
    count = std::min({kRowsAtOnce, rows * (task + 1) / tasks - row, (panel + 1) * ofPanel - row});
    const float *part = leaves + row * width;
    std::copy_n(part, count * width, sums);
    for (int64_t leaf = 1; leaf < leaves_; ++leaf) {
      part += weightFloats();
      for (int64_t i = 0; i < count * width; ++i) sums[i] += part[i];
    }
    applyPanelUpdate(update, sums, width, packedWeights + row * width, width, count,
                     std::min(width, shape_.columns - panel % panels_ * width));
  }
}

void WinogradGradient::run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
                           float *scratch, float *shared) const noexcept {
  const Rounds::Place place = rounds_.place(task);
  if (place.round == 0) return addLeaf(place.task, x, dy, packedWeights, update, scratch, shared);
  addUp(place.task, shared, packedWeights, update);
}

}  // namespace popart::cpu
