// Convolutions with one input channel in a group (depthwise ones, and those with several outputs per channel) of plain
// memory (N, C, spatial…): vectors hold neighbouring results of a row.
//
// Some rows of a plane are staged with zeros around them, by the remainder of the column by the stride as in
// pool_rows.hpp, so that every tap is a load of neighbours; then tiles of rows and vectors are summed for each output
// channel of the plane. A tile's rows share what they read. Gradients read rows in the same way.
// Invariant: a sum over taps is one ascending chain from zero, as conv_grouped.hpp has it for channels last, so that
// both layouts give the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {

// How the rows of planes are staged, and how outputs are split into units: (image, channel, depth, piece of the rows).
struct PlanePlan {
  static constexpr int64_t kTileLines = 4;  // output rows per tile

  explicit PlanePlan(const ConvShape &shape);
  // Whether the rows that a tile reads can be staged: at most 4 MiB.
  static bool fits(const ConvShape &shape);
  ConvShape shape;
  Spatial out;
  int64_t perGroup = 1;           // output channels per input channel
  int64_t lines = 1, pieces = 1;  // lines: output rows per piece
  int64_t span = 0;               // columns of the input, with padding, that the windows of a row span
  int64_t stagedRows = 0;         // per depth of the window
  int64_t pitch = 0, phase = 0;   // floats from one staged row to the next, and from one phase to the next
  std::vector<int64_t> columns;   // by column of the kernel: where its elements begin in a staged row
  int64_t stagedFloats = 0;
  int64_t unitsOfPlane() const { return out[0] * pieces; }
  int64_t units() const { return shape.n * shape.cin * unitsOfPlane(); }
};

class PlaneConv {
 public:
  // FLOAT, with one input channel per group, of a shape that fits.
  explicit PlaneConv(const ConvShape &shape) : PlaneConv(shape, shape, false) {}
  // dx from dy, for strides of 1 and groups with one channel (hasDataGradient): a convolution with the taps from the
  // last to the first. `shape` is the shape of the forward pass.
  static PlaneConv dataGradient(const ConvShape &shape);
  static bool hasDataGradient(const ConvShape &shape);

  int tasks() const { return tasks_; }
  // The fraction of all work that a task does.
  double share(int task) const;
  size_t scratchFloats() const;
  // x (N, C, …) and y (N, M, …) in C order; weights packed as `convPanels` says. The epilogue's bias is (M), its
  // matrices have the layout of y.
  void run(int task, const void *x, const void *packedWeights, void *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

  // The plan that the code of each instruction set uses.
  struct Plan {
    PlanePlan planes;
    int64_t panel = 1, groups = 1;  // packed weights: columns of a panel, number of matrices
    bool reversed = false;          // whether taps run from the last to the first
    // Offset of the weights of an output channel; its taps are `panel` floats apart.
    int64_t weightsOf(int64_t channel) const;
  };

 private:
  PlaneConv(const ConvShape &shape, const ConvShape &forward, bool reversed);
  Plan plan_;
  int tasks_ = 1;
};

// packed weights = update(packed weights, weight gradient) for depthwise convolutions of plain memory, like
// ConvWeightGradient. Within a leaf, every lane has one chain of sums; leaves are added in order. The number of leaves
// depends on the shape.
class PlaneWeightGradient {
 public:
  explicit PlaneWeightGradient(const ConvShape &shape);
  // The first round computes the leaves' sums of each channel, the second their totals by panel of weights.
  const Rounds &rounds() const { return rounds_; }
  int tasks() const { return rounds_.tasks(); }
  size_t scratchFloats() const;
  size_t sharedFloats() const { return static_cast<size_t>(leaves_ * planes_.shape.cin * planes_.shape.taps()); }
  void run(int task, const void *x, const void *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  void addUp(int64_t panel, float *packedWeights, const Update &update, float *total,
             const float *leaves) const noexcept;

  PlanePlan planes_;
  std::vector<int64_t> taps_;  // offset of each tap in the staged rows
  int64_t leaves_ = 1, ranges_ = 1;
  Rounds rounds_;
};

}  // namespace popart::cpu
