// Gradients of attention on the register-tile products. Probabilities are computed again from the products, the
// largest score of each row and the sum of its exponentials.
//
//   task = (batch, range of queries)
//     for each key block:   K and V packed; sums of dK and dV of the block
//       for each row group: a few row tiles of Q and dY copied
//         for each tile:      scores, p = exp(scores - largest) / total, dP = dY . Vt, dS = p (dP - rowsum(dY y));
//                             dQ += dS . K
//         for each key tile:  dV += pT . dY, dK += dST . Q over the rows of the group
//
// Every element of dQ is a sum over key blocks, of dK and dV over row groups and then over ranges, in this order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/attention.hpp"
#include "backends/cpu/kernels/attention_products.hpp"
#include "backends/cpu/kernels/attention_rows.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kRowsOfGroup = 56;      // four tiles of the widest instruction set; the scores of a group stay in L2
constexpr int64_t kEnoughTasks = 16;      // with fewer matrices, each is split into ranges of queries …
constexpr int64_t kLeastRangeRows = 256;  // … of at least this many queries, because every range has its own dK and dV
static_assert(kRowsOfGroup % kMaxTileRows == 0);

// The transpose of a matrix.
MatrixStack turned(const MatrixStack &m) { return {m.batchStride, m.columnStride, m.rowStride}; }

StridedMatrix<const void> matrixIn(const AttentionShape &shape, const void *memory, const MatrixStack &strides,
                                   int64_t batch, DataType type) {
  return {memory, batchOffset(shape, strides, batch), strides, type};
}

int64_t tilesOfGroup() { return std::max<int64_t>(1, kRowsOfGroup / microKernels().tileRows); }

}  // namespace

struct AttentionBackward::Task {
  const AttentionStrides &strides;
  const AttentionGradientArgs &args;
  int64_t batch = 0, firstTile = 0, endTile = 0, firstRow = 0, rows = 0;
  // Scratch memory: K as panels and as rows, V transposed as panels, rows of a group, scores of a group, sums.
  float *keyPanels = nullptr, *keyRows = nullptr, *valuePanels = nullptr;
  float *queries = nullptr, *outputs = nullptr;
  float *probabilities = nullptr, *gradients = nullptr, *stepped = nullptr;
  float *dq = nullptr, *dk = nullptr, *dv = nullptr, *shift = nullptr;
};

struct AttentionBackward::Group {
  int64_t block, firstTile, endTile, firstRow, rows;
  KeyRange panels;      // panels of the block that some row of the group needs
  int64_t firstPacked;  // panel of the block at which the packed keys begin
};

AttentionBackward::AttentionBackward(const AttentionShape &shape, std::vector<KeyRange> ranges)
    : plan_(shape, std::move(ranges)) {
  const int64_t wanted = ceilDiv(kEnoughTasks, std::max<int64_t>(1, plan_.batches()));
  ranges_ = std::clamp<int64_t>(shape.queries / kLeastRangeRows, 1, wanted);
  for (int64_t r = 0; r < ranges_; ++r)
    mostRows_ = std::max(mostRows_, plan_.rowOfTile(plan_.rowTiles() * (r + 1) / ranges_) -
                                        plan_.rowOfTile(plan_.rowTiles() * r / ranges_));
}

int64_t AttentionBackward::partialFloats() const { return plan_.shape.keys * (plan_.sizeStride + plan_.valueStride); }

int64_t AttentionBackward::sharedFloats() const {
  return ranges_ > 1 ? plan_.batches() * ranges_ * partialFloats() : 0;
}

int64_t AttentionBackward::scratchFloats() const {
  const int64_t both = plan_.sizeStride + plan_.valueStride, keys = plan_.keyBlock();
  return keys * (plan_.shape.size + plan_.shape.valueSize + plan_.sizeStride) + keys * both +
         (kRowsOfGroup + kMaxTileRows) * (both + 2 * plan_.scoreStride) + plan_.scoreStride +
         mostRows_ * (plan_.sizeStride + 1);
}

