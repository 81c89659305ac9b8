// How a matrix product is split into tasks: passes over k, ranges of row tiles and of panels, and their order.
#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pairs.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kShortDepth = 48;
constexpr int64_t kTilesPerTask = 16;   // row tiles of one panel that share one read of a pass's panels
constexpr int64_t kTasksPerThread = 4;  // so that dynamic claiming balances the load
// If B must be packed, each task with the same columns packs it again, so tasks are fewer and longer.
constexpr int64_t kTilesPerPackingTask = 48;
constexpr int64_t kPackingTasksPerThread = 2;
// Panels of a pass use this fraction of their usual size if the panels of the next pass are loaded into the same cache
// meanwhile.
constexpr int64_t kAheadShare = 3;
constexpr int64_t kMostDotBatch = 16;  // up to this batch, a transposing pack of B costs more than the product
// Model of a task's overhead, in products of one tile and one panel; of its start, in multiply-adds.
constexpr double kPackedPanelCost = 0.5;
constexpr double kReadPanelCost = 0.15;  // its first product, for which the panel comes from a farther cache
constexpr double kCopiedTileCost = 0.25;
constexpr double kGatheredTileCost = 1;    // a row of A is gathered from columns
constexpr double kComputedTileCost = 0.5;  // a row of A is computed
constexpr double kStartCost = 10'000;
// As a fraction of the elapsed time: smaller gains are within the model's error.
constexpr double kWorthBalancing = 0.93;

}  // namespace

// Ranges of tiles and panels, and the order of the tasks of a batch. Threads begin with equal numbers of neighbouring
// tasks, and take tasks of other threads when they have none left. Tasks of one range of panels are neighbours and
// share its panels. If tasks pack their own panels and ranges differ in length, tasks of one range of rows are
// neighbours instead: then the threads' first tasks have equal work as well.
struct Matmul::TaskOrder {
  int64_t rowTasks;
  PanelRanges panels;
  bool panelsInside;

  // The range of tiles and the range of panels of a task.
  std::pair<int64_t, int64_t> rangesOf(int64_t task) const {
    const int64_t colTasks = panels.count();
    return panelsInside ? std::pair(task / colTasks, task % colTasks) : std::pair(task % rowTasks, task / rowTasks);
  }
  // Panels of all tasks before this one, including tasks of earlier batches.
  int64_t panelsBefore(int64_t task) const {
    const int64_t perBatch = rowTasks * panels.count(), all = panels.begin(panels.count());
    const auto [row, col] = rangesOf(task % perBatch);
    const int64_t before = panels.begin(col), length = panels.begin(col + 1) - before;
    return task / perBatch * rowTasks * all + (panelsInside ? row * all + before : before * rowTasks + row * length);
  }
};

Matmul::Matmul(const MatmulShape &given, int threads)
    : shape_(given), kernels_(hasPairs() ? bfloat16Kernels() : &microKernels()), depth_(given.k) {
  const MicroKernels &kernels = *kernels_;
  if (hasPairs()) shape_.k = pairsOf(depth_);
  const MatmulShape &shape = shape_;
  panels_ = ceilDiv(shape.n, kernels.panelWidth);
  // A task of dot products covers all rows, because tasks that share columns would write the same elements. In short
  // products, the start of each register tile matters.
  takesOnePanel_ = shape.k < kShortDepth && shape.m > kFewRows;
  rowTiles_ = isDot() ? RowTiles::ofOne(shape.m) : RowTiles(shape.m, takesOnePanel_ ? 1 : shape.n);
  planBlocks(std::max(1, threads));
  tasks_ = static_cast<int>(batches() * rowTasks_ * colTasks_);
  const int64_t width = kernels.panelWidth;
  const int64_t rowsPerTile = kernels.tileRows;
  if (isDot()) {
    scratchFloats_ = static_cast<size_t>(shape.m * (shape.k + shape.n));
    return;
  }
  const bool severalPasses = shape.k > kBlock_;
  const int64_t tilesKept = severalPasses ? tilesPerTask_ : shape.updatesRows ? 1 : 0;
  partialFloats_ = static_cast<size_t>(tilesKept * rowsPerTile * panelsPerTask_ * width);
  packedBFloats_ = static_cast<size_t>(packsB() ? kBlock_ * panelsPerTask_ * width : 0);
  scratchFloats_ = partialFloats_ + packedBFloats_ + static_cast<size_t>(kRowCopyStride * (rowsPerTile + 1));
}

