// Convolutions of 3 x 3 windows with stride 1 by Winograd's algorithm (winograd_transforms.hpp): forward passes and,
// with transposed weights, data gradients. A tile of 2 x 2 outputs takes 16 multiplications per pair of channels
// instead of 36.
//
//   V[i] = transformed inputs     16 matrices, tiles x channels
//   U[i] = transformed weights    16 matrices, channels x columns, in panels
//   M[i] = V[i] U[i]
//   y    = transformed M, epilogue
//
// Sums are float32, and their chains have a ninth of the length of direct ones: on numbers of similar size the error
// is smaller. But an output depends on all 16 inputs of its tile: its error grows with the largest of them, and an
// infinity or NaN reaches the four outputs of the tile.
// Invariant: every M is one chain of multiply-adds in ascending order of channels; the split into tasks, chunks and
// blocks never changes a bit.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/kernels/conv_product.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/winograd_transforms.hpp"

namespace popart::cpu {

class WinogradProduct {
 public:
  // Whether the algorithm computes the product, and its fewer multiplications outweigh its transforms. Depends on the
  // shape of one image alone, so that results depend neither on the machine nor on the number of images.
  static bool fits(const WindowProductShape &shape, DataType type);

  // `threads` only determines the sizes of tasks.
  WinogradProduct(WindowProductShape shape, int threads);
  int tasks() const { return static_cast<int>(shape_.groups * chunks_ * splits_); }
  // The number of multiply-adds of the definition, and the fraction of the work that a task does.
  double products() const;
  double share(int task) const;
  // Whether weights are transformed in two halves, which need half of the memory.
  bool halvesWeights() const { return weightParts_.size() > 1; }
  size_t scratchFloats() const { return zeroFloats() + inputFloats() + weightFloats() + sumFloats(); }
  // x (images, in, channels of all groups), y, the weights and the epilogue as for WindowProduct::run.
  void run(int task, const float *x, const float *weights, float *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  Range tilesOf(int64_t chunk) const {
    return {tiles_.count() * chunk / chunks_, tiles_.count() * (chunk + 1) / chunks_};
  }
  PanelRanges panelRanges() const { return {panels_, splits_, panelsTogether_}; }
  // Strides of V, U and M, in floats: between tiles, and between the 16 matrices.
  int64_t inputStride() const;
  int64_t inputPlane() const;
  int64_t weightPlane() const;
  int64_t sumStride() const;
  int64_t sumPlane() const;
  bool keepsSums() const { return channelsAtOnce_ < shape_.window.channels; }
  size_t zeroFloats() const { return static_cast<size_t>((channelsAtOnce_ + 15) / 16 * 16); }
  size_t inputFloats() const { return static_cast<size_t>(kWinogradMatrices * inputPlane()); }
  size_t weightFloats() const { return static_cast<size_t>(matricesOf(weightParts_.front()) * weightPlane()); }
  size_t sumFloats() const { return static_cast<size_t>(kWinogradMatrices * sumPlane()); }
  void chooseChunks(int threads);
  void chooseWeightParts();
  // Weights of a group, as ranges for prefetches.
  AheadRanges rangesOf(const Range &panels, const Range &channels, const float *weights) const noexcept;
  // The steps of a task: write V, write U, write M, read M.
  void writeInputs(const Range &tiles, const Range &channels, const float *x, const float *zeros,
                   float *v) const noexcept;
  void writeWeights(WinogradPart part, const Range &panels, const Range &channels, const float *weights,
                    float *u) const noexcept;
  void multiply(WinogradPart part, const Range &tiles, const Range &panels, const Range &channels, const float *v,
                const float *u, float *m, const AheadRanges &nextWeights) const noexcept;
  void finish(const Range &tiles, const Range &panels, int64_t group, const float *m, float *y,
              const Epilogue &epilogue) const noexcept;

  WindowProductShape shape_;
  WinogradTiles tiles_;
  int64_t panels_, panelsTogether_ = 1;        // of a group; multiplied by the same rows of V
  bool keepsWeights_ = false;                  // whether a task transforms its weights once, for all of its tiles
  std::span<const WinogradPart> weightParts_;  // the matrices that U has at a time
  int64_t channelsAtOnce_ = 1, tilesAtOnce_ = 1;
  int64_t chunks_ = 1, splits_ = 1;  // ranges of tiles, ranges of panels
};

}  // namespace popart::cpu
