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

// How the rows of planes are staged, and how outputs are cut into units: (image, channel, depth, piece of the rows).
struct PlanePlan {
  static constexpr int64_t kTileLines = 4;  // output rows of a tile

  explicit PlanePlan(const ConvShape &shape);
  // Whether what a tile reads can be staged: 4 MiB at most.
  static bool fits(const ConvShape &shape);
  ConvShape shape;
  Spatial out;
  int64_t perGroup = 1;           // output channels of an input channel
  int64_t lines = 1, pieces = 1;  // output rows of a piece
  int64_t span = 0;               // columns of the input, with padding, that the windows of a row read
  int64_t stagedRows = 0;         // of a depth of the window
  int64_t pitch = 0, phase = 0;   // floats from staged row to row, and from phase to phase
  std::vector<int64_t> columns;   // by column of the kernel: where it begins in a staged row
  int64_t stagedFloats = 0;
  int64_t unitsOfPlane() const { return out[0] * pieces; }
  int64_t units() const { return shape.n * shape.cin * unitsOfPlane(); }
};

class PlaneConv {
 public:
  // FLOAT, with one input channel in a group, of a shape that fits.
  explicit PlaneConv(const ConvShape &shape) : PlaneConv(shape, shape, false) {}
  // dx from dy, where strides are 1 and groups have one channel (hasDataGradient): a convolution with the taps from the
  // last to the first. `shape` is that of the forward pass.
  static PlaneConv dataGradient(const ConvShape &shape);
  static bool hasDataGradient(const ConvShape &shape);

  int tasks() const { return tasks_; }
  // The part of all work that a task does.
  double share(int task) const;
  size_t scratchFloats() const;
  // x (N, C, …), y (N, M, …) in C order; weights packed as `convPanels` says. The epilogue's bias is (M), its matrices
  // have the layout of y.
  void run(int task, const void *x, const void *packedWeights, void *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

  // What the code of an instruction set works with.
  struct Plan {
    PlanePlan planes;
    int64_t panel = 1, groups = 1;  // of the packed weights: columns of a panel, matrices
    bool reversed = false;          // taps from the last to the first
    // Where the weights of an output channel begin; taps are `panel` floats apart.
    int64_t weightsOf(int64_t channel) const;
  };

 private:
  PlaneConv(const ConvShape &shape, const ConvShape &forward, bool reversed);
  Plan plan_;
  int tasks_ = 1;
};

// packed weights = update(packed weights, weight gradient) of depthwise convolutions of plain memory, as
// ConvWeightGradient has it. A leaf's sums are one chain in every lane; leaves are added in order, and the shape says
// how many there are.
class PlaneWeightGradient {
 public:
  explicit PlaneWeightGradient(const ConvShape &shape);
  // The leaves' sums of each channel; their totals by panel of weights.
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
  std::vector<int64_t> taps_;  // where each begins in the staged rows
  int64_t leaves_ = 1, ranges_ = 1;
  Rounds rounds_;
};

}  // namespace popart::cpu