void Matmul::planBlocks(int threads) {
  const MicroKernels &kernels = microKernels();
  kBlock_ = std::max<int64_t>(1, ceilDiv(shape_.k, std::max<int64_t>(1, ceilDiv(shape_.k, kLongestPass))));
  kBlock_ = ceilDiv(kBlock_, shape_.passUnit) * shape_.passUnit;
  const int64_t panelBytes = kBlock_ * kernels.panelWidth * static_cast<int64_t>(sizeof(float));
  if (isDot()) kBlock_ = std::max<int64_t>(1, shape_.k);
  // B panels of a pass stay in the second level cache, together with the prefetched panels of the next pass.
  const int64_t bytesOfB = shape_.k * panels_ * kernels.panelWidth * static_cast<int64_t>(sizeof(float));
  const bool looksAhead = !packsB() && rowTiles() > 1 && rowTiles() <= rowTiles_.sameRows(kTilesPerTask) &&
                          bytesOfB > std::max(1, threads) * secondLevelCacheBytes();
  const int64_t mostPanels = PanelRanges::rounded(
      std::min(panels_, panelBytesAtOnce() / (looksAhead ? kAheadShare : 1) / panelBytes), panelsTogether());
  const int64_t mostTiles = std::clamp<int64_t>(rowTiles_.sameRows(packsB() ? kTilesPerPackingTask : kTilesPerTask), 1,
                                                std::max<int64_t>(1, rowTiles()));
  panelsPerTask_ = mostPanels;
  tilesPerTask_ = mostTiles;
  halveBlocks(threads);
  if (threads > 1) balanceBlocks(threads, mostTiles, mostPanels);
  rowTasks_ = ceilDiv(rowTiles(), tilesPerTask_);
  colTasks_ = ceilDiv(panels_, panelsPerTask_);
  if (colTasks_ > 0) panelsPerTask_ = orderOf(rowTasks_, colTasks_).panels.longest();
  readsBOnce_ = !packsB() && rowTasks_ == 1 && rowTiles() > 1;
  outgrowsCache_ = outgrowsCache(batches() * shape_.m * shape_.n, DataType::FLOAT);
}

// Halves the longer side of a task until there are enough tasks for the threads, or tasks are small.
void Matmul::halveBlocks(int threads) {
  const MicroKernels &kernels = microKernels();
  const int64_t wanted =
      threads == 1 ? 1 : threads * (packsB() || shape_.computesRows ? kPackingTasksPerThread : kTasksPerThread);
  const auto taskFlops = [&] {
    return 2 * shape_.k * tilesPerTask_ * kernels.tileRows * panelsPerTask_ * kernels.panelWidth;
  };
  const auto enough = [&] {
    const int64_t count = batches() * ceilDiv(rowTiles(), tilesPerTask_) * ceilDiv(panels_, panelsPerTask_);
    return count >= wanted || taskFlops() < kSmallestTaskFlops;
  };
  while (!enough() && (tilesPerTask_ > 1 || panelsPerTask_ > 1)) {
    const bool halvesTiles = shape_.computesRows ? tilesPerTask_ > 1 : tilesPerTask_ >= panelsPerTask_;
    int64_t &larger = halvesTiles ? tilesPerTask_ : panelsPerTask_;
    const int64_t together = &larger == &panelsPerTask_ ? panelsTogether() : 1;
    larger = together > 1 && larger > together ? PanelRanges::rounded(larger / 2, together) : ceilDiv(larger, 2);
  }
}