void AttentionBackward::runRange(int64_t index, const AttentionStrides &strides, const AttentionGradientArgs &args,
                                 float *scratch) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const int64_t range = index % ranges_, keys = plan_.keyBlock(), groupRows = kRowsOfGroup + kMaxTileRows;
  Task task{strides, args};
  task.batch = index / ranges_;
  task.firstTile = plan_.rowTiles() * range / ranges_, task.endTile = plan_.rowTiles() * (range + 1) / ranges_;
  task.firstRow = plan_.rowOfTile(task.firstTile), task.rows = plan_.rowOfTile(task.endTile) - task.firstRow;
  const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
  task.dk = take(keys * plan_.sizeStride), task.dv = take(keys * plan_.valueStride);
  task.keyRows = take(keys * plan_.sizeStride);
  task.keyPanels = take(keys * shape.size), task.valuePanels = take(keys * shape.valueSize);
  task.queries = take(groupRows * plan_.sizeStride), task.outputs = take(groupRows * plan_.valueStride);
  task.probabilities = take(groupRows * plan_.scoreStride), task.gradients = take(groupRows * plan_.scoreStride);
  task.stepped = take(plan_.scoreStride);
  task.dq = take(mostRows_ * plan_.sizeStride), task.shift = take(mostRows_);
  const auto y = matrixIn(shape, args.y, strides.y, task.batch, args.type),
             dy = matrixIn(shape, args.dy, strides.dy, task.batch, args.type);
  for (int64_t r = 0; r < task.rows; ++r) {  // computes rowsum(dY y)
    readRows(y, task.firstRow + r, 1, shape.valueSize, 1.0f, task.queries, plan_.valueStride);
    readRows(dy, task.firstRow + r, 1, shape.valueSize, 1.0f, task.outputs, plan_.valueStride);
    task.shift[r] = dotRow(task.queries, task.outputs, shape.valueSize);
  }
  std::fill_n(task.dq, task.rows * plan_.sizeStride, 0.0f);
  for (int64_t block = 0; block < plan_.keyBlocks(); ++block) {
    keyBlock(task, block);
    const int64_t first = block * keys, count = std::min(keys, shape.keys - first);
    if (ranges_ == 1) {
      writeKeyGradients(strides, args, task.batch, first, count, task.dk, task.dv);
      continue;
    }
    float *partial = args.partial + index * partialFloats();
    std::copy_n(task.dk, count * plan_.sizeStride, partial + first * plan_.sizeStride);
    std::copy_n(task.dv, count * plan_.valueStride,
                partial + shape.keys * plan_.sizeStride + first * plan_.valueStride);
  }
  if (args.dq)
    writeRows(task.dq, plan_.sizeStride, strides.dqScale,
              {args.dq, batchOffset(shape, strides.dq, task.batch), strides.dq, args.type}, task.firstRow, task.rows,
              shape.size);
}

void AttentionBackward::runSum(int64_t batch, const AttentionStrides &strides,
                               const AttentionGradientArgs &args) const noexcept {
  float *sum = args.partial + batch * ranges_ * partialFloats();
  for (int64_t r = 1; r < ranges_; ++r) {
    const float *part = sum + r * partialFloats();
    for (int64_t i = 0; i < partialFloats(); ++i) sum[i] += part[i];
  }
  writeKeyGradients(strides, args, batch, 0, plan_.shape.keys, sum, sum + plan_.shape.keys * plan_.sizeStride);
}

void AttentionBackward::writeKeyGradients(const AttentionStrides &strides, const AttentionGradientArgs &args,
                                          int64_t batch, int64_t firstKey, int64_t keys, float *dk,
                                          float *dv) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const MatrixStack keyRows = turned(strides.dk);
  if (args.dk)
    writeRows(dk, plan_.sizeStride, strides.dkScale,
              {args.dk, batchOffset(shape, strides.dk, batch), keyRows, args.type}, firstKey, keys, shape.size);
  if (args.dv)
    writeRows(dv, plan_.valueStride, 1.0f, {args.dv, batchOffset(shape, strides.dv, batch), strides.dv, args.type},
              firstKey, keys, shape.valueSize);
}

