// Weight gradient of a convolution as sums over output places, written through a parameter update.
//
// dw[tap, channel, column] = sum over places of x[window of place at tap, channel] * dy[place, column]. Tiles span
// neighbouring weight rows, which lie together in the image, and walk the places of a line as their inner dimension.
// Invariant: each sum is one chain over the places in ascending order; chunks, tasks and tiles never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_window.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

struct WindowGradientShape {
  WindowShape window;  // of x; output places are those of dy
  int64_t groups = 1;
  int64_t columns = 1;  // channels of dy in one group
};

class WindowGradient {
 public:
  // `threads` only sizes the tasks.
  WindowGradient(const WindowGradientShape &shape, int threads);
  int tasks() const { return static_cast<int>(shape_.groups * tileSplits_ * panelSplits_); }
  size_t scratchFloats() const { return partialFloats_ + packedFloats_ + windows_.stripFloats(); }
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
           float *scratch) const noexcept;

 private:
  // Neighbouring rows of the weight matrix (tap, channel).
  struct Tile {
    ptrdiff_t offset;  // of the first row from tap 0 of a window
    int64_t row;
    int rows;
  };
  struct Share;  // what one task does
  void makeTiles();
  void chooseTasks(int threads);
  const float *gradientRows(const WindowChunk &chunk, int64_t panel, const float *dy, int64_t width, float *packed,
                            bool &inPlace) const noexcept;
  void addChunk(const Share &share, const WindowChunk &chunk, const float *view, const float *dy, bool firstChunk,
                float *partials, float *packed) const noexcept;

  WindowGradientShape shape_;
  Windows windows_;
  ChunkSize chunkSize_;
  std::vector<Tile> tiles_;
  int64_t panels_ = 0, tileSplits_ = 1, panelSplits_ = 1;
  std::vector<BlockOffset> inPlaceBlocks_, packedBlocks_;  // one per line of a chunk
  size_t partialFloats_ = 0, packedFloats_ = 0;
};

}  // namespace popart::cpu