// Time in which a task copies a tile of A, in products of a tile and a panel.
double Matmul::tileCost() const {
  if (shape_.computesRows) return kComputedTileCost;
  return shape_.gathersRows && copiesOperands() ? kGatheredTileCost : kCopiedTileCost;
}

// Elapsed time, in products of a tile and a panel, if the products are split into these numbers of ranges of tiles and
// panels.
double Matmul::elapsed(int64_t rowTasks, int64_t colTasks, int threads) const {
  const MicroKernels &kernels = microKernels();
  const TaskOrder order = orderOf(rowTasks, colTasks);
  const auto tiles = static_cast<double>(ceilDiv(rowTiles(), rowTasks)),
             product = static_cast<double>(shape_.k * kernels.tileRows * kernels.panelWidth);
  const double panel = (order.panels.keepsTogether() ? 1 : kOnePanelCost) * tiles + kReadPanelCost +
                       (packsB() ? kPackedPanelCost : 0),
               task = tileCost() * tiles + kStartCost / std::max(1.0, product);
  const int64_t count = batches() * rowTasks * colTasks;
  if (!order.panelsInside)
    return static_cast<double>(ceilDiv(count, threads)) * (static_cast<double>(order.panels.longest()) * panel + task);
  double longest = 0;
  for (int64_t thread = 0; thread < threads; ++thread) {  // each thread has as many neighbouring tasks as the others
    const int64_t first = count * thread / threads, end = count * (thread + 1) / threads;
    longest = std::max(longest, static_cast<double>(order.panelsBefore(end) - order.panelsBefore(first)) * panel +
                                    static_cast<double>(end - first) * task);
  }
  return longest;
}

// Uses equal ranges of tiles and panels that all threads finish at the same time, if the ranges found by halving do
// not.
void Matmul::balanceBlocks(int threads, int64_t mostTiles, int64_t mostPanels) {
  if (batches() * rowTiles() * panels_ == 0) return;
  const double now = elapsed(ceilDiv(rowTiles(), tilesPerTask_), ceilDiv(panels_, panelsPerTask_), threads);
  double best = now * kWorthBalancing;
  const int64_t fewest = std::min<int64_t>(int64_t{2} * threads, batches() * rowTiles() * panels_);
  for (int64_t tiles = mostTiles; tiles >= 1; --tiles)
    for (int64_t panels = mostPanels; panels >= 1; --panels) {
      if (panels != PanelRanges::rounded(panels, panelsTogether())) continue;
      const int64_t rowTasks = ceilDiv(rowTiles(), tiles), colTasks = ceilDiv(panels_, panels);
      if (batches() * rowTasks * colTasks < fewest) continue;
      const double time = elapsed(rowTasks, colTasks, threads);
      if (time >= best) continue;
      best = time;
      tilesPerTask_ = ceilDiv(rowTiles(), rowTasks), panelsPerTask_ = orderOf(rowTasks, colTasks).panels.longest();
    }
}

Matmul::TaskOrder Matmul::orderOf(int64_t rowTasks, int64_t colTasks) const {
  const PanelRanges panels(panels_, colTasks, panelsTogether());
  return {rowTasks, panels, copiesOperands() && !panels.areEqual()};
}

Matmul::Part Matmul::partOf(int task) const noexcept {
  const int64_t perBatch = rowTasks_ * colTasks_;
  const TaskOrder order = orderOf(rowTasks_, colTasks_);
  const auto [row, col] = order.rangesOf(task % perBatch);
  return {task / perBatch, rowTiles() * row / rowTasks_, rowTiles() * (row + 1) / rowTasks_, order.panels.begin(col),
          order.panels.begin(col + 1)};
}

double Matmul::share(int task) const noexcept {
  const Part r = partOf(task);
  return static_cast<double>((r.endTile - r.firstTile) * (r.endPanel - r.firstPanel)) /
         static_cast<double>(batches() * rowTiles() * panels_);
}

bool Matmul::isDot() const noexcept {
  return !hasHalves() && shape_.bLayout == BLayout::kPackedTransposed && shape_.m <= kMostDotBatch;
}

}  // namespace popart::cpu