void AttentionBackward::packKeys(const Task &task, int64_t block, KeyRange panels) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const AttentionStrides &s = task.strides;
  const int64_t width = microKernels().panelWidth, first = block * plan_.keyBlock() + panels.begin * width,
                count = std::min(block * plan_.keyBlock() + panels.end * width, shape.keys) - first;
  const MatrixStack keyRows = turned(s.k), valueColumns = turned(s.v);
  packRight(matrixIn(shape, task.args.k, s.k, task.batch, task.args.type), shape.size, first, count, task.keyPanels);
  packRight(matrixIn(shape, task.args.v, valueColumns, task.batch, task.args.type), shape.valueSize, first, count,
            task.valuePanels);
  readRows(matrixIn(shape, task.args.k, keyRows, task.batch, task.args.type), first, count, shape.size, 1.0f,
           task.keyRows, plan_.sizeStride);
}

void AttentionBackward::keyBlock(Task &task, int64_t block) const noexcept {
  const AttentionShape &shape = plan_.shape;
  std::fill_n(task.dk, plan_.keyBlock() * plan_.sizeStride, 0.0f);
  std::fill_n(task.dv, plan_.keyBlock() * plan_.valueStride, 0.0f);
  const KeyRange all = plan_.panels(task.firstRow, task.firstRow + task.rows, block);
  if (all.begin == all.end) return;
  packKeys(task, block, all);
  const auto q = matrixIn(shape, task.args.q, task.strides.q, task.batch, task.args.type),
             dy = matrixIn(shape, task.args.dy, task.strides.dy, task.batch, task.args.type);
  for (int64_t tile = task.firstTile; tile < task.endTile; tile += tilesOfGroup()) {
    Group group{block, tile, std::min(task.endTile, tile + tilesOfGroup()), plan_.rowOfTile(tile), 0, {}, all.begin};
    group.rows = plan_.rowOfTile(group.endTile) - group.firstRow;
    group.panels = plan_.panels(group.firstRow, group.firstRow + group.rows, block);
    if (group.panels.begin == group.panels.end) continue;
    readRows(q, group.firstRow, group.rows, shape.size, task.strides.scale, task.queries, plan_.sizeStride);
    readRows(dy, group.firstRow, group.rows, shape.valueSize, 1.0f, task.outputs, plan_.valueStride);
    for (int64_t t = group.firstTile; t < group.endTile; ++t) {
      probabilities(task, group, t);
      addQueryGradient(task, group, t);
    }
    addKeyGradients(task, group);
  }
}

// p and dS of one tile; zero for panels of the group that the tile does not need.
void AttentionBackward::probabilities(const Task &task, const Group &group, int64_t tile) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const int64_t width = microKernels().panelWidth, first = plan_.rowOfTile(tile), at = first - group.firstRow,
                blockKey = group.block * plan_.keyBlock();
  const int rows = static_cast<int>(plan_.rowOfTile(tile + 1) - first);
  const KeyRange own = plan_.panels(first, first + rows, group.block);
  float *p = task.probabilities + at * plan_.scoreStride, *g = task.gradients + at * plan_.scoreStride;
  const int64_t from = own.begin * width, to = own.end * width;
  const int64_t groupFrom = group.panels.begin * width, groupTo = group.panels.end * width;
  for (int r = 0; r < rows; ++r)
    for (float *row : {p + r * plan_.scoreStride, g + r * plan_.scoreStride}) {
      std::fill(row + groupFrom, row + (from < to ? from : groupTo), 0.0f);
      std::fill(row + std::min(from < to ? to : groupTo, groupTo), row + groupTo, 0.0f);
    }
  if (from == to) return;
  const int64_t packed = (own.begin - group.firstPacked) * width,
                count = std::min(blockKey + to, shape.keys) - blockKey - from;
  product({task.queries + at * plan_.sizeStride, plan_.sizeStride, AMode::kRows, rows},
          {task.keyPanels + packed * shape.size, width, shape.size * width, shape.size}, p + from, plan_.scoreStride,
          count, Sum::kNew);
  product({task.outputs + at * plan_.valueStride, plan_.valueStride, AMode::kRows, rows},
          {task.valuePanels + packed * shape.valueSize, width, shape.valueSize * width, shape.valueSize}, g + from,
          plan_.scoreStride, count, Sum::kNew);
  for (int r = 0; r < rows; ++r) {
    const int64_t row = task.batch * shape.queries + first + r, key = blockKey + from;
    float *s = p + r * plan_.scoreStride + from, *ds = g + r * plan_.scoreStride + from;
    const float largest = task.args.largest[row], total = task.args.total[row],
                shift = task.shift[first - task.firstRow + r];
    if (!task.args.steps) {
      probabilityGradient(s, largest, total, shift, s, ds, count);
      continue;
    }
    task.args.steps->forward(s, task.stepped, row, key, count);
    probabilityGradient(task.stepped, largest, total, shift, task.stepped, ds, count);
    if (task.args.hasBackward) task.args.steps->backward(s, ds, row, key, count);
    std::memcpy(s, task.stepped, static_cast<size_t>(count) * sizeof(float));
  }
}

