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

constexpr int kMostDepthwisePixels = 8;     // per block
constexpr int64_t kMostDepthwiseRows = 64;  // most rows of taps that a pair of lines reads

// A row of taps that one or both of two neighbouring output lines read.
struct DepthwiseRow {
  int64_t depth, line;   // position in the input, relative to tap 0 of the first line's window
  int64_t weightRow[2];  // row of the weights at its first tap, by output line; -1: the line does not read it
};

// Where the windows of a pair of lines read one row of taps.
struct DepthwiseInput {
  const float *line;  // the block's first channel at position 0; a vector of zeros for a line outside the image
  ptrdiff_t position, channel;  // floats from one position, or channel, to the next; 0 outside the image
  int64_t weightRow[2];         // as in DepthwiseRow
};

// A block of sums: `pixels` neighbouring pixels of one or two output lines, and channels from `channel` on.
struct DepthwiseBlock {
  const DepthwiseInput *inputs;  // one per row of taps
  int64_t rows, columns;         // numbers of rows and columns of taps
  int64_t weightStep;            // rows of the weights from one tap to the next tap of its row
  const float *weights;          // panels of `weightRows` rows
  int64_t weightRows;
  int64_t channel, channels;
  int64_t column;            // position of tap 0 of the first pixel's window; may be outside the image
  int64_t positions;         // length of a line of the input
  int64_t stride, dilation;  // in positions of a line
  int pixels, lines;
  float *out;  // at the first channel, pixel and line
  ptrdiff_t outPixel, outLine;
  TileEnd end;  // at the same place; the strides of its residual are those of `out`
};

// Channels of one image, all of its pixels.
struct ImageChannels {
  int64_t image, first, count;
};

class DepthwiseProduct {
 public:
  // `threads` only determines the sizes of tasks. shape.tapRows are rows of weights in the form `weights`. The shape
  // must satisfy fits().
  DepthwiseProduct(WindowProductShape shape, GroupedWeights weights, int threads);
  static bool fits(const ConvShape &shape);
  // Makes the tasks channels of whole images, for a mean of each channel that reads the results of its task from the
  // cache. Returns false and changes nothing if that takes longer than the convolution and a pass of its own.
  bool takeWholeImages(int threads);
  // What a task of whole images computes.
  ImageChannels channelsOf(int task) const noexcept;
  int tasks() const { return static_cast<int>(placeTasks_ * vectorTasks_); }
  // The number of multiply-adds, and the fraction of them that a task does.
  double products() const;
  double share(int task) const;
  size_t scratchFloats() const { return scratchFloats_; }
  // The epilogue's matrices have the layout of y; its strides are not used.
  void run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  // A task: pieces of pairs of output lines, and vectors of channels.
  struct Part {
    int64_t firstPlace, endPlace, firstVector, endVector;
  };
  struct Operands;
  void makeRows(GroupedWeights weights);
  void chooseTasks(int threads);
  double elapsedOf(int64_t placeTasks, int64_t vectorTasks, int threads) const;
  int64_t linePairs() const;
  int64_t places() const;
  Part partOf(int task) const noexcept;
  void runPlace(int64_t place, const Part &part, const Operands &operands) const noexcept;
  void readRows(int lines, int64_t depth, int64_t line, const float *image, DepthwiseInput *inputs) const noexcept;
  void runBlock(DepthwiseBlock &block, ptrdiff_t at, const Operands &operands) const noexcept;

  WindowProductShape shape_;
  std::vector<DepthwiseRow> rows_[2];  // for one output line, and for two
  int64_t columns_ = 0, weightStep_ = 0;
  int64_t lanes_ = 1, vectors_ = 0;  // lanes of a vector; vectors of all channels
  int64_t pieces_ = 1;               // per line
  int64_t placeTasks_ = 1, vectorTasks_ = 1;
  size_t scratchFloats_ = 0;
};

}  // namespace popart::cpu
