// Loop nests of attention on the register-tile products.
//
//   forward: task = (batch, range of row tiles)
//     for each key block:  K packed into panels, V copied to rows                      (second level cache)
//       for each row tile: scores of the block, steps, softmax piece, products with V  (first level cache)
//
// A row tile leaves out the panels at both ends of the block that none of its rows needs.
#include "backends/cpu/kernels/attention.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/attention_products.hpp"
#include "backends/cpu/kernels/attention_rows.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kMostKeys = 256;           // keys per block: the scores of a tile use a part of the first level cache
constexpr int64_t kBlockFloats = 256 * 128;  // per block of K, and of V: both share the second level cache
// Least row tiles per task; with fewer, packing K and V costs as much as using them.
constexpr int64_t kSmallestTiles = 4;
constexpr int64_t kMostTiles = 24;      // the rows of a task stay in the second level cache
constexpr int64_t kTasksPerThread = 4;  // so that dynamic claiming balances the load
constexpr float kLowest = -std::numeric_limits<float>::infinity();

}  // namespace

// ---- shapes

AttentionPlan::AttentionPlan(const AttentionShape &s, std::vector<KeyRange> ranges)
    : shape(s), ranges_(std::move(ranges)) {
  const int64_t width = microKernels().panelWidth;
  // A row adds the exponentials of all keys that its tile needs. Where rows need different keys, tiles decide the order
  // of that sum, so they have the rows of one panel's kernel, however many panels other kernels have.
  tiles_ = RowTiles(shape.queries, ranges_.empty() ? std::max(shape.keys, shape.valueSize) : 1);
  sizeStride = ceilDiv(shape.size, width) * width;
  valueStride = ceilDiv(shape.valueSize, width) * width;
  const int64_t longest = std::max<int64_t>({1, shape.size, shape.valueSize});
  int64_t keys = kMostKeys;
  while (keys > kMaxPanelWidth && keys * longest > kBlockFloats) keys /= 2;
  keyBlock_ = std::max(width, std::min(keys, ceilDiv(shape.keys, width) * width));
  scoreStride = keyBlock_ + kCacheLineFloats;  // padded, so that rows map to different cache sets
}

int64_t AttentionPlan::batches() const { return shape.batch[0] * shape.batch[1] * shape.batch[2] * shape.batch[3]; }

int64_t AttentionPlan::keyBlocks() const { return ceilDiv(shape.keys, keyBlock_); }

KeyRange AttentionPlan::panels(int64_t firstRow, int64_t endRow, int64_t block) const {
  const int64_t width = microKernels().panelWidth, first = block * keyBlock_;
  KeyRange keys{first, std::min(first + keyBlock_, shape.keys)};
  if (!ranges_.empty()) {
    KeyRange needed{keys.end, keys.begin};
    for (int64_t r = firstRow; r < endRow; ++r) {
      const KeyRange &range = ranges_[static_cast<size_t>(r)];
      needed.begin = std::min(needed.begin, range.begin), needed.end = std::max(needed.end, range.end);
    }
    keys = {std::max(keys.begin, needed.begin), std::min(keys.end, needed.end)};
  }
  if (keys.begin >= keys.end) return {0, 0};
  return {(keys.begin - first) / width, ceilDiv(keys.end - first, width)};
}

double AttentionPlan::work(int64_t firstRow, int64_t endRow) const {
  if (ranges_.empty()) return static_cast<double>(endRow - firstRow) * static_cast<double>(shape.keys);
  double sum = 0;
  for (int64_t r = firstRow; r < endRow; ++r)
    sum += static_cast<double>(ranges_[static_cast<size_t>(r)].end - ranges_[static_cast<size_t>(r)].begin);
  return sum;
}

// ---- forward

struct AttentionForward::Task {
  const AttentionArgs &args;
  const AttentionStrides &strides;
  StridedMatrix<const void> k, v;
  int64_t firstTile = 0, endTile = 0, firstRow = 0, rows = 0;
  int64_t batchRow = 0;                                          // queries of the earlier batches
  float *queries = nullptr, *keys = nullptr, *values = nullptr;  // scratch
  float *scores = nullptr, *stepped = nullptr, *sums = nullptr;
  float *largest = nullptr, *total = nullptr, *factor = nullptr;
};

AttentionForward::AttentionForward(const AttentionShape &shape, std::vector<KeyRange> ranges, int threads)
    : plan_(shape, std::move(ranges)) {
  const int64_t wanted = ceilDiv(kTasksPerThread * std::max(1, threads), std::max<int64_t>(1, plan_.batches()));
  const int64_t most = ceilDiv(plan_.rowTiles(), kSmallestTiles);
  rowTasks_ = std::max<int64_t>({1, ceilDiv(plan_.rowTiles(), kMostTiles), std::min(wanted, most)});
  for (int64_t t = 0; t < rowTasks_; ++t)
    mostRows_ = std::max(mostRows_, plan_.rowOfTile(plan_.rowTiles() * (t + 1) / rowTasks_) -
                                        plan_.rowOfTile(plan_.rowTiles() * t / rowTasks_));
}

double AttentionForward::share(int task) const noexcept {
  const int64_t part = task % rowTasks_;
  const double all = plan_.work(0, plan_.shape.queries) * static_cast<double>(plan_.batches());
  if (all == 0) return 1.0 / tasks();
  return plan_.work(plan_.rowOfTile(plan_.rowTiles() * part / rowTasks_),
                    plan_.rowOfTile(plan_.rowTiles() * (part + 1) / rowTasks_)) /
         all;
}