void AttentionBackward::addQueryGradient(const Task &task, const Group &group, int64_t tile) const noexcept {
  if (!task.args.dq) return;
  const int64_t width = microKernels().panelWidth, first = plan_.rowOfTile(tile);
  const int rows = static_cast<int>(plan_.rowOfTile(tile + 1) - first);
  const KeyRange own = plan_.panels(first, first + rows, group.block);
  if (own.begin == own.end) return;
  const int64_t from = own.begin * width, blockKey = group.block * plan_.keyBlock(),
                count = std::min(blockKey + own.end * width, plan_.shape.keys) - blockKey - from;
  product({task.gradients + (first - group.firstRow) * plan_.scoreStride + from, plan_.scoreStride, AMode::kRows, rows},
          {task.keyRows + (own.begin - group.firstPacked) * width * plan_.sizeStride, plan_.sizeStride, width, count},
          task.dq + (first - task.firstRow) * plan_.sizeStride, plan_.sizeStride, plan_.shape.size, Sum::kAdd);
}

void AttentionBackward::addKeyGradients(const Task &task, const Group &group) const noexcept {
  const AttentionShape &shape = plan_.shape;
  const int64_t width = microKernels().panelWidth, blockKey = group.block * plan_.keyBlock(),
                begin = group.panels.begin * width;
  const int64_t end = std::min(blockKey + group.panels.end * width, shape.keys) - blockKey;
  const RowTiles tiles(end - begin, std::max(shape.size, shape.valueSize));
  for (int64_t tile = 0; tile < tiles.count(); ++tile) {
    const int64_t key = begin + tiles.begin(tile);
    const int rows = static_cast<int>(begin + tiles.begin(tile + 1) - key);
    // Row tiles of the group that need a key of this tile.
    int64_t first = group.endTile, last = group.firstTile;
    for (int64_t t = group.firstTile; t < group.endTile; ++t) {
      const KeyRange own = plan_.panels(plan_.rowOfTile(t), plan_.rowOfTile(t + 1), group.block);
      if (own.begin * width >= key + rows || own.end * width <= key) continue;
      first = std::min(first, t), last = t + 1;
    }
    if (first >= last) continue;
    const int64_t row = plan_.rowOfTile(first) - group.firstRow, count = plan_.rowOfTile(last) - plan_.rowOfTile(first);
    const ptrdiff_t at = row * plan_.scoreStride + key;
    if (task.args.dv)
      product({task.probabilities + at, plan_.scoreStride, AMode::kPanel, rows},
              {task.outputs + row * plan_.valueStride, plan_.valueStride, width, count},
              task.dv + key * plan_.valueStride, plan_.valueStride, shape.valueSize, Sum::kAdd);
    if (task.args.dk)
      product({task.gradients + at, plan_.scoreStride, AMode::kPanel, rows},
              {task.queries + row * plan_.sizeStride, plan_.sizeStride, width, count}, task.dk + key * plan_.sizeStride,
              plan_.sizeStride, shape.size, Sum::kAdd);
  }
}

}  // namespace popart::cpu
