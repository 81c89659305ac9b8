// Attention in float32 without the matrix of scores: y = softmax(steps(scale * (Q . K))) . V, key block by key block
// with a running softmax, and its gradients from each row's largest score and sum (Dao et al., FlashAttention, 2022,
// saves largest + log(sum) instead: where scores are far from zero, that has no digits left for the logarithm).
// Operands and results may be of 16 bits: they are widened where they are packed, and rounded where they are written.
//
// Plans are made once from shapes; run(task) does a share of the work on pointers, without allocation. Invariant: a
// result depends on shapes and instruction set only. Key blocks are cut by shapes, query rows in any way: tasks never
// change a bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/gemm.hpp"

namespace popart::cpu {

struct AttentionShape {
  int64_t queries = 0, keys = 0, size = 0, valueSize = 0;
  std::array<int64_t, kMaxBatchRank> batch = {1, 1, 1, 1};
};

// A stack of matrices in plain memory. Strides are in elements; a stride of zero repeats an element.
struct MatrixStack {
  std::array<ptrdiff_t, kMaxBatchRank> batchStride = {0, 0, 0, 0};
  ptrdiff_t rowStride = 0, columnStride = 1;
};

// The keys [begin, end) that take part in the softmax of a query; other keys do not, whatever their scores.
struct KeyRange {
  int64_t begin = 0, end = 0;
};

// Element-wise operations on parts of rows of scores. `row` counts the queries of all batches, `key` is the first key.
class ScoreSteps {
 public:
  // to = steps(s); the two must not overlap.
  virtual void forward(const float *s, float *to, int64_t row, int64_t key, int64_t count) const noexcept = 0;
  // The gradient of s, written over the gradient of steps(s).
  virtual void backward(const float *s, float *gradient, int64_t row, int64_t key, int64_t count) const noexcept = 0;

 protected:
  ~ScoreSteps() = default;
};

struct AttentionArgs {
  const void *q, *k, *v;  // (queries, size), (size, keys), (keys, valueSize)
  void *y;                // (queries, valueSize)
  // For the queries of all batches in order: the largest score, and the sum of exp(score - largest). nullptr: not
  // computed.
  float *largest, *total;
  const ScoreSteps *steps = nullptr;
  DataType type = DataType::FLOAT;  // of q, k, v and y
};

struct AttentionGradientArgs {
  const void *q, *k, *v, *y, *dy;
  const float *largest, *total;     // as written by the forward pass
  void *dq, *dk, *dv;               // with the strides of q, k and v; nullptr: not computed
  DataType type = DataType::FLOAT;  // of all operands and results except largest and total
  const ScoreSteps *steps = nullptr;
  bool hasBackward = false;  // false: the gradient of s is the gradient of steps(s)
  float *partial = nullptr;  // memory that all tasks share: AttentionBackward::sharedFloats() floats
};

// The part that both passes share: how rows are split, and which of them need which keys.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionShape &shape, std::vector<KeyRange> ranges);

  int64_t batches() const;
  int64_t keyBlock() const { return keyBlock_; }
  int64_t keyBlocks() const;
  // Panels [begin, end) of a key block that some of the rows [firstRow, endRow) need.
  KeyRange panels(int64_t firstRow, int64_t endRow, int64_t block) const;
  // The fraction of all scores that these rows compute.
  double work(int64_t firstRow, int64_t endRow) const;

  AttentionShape shape;
  int64_t rowTiles() const { return tiles_.count(); }
  int64_t sizeStride = 0, valueStride = 0;  // row strides of copied rows: whole panels
  int64_t scoreStride = 0;                  // row stride of a block of scores
  int64_t rowOfTile(int64_t tile) const { return tiles_.begin(tile); }

 private:
  RowTiles tiles_;
  std::vector<KeyRange> ranges_;  // by query; empty: all keys
  int64_t keyBlock_ = 0;
};

// Strides of the operands of both passes.
struct AttentionStrides {
  MatrixStack q, k, v, y, dy, dq, dk, dv;
  float scale = 1.0f;
  float dqScale = 1.0f, dkScale = 1.0f;
};

class AttentionForward {
 public:
  // `ranges`: empty, or one per query. `threads` only sizes the tasks.
  AttentionForward(const AttentionShape &shape, std::vector<KeyRange> ranges, int threads);
  int tasks() const { return static_cast<int>(plan_.batches() * rowTasks_); }
  double share(int task) const noexcept;
  // Scratch memory of a running task, in floats.
  int64_t scratchFloats() const;
  void run(int task, const AttentionStrides &strides, const AttentionArgs &args, float *scratch) const noexcept;

 private:
  struct Task;
  void keyBlock(const Task &task, int64_t block) const noexcept;
  void tileOfBlock(const Task &task, int64_t block, int64_t firstRow, int rows, int64_t firstPanel) const noexcept;

  AttentionPlan plan_;
  int64_t rowTasks_ = 0, mostRows_ = 0;  // tasks per batch; largest number of rows per task
};

// Tasks of the first round take all keys for a range of queries. If there are several ranges, the second round adds
// their parts of dK and dV. The number of ranges depends only on the shape.
class AttentionBackward {
 public:
  AttentionBackward(const AttentionShape &shape, std::vector<KeyRange> ranges);
  int64_t rangeTasks() const { return plan_.batches() * ranges_; }
  int64_t sumTasks() const { return ranges_ > 1 ? plan_.batches() : 0; }
  int64_t scratchFloats() const;
  int64_t sharedFloats() const;
  void runRange(int64_t task, const AttentionStrides &strides, const AttentionGradientArgs &args,
                float *scratch) const noexcept;
  void runSum(int64_t task, const AttentionStrides &strides, const AttentionGradientArgs &args) const noexcept;

 private:
  struct Task;
  struct Group;
  void keyBlock(Task &task, int64_t block) const noexcept;
  void packKeys(const Task &task, int64_t block, KeyRange panels) const noexcept;
  void probabilities(const Task &task, const Group &group, int64_t tile) const noexcept;
  void addQueryGradient(const Task &task, const Group &group, int64_t tile) const noexcept;
  void addKeyGradients(const Task &task, const Group &group) const noexcept;
  void writeKeyGradients(const AttentionStrides &strides, const AttentionGradientArgs &args, int64_t batch,
                         int64_t firstKey, int64_t keys, float *dk, float *dv) const noexcept;
  int64_t partialFloats() const;

  AttentionPlan plan_;
  int64_t ranges_ = 1, mostRows_ = 0;
};

}  // namespace popart::cpu
