// Sums over the windows of an image: the forward pass of a convolution, and its data gradient for the pixels of those
// phases of the stride that read the same windows.
//
// y[place, column] = epilogue(sum over tap, channel of x[window of place at tap, channel] * w[tap, channel, column]).
// The register tiles read windows directly from the image or its strip (conv_window.hpp): one block per tap row instead
// of a stored patch (im2col). Images and weights of 16 bits: BFLOAT16 with an even number of channels is multiplied in
// pairs of channels where the processor does that; else the strip and the weights of a pass become floats. Invariant:
// each sum is one ascending chain over (tap, channel), or for a few output channels one for each lane of a vector
// (window_dots.hpp); the split of outputs into chunks, tasks and tiles never changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_window.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

class ResultsAhead;

// One of the results of the windows.
struct WindowResult {
  int64_t row = 0;        // row of the weights, relative to those of the first result
  Spatial position = {};  // position of its places, relative to those of the first result
};

struct WindowProductShape {
  WindowShape window;
  int64_t groups = 1;
  int64_t columns = 1;  // output channels per group
  // Weights of a group: panels of `weightRows` rows; tap t of the window starts at row tapRows[t]. Without taps, all
  // sums are zero.
  std::vector<int64_t> tapRows;
  int64_t weightRows = 0;
  // Output place o is written at position first + o * step of an image of `size`.
  Spatial first = {0, 0, 0}, step = {1, 1, 1}, size = {1, 1, 1};
  // Several results are computed as one product: a row tile of windows is multiplied by the weights of each and written
  // to the places of each.
  std::vector<WindowResult> results = {WindowResult{}};
  int64_t yStride = 0;       // elements between the pixels of y; 0: all channels
  bool anySumOrder = false;  // as in ConvShape
};

class WindowProduct {
 public:
  enum class Input : uint8_t { kStored, kComputed };  // whether x is in memory, or a RowProgram computes it
  // `threads` only determines the sizes of tasks. `type`: of x and weights.
  WindowProduct(WindowProductShape shape, int threads, DataType type = DataType::FLOAT, Input x = Input::kStored);
  // Whether a RowProgram should compute x: few pixels are computed twice, a pixel has many channels, and tasks of all
  // columns lose less time than a pass over memory takes. Only with Input::kComputed.
  bool takesRows() const;
  int tasks() const { return static_cast<int>(shape_.groups * windows_.chunks() * splits_); }
  // The number of multiply-adds, and the fraction of them that a task does.
  double products() const;
  double share(int task) const;
  size_t scratchFloats() const { return partialFloats_ + packedFloats_ + dotFloats_ + windows_.stripFloats(); }
  // The epilogue's matrices have the layout and type of y; its strides are not used.
  // `pixels`: with Input::kComputed.
  void run(int task, const void *x, const void *weights, void *y, const Epilogue &epilogue, float *scratch,
           RowProgram *pixels = nullptr) const noexcept;