int64_t AttentionForward::scratchFloats() const {
  return mostRows_ * (plan_.sizeStride + plan_.valueStride + 3) +
         plan_.keyBlock() * (plan_.shape.size + plan_.valueStride) + (kMaxTileRows + 1) * plan_.scoreStride;
}

void AttentionForward::run(int index, const AttentionStrides &strides, const AttentionArgs &args,
                           float *scratch) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const int64_t batch = index / rowTasks_, part = index % rowTasks_;
  Task task{args,
            strides,
            {args.k, batchOffset(shape, strides.k, batch), strides.k, args.type},
            {args.v, batchOffset(shape, strides.v, batch), strides.v, args.type}};
  task.firstTile = plan_.rowTiles() * part / rowTasks_, task.endTile = plan_.rowTiles() * (part + 1) / rowTasks_;
  task.firstRow = plan_.rowOfTile(task.firstTile);
  task.rows = plan_.rowOfTile(task.endTile) - task.firstRow;
  task.batchRow = batch * shape.queries;
  task.queries = scratch;
  task.sums = task.queries + mostRows_ * plan_.sizeStride;
  task.keys = task.sums + mostRows_ * plan_.valueStride;
  task.values = task.keys + plan_.keyBlock() * shape.size;
  task.scores = task.values + plan_.keyBlock() * plan_.valueStride;
  task.stepped = task.scores + kMaxTileRows * plan_.scoreStride;
  task.largest = task.stepped + plan_.scoreStride;
  task.total = task.largest + mostRows_;
  task.factor = task.total + mostRows_;
  readRows({args.q, batchOffset(shape, strides.q, batch), strides.q, args.type}, task.firstRow, task.rows, shape.size,
           strides.scale, task.queries, plan_.sizeStride);
  std::fill_n(task.sums, task.rows * plan_.valueStride, 0.0f);
  std::fill_n(task.largest, task.rows, kLowest);
  std::fill_n(task.total, task.rows, 0.0f);
  for (int64_t block = 0; block < plan_.keyBlocks(); ++block) keyBlock(task, block);
  for (int64_t r = 0; r < task.rows; ++r) {
    const int64_t row = task.batchRow + task.firstRow + r;
    if (args.largest) args.largest[row] = task.largest[r];
    if (args.total) args.total[row] = task.total[r];
    task.factor[r] = 1.0f / task.total[r];
  }
  scaleRows(task.sums, plan_.valueStride, task.factor, 1.0f, task.sums, plan_.valueStride, task.rows, shape.valueSize);
  writeRows(task.sums, plan_.valueStride, 1.0f, {args.y, batchOffset(shape, strides.y, batch), strides.y, args.type},
            task.firstRow, task.rows, shape.valueSize);
}

void AttentionForward::keyBlock(const Task &task, int64_t block) const noexcept {
  const KeyRange panels = plan_.panels(task.firstRow, task.firstRow + task.rows, block);
  if (panels.begin == panels.end) return;
  const int64_t width = microKernels().panelWidth, first = block * plan_.keyBlock() + panels.begin * width,
                end = std::min(block * plan_.keyBlock() + panels.end * width, plan_.shape.keys);
  packRight(task.k, plan_.shape.size, first, end - first, task.keys);
  readRows(task.v, first, end - first, plan_.shape.valueSize, 1.0f, task.values, plan_.valueStride);
  for (int64_t tile = task.firstTile; tile < task.endTile; ++tile) {
    const int64_t row = plan_.rowOfTile(tile);
    tileOfBlock(task, block, row, static_cast<int>(plan_.rowOfTile(tile + 1) - row), panels.begin);
  }
}

// `firstPanel`: the panel of the block at which the packed keys begin.
void AttentionForward::tileOfBlock(const Task &task, int64_t block, int64_t firstRow, int rows,
                                   int64_t firstPanel) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const KeyRange panels = plan_.panels(firstRow, firstRow + rows, block);
  if (panels.begin == panels.end) return;
  const int64_t width = microKernels().panelWidth, at = firstRow - task.firstRow,
                packed = (panels.begin - firstPanel) * width, key = block * plan_.keyBlock() + panels.begin * width,
                count = std::min(panels.end * width + block * plan_.keyBlock(), shape.keys) - key;
  product({task.queries + at * plan_.sizeStride, plan_.sizeStride, AMode::kRows, rows},
          {task.keys + packed * shape.size, width, shape.size * width, shape.size}, task.scores, plan_.scoreStride,
          count, Sum::kNew);
  for (int r = 0; task.args.steps && r < rows; ++r) {
    float *row = task.scores + r * plan_.scoreStride;
    task.args.steps->forward(row, task.stepped, task.batchRow + firstRow + r, key, count);
    std::memcpy(row, task.stepped, static_cast<size_t>(count) * sizeof(float));
  }
  const bool isFirst = std::all_of(task.largest + at, task.largest + at + rows, [](float x) { return x == kLowest; });
  softmaxPiece(task.scores, plan_.scoreStride, rows, count, {task.largest + at, task.total + at, task.factor + at});
  float *sums = task.sums + at * plan_.valueStride;
  if (!isFirst)
    scaleRows(sums, plan_.valueStride, task.factor + at, 1.0f, sums, plan_.valueStride, rows, plan_.valueStride);
  product({task.scores, plan_.scoreStride, AMode::kRows, rows},
          {task.values + packed * plan_.valueStride, plan_.valueStride, width, count}, sums, plan_.valueStride,
          shape.valueSize, isFirst ? Sum::kNew : Sum::kAdd);
}

}  // namespace popart::cpu
