// Weight gradient of a convolution as sums over output pixels (places), written through a parameter update.
//
// dw[tap, channel, column] = sum over places of x[window of place at tap, channel] * dy[place, column]. Tiles span
// neighbouring weight rows, which are contiguous in the image, with the places of a line as their inner dimension.
// Images of 16 bits are copied first, and dy while it is packed: where the processor multiplies pairs of BFLOAT16,
// those of two images take the place of one image of floats; else as floats. Invariant: each sum is made of chains over
// the places in ascending order, one for each of `leaves` equal ranges of them, reduced in order. The number of leaves
// depends on the shape alone: tasks and tiles never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_window.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {

struct WindowGradientShape {
  WindowShape window;  // of x; output places are pixels of dy
  int64_t groups = 1;
  int64_t columns = 1;              // channels of dy per group
  DataType type = DataType::FLOAT;  // of x and dy
};

class WindowGradient {
 public:
  // `threads` only determines the sizes of tasks.
  WindowGradient(const WindowGradientShape &shape, int threads);
  // Rounds: copies of padded images, if windows leave the images; the leaves' sums; their total, if there are several
  // leaves.
  const Rounds &rounds() const { return rounds_; }
  size_t scratchFloats() const { return partialFloats_ + packedFloats_; }
  size_t sharedFloats() const { return imageFloats_ + leafFloats_; }
  // `packedWeights`: as for applyUpdate.
  void run(int task, const void *x, const void *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  // Neighbouring rows of the weight matrix (tap, channel).
  struct Tile {
    ptrdiff_t offset;  // from tap 0 of a window to the first row
    int64_t row;
    int rows;
  };
  struct Share;  // the work of one task
  enum class Round : uint8_t { kPad, kLeaves, kTotal };
  void makeTiles();
  void chooseLeaves();
  void chooseTasks(int threads);
  void planRounds();
  void copyImages(const void *x, int64_t begin, int64_t end, float *copy) const noexcept;
  void packGradient(const WindowChunk &chunk, int64_t panel, int64_t group, const uint16_t *dy,
                    float *packed) const noexcept;
  void addLeaf(int64_t task, const float *image, const void *dy, float *packedWeights, const Update &update,
               float *scratch, float *leaves) const noexcept;
  void addUp(int64_t task, const float *leaves, float *packedWeights, const Update &update, float *sums) const noexcept;
  void writeBlock(int64_t group, size_t tile, int64_t panel, const float *sums, ptrdiff_t stride, float *packedWeights,
                  const Update &update) const noexcept;
  const float *gradientRows(const WindowChunk &chunk, int64_t panel, int64_t panels, const float *dy, int64_t width,
                            float *packed, bool &inPlace) const noexcept;
  void addChunk(const Share &share, const WindowChunk &chunk, const float *view, const void *dy, bool isFirst,
                float *packed) const noexcept;
  void writeSums(const Share &share, float *packedWeights, const Update &update) const noexcept;
  float *weightsAt(int64_t group, size_t tile, int64_t panel, float *packedWeights) const noexcept;
  PanelRanges panelRanges() const noexcept { return {panels_, panelSplits_, panelsTogether_}; }
  int64_t packedPanelFloats() const noexcept { return chunkSize_.places() * kernels_->panelWidth; }
  bool hasPairs() const noexcept { return kernels_ != &microKernels(); }

  WindowGradientShape shape_;  // its images are those of the kernels: of numbers, or of pairs of numbers
  int64_t images_ = 0;         // images of numbers
  const MicroKernels *kernels_ = nullptr;
  bool isPadded_ = false;
  PaddedImages padded_;
  WindowShape window_;  // over the images, or their padded copies
  Windows windows_;
  ChunkSize chunkSize_;
  std::vector<Tile> tiles_;
  int64_t runs_ = 0, runRows_ = 0;  // runs of neighbouring rows of the weight matrix; rows per run
  int64_t panelsTogether_ = 1;      // per call of a kernel
  int64_t panelsAtOnce_ = 1;        // whose partial sums stay in the second level cache
  int64_t panels_ = 0, leaves_ = 1, tileSplits_ = 1, panelSplits_ = 1;
  Rounds rounds_;
  std::vector<Round> kinds_;                               // by round
  std::vector<BlockOffset> inPlaceBlocks_, packedBlocks_;  // one per line of a chunk
  size_t partialFloats_ = 0, packedFloats_ = 0, imageFloats_ = 0, leafFloats_ = 0;
};

}  // namespace popart::cpu
