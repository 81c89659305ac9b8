// Convolutions with one channel in a group, channels last: a lane is a channel. The sums of a few pixels of two output
// lines stay in registers, and an input that both lines read is loaded once. Images are read in place; a place beyond
// the border is a vector of zeros. Used by the plans in conv.hpp; same contracts.
// Invariant: a sum over taps is one ascending chain that starts from zero, with a product for every tap, beyond the
// border too; tasks and blocks never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_grouped.hpp"
#include "backends/cpu/kernels/conv_product.hpp"
#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

constexpr int kMostDepthwisePixels = 8;     // of a block
constexpr int64_t kMostDepthwiseRows = 64;  // of taps that a pair of lines reads

// A row of taps that one or both of two neighbouring output lines read.
struct DepthwiseRow {
  int64_t depth, line;   // of the input, from tap 0 of the first line's window on
  int64_t weightRow[2];  // of the row's first tap, by output line; -1: the line does not read it
};

// Where the windows of a pair of lines read a row of taps.
struct DepthwiseInput {
  const float *line;  // the block's first channel at position 0; of a line outside of the image: a vector of zeros
  ptrdiff_t position, channel;  // floats from one position, or channel, of it to the next; 0 outside of the image
  int64_t weightRow[2];         // as in DepthwiseRow
};

// A block of sums: `pixels` neighbouring pixels of one output line or two, and channels from `channel` on.
struct DepthwiseBlock {
  const DepthwiseInput *inputs;  // by row of taps
  int64_t rows, columns;         // of taps
  int64_t weightStep;            // rows of the weights from one tap of a row to the next
  const float *weights;          // panels of `weightRows` rows
  int64_t weightRows;
  int64_t channel, channels;
  int64_t column;            // position at tap 0 of the first pixel's window; may be outside
  int64_t positions;         // of a line of the input
  int64_t stride, dilation;  // in positions
  int pixels, lines;
  float *out;  // of the first channel, pixel and line
  ptrdiff_t outPixel, outLine;
  TileEnd end;  // at the same place; its residual has the distances of `out`
};

class DepthwiseProduct {
 public:
  // `threads` only sizes the tasks. shape.tapRows count rows of the weights as `weights` says.
  // Where it fits().
  DepthwiseProduct(WindowProductShape shape, GroupedWeights weights, int threads);
  static bool fits(const ConvShape &shape);
  int tasks() const { return static_cast<int>(placeTasks_ * vectorTasks_); }
  // Multiply-adds in all, and the part of them that a task does.
  double products() const;
  double share(int task) const;
  size_t scratchFloats() const { return scratchFloats_; }
  // The epilogue's matrices have the layout of y; its strides are not read.
  void run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  // Pieces of pairs of output lines, and vectors of channels.
  struct Part {
    int64_t firstPlace, endPlace, firstVector, endVector;
  };
  struct Operands;
  void makeRows(GroupedWeights weights);
  void chooseTasks(int threads);
  int64_t linePairs() const;
  int64_t places() const;
  Part partOf(int task) const noexcept;
  void runPlace(int64_t place, const Part &part, const Operands &operands) const noexcept;
  void readRows(int lines, int64_t depth, int64_t line, const float *image, DepthwiseInput *inputs) const noexcept;
  void runBlock(DepthwiseBlock &block, ptrdiff_t at, const Operands &operands) const noexcept;

  WindowProductShape shape_;
  std::vector<DepthwiseRow> rows_[2];  // for one output line, and for two
  int64_t columns_ = 0, weightStep_ = 0;
  int64_t lanes_ = 1, vectors_ = 0;  // of a vector, and of all channels
  int64_t pieces_ = 1;               // of a line
  int64_t placeTasks_ = 1, vectorTasks_ = 1;
  size_t scratchFloats_ = 0;
};

}  // namespace popart::cpu