 private:
  // The part of the reduction that one call of a tile kernel covers.
  struct Pass {
    size_t firstBlock;
    int64_t blockCount, k;
    ptrdiff_t offset;        // added to the blocks' offsets: channels of A, rows of B
    size_t firstPacked = 0;  // index in packedBlocks_
    int64_t contiguous = 0;  // floats of a panel's weights without gaps, from the first on
  };
  struct Place;
  // A row tile: its index among the tiles that share one read of the weights, the position of its first place in y, and
  // the number of rows of the next tile in its line.
  struct RowTile {
    int64_t index, count;
    ptrdiff_t at;
    int64_t nextRows = 0;
    bool isFirst = true;  // of its line
  };
  // Distances in elements from the first result to a result: of the weights, and of the places in y.
  struct Target {
    ptrdiff_t weights, y;
  };
  // Panels are numbered through all results: panel p is panel p % panelsOfResult_ of its result.
  struct ColumnPanel {
    size_t result;
    int64_t panel;
  };
  ColumnPanel columnPanel(int64_t panel) const {
    return {static_cast<size_t>(panel / panelsOfResult_), panel % panelsOfResult_};
  }
  // Offset of a panel's weights from those of its group, in elements that kernels read.
  ptrdiff_t weightsAt(const ColumnPanel &p) const {
    return p.panel * shape_.weightRows * kernels_->panelWidth + targets_[p.result].weights;
  }
  // The weights of some panels: those of one pass, or all.
  struct Weights {
    const float *packed;  // row 0 of firstPanel, if the weights are packed for the pass
    const float *group;   // row 0 of panel 0 of all passes; nullptr: packed for the pass
    const BlockOffset *blocks;
    ptrdiff_t panelStride;  // between panels of one result
    int64_t firstPanel, endPanel;
  };
  int64_t columnsTogether(int64_t firstPanel, int64_t endPanel) const noexcept;
  int64_t panelsTogether(const ChunkSize &size) const { return RowTiles(size.pixels, shape_.columns).panelsTogether(); }
  PanelRanges panelRanges() const { return {panels_, splits_, panelsTogether(chunkSize_)}; }
  WindowChunk joined(const WindowChunk &chunk) const noexcept;
  bool fillsLines() const;
  void usePairs();
  double chooseChunks(int threads, int64_t mostSplits);
  void makePasses();
  void makePackedBlocks();
  int64_t longestPass() const;  // in k
  int64_t channelsOfY() const { return shape_.groups * shape_.columns; }
  Weights weightsOf(const Pass &pass, const void *group, int64_t firstPanel, int64_t endPanel,
                    float *packed) const noexcept;
  void runPanels(const WindowChunk &chunk, const float *view, const void *weights, int64_t firstPanel, int64_t endPanel,
                 const Place &to, float *partials) const noexcept;
  void runDots(const WindowChunk &chunk, const float *view, const float *weights, const Place &to,
               float *columns) const noexcept;
  // The place in y of place (image, line, pixel) of a chunk.
  ptrdiff_t placeInY(const WindowChunk &chunk, int64_t image, int64_t line, int64_t pixel) const noexcept;
  void runTile(const Pass &pass, const float *a, int rows, const Weights &weights, float *partial, const Place &to,
               const RowTile &rowTile, TileArgs &tile) const noexcept;
  ResultsAhead resultsAhead(const Weights &weights, const Place &to, const RowTile &rowTile, int rows) const noexcept;
  ResultsAhead resultsOfLine(const Weights &weights, const Place &to, const RowTile &rowTile, int rows,
                             size_t result) const noexcept;
  void lookAhead(const Pass &pass, const RowTile &rowTile, const Weights &weights, int64_t panel,
                 const MicroKernels::Choice &kernel, TileArgs &tile) const noexcept;
  void emit(const Place &to, ptrdiff_t at, const float *sums, ptrdiff_t stride, int rows, int64_t column,
            int64_t columns) const noexcept;

  WindowProductShape shape_;  // its channels and rows count steps of the kernels: numbers, or pairs
  DataType type_ = DataType::FLOAT;
  const MicroKernels *kernels_ = nullptr;
  int64_t perStep_ = 1;  // numbers per step
  bool widensStrip_ = false;
  Windows windows_;
  ChunkSize chunkSize_;
  bool asksForResults_ = false;  // whether tiles prefetch results of the next row tile, if those follow their own in y
  bool fillsLines_ = false;      // the same for results of a line of places that are written to one line of y
  bool outgrowsCache_ = false;   // whether y is larger than its share of the cache
  bool looksAhead_ = false;      // whether tiles prefetch weights
  bool looksAheadInX_ = false;   // whether tiles prefetch the next chunk of the same thread
  int64_t panelsOfResult_ = 0;
  int64_t panels_ = 0, splits_ = 1;  // panels of all results; panel ranges that are separate tasks
  bool isWorthComputing_ = false;    // x, in tasks of all columns
  std::vector<Target> targets_;      // by result
  int64_t panelsAtOnce_ = 1;
  std::vector<BlockOffset> blocks_, packedBlocks_;  // packed: for weights that are stored pass by pass
  std::vector<Pass> passes_;
  int64_t blockElements_ = 0;  // of each of blocks_
  size_t partialFloats_ = 0, packedFloats_ = 0, dotFloats_ = 0;
};

}  // namespace popart::cpu
