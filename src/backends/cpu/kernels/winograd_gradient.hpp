// Weight gradient of a convolution of 3 x 3 windows with stride 1 by Winograd's algorithm (winograd_transforms.hpp),
// written through a parameter update.
//
//   V[i] = transformed inputs                  16 matrices, tiles x channels
//   Z[i] = transformed gradients of outputs    16 matrices, tiles x columns, in panels
//   N[i] = transposed V[i] Z[i]                sums over tiles
//   dw   = transformed N
//
// Invariant: every N is made of chains of multiply-adds in ascending order of tiles, one for each of `leaves` equal
// ranges of them, whose transformed sums are added in order. The number of leaves depends on the shape alone: tasks,
// blocks and chunks never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv_weight_gradient.hpp"
#include "backends/cpu/kernels/winograd_transforms.hpp"

namespace popart::cpu {

class WinogradGradient {
 public:
  static bool fits(const WindowGradientShape &shape);

  // `threads` only determines the sizes of tasks.
  WinogradGradient(const WindowGradientShape &shape, int threads);
  // Rounds: the leaves' sums; their total, if there are several leaves.
  const Rounds &rounds() const { return rounds_; }
  size_t scratchFloats() const { return zeroFloats() + inputFloats() + gradientFloats() + sumFloats() + tapFloats(); }
  size_t sharedFloats() const { return leaves_ == 1 ? 0 : static_cast<size_t>(leaves_ * weightFloats()); }
  // `packedWeights`: as for applyUpdate.
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  // The weights that a task computes.
  struct Part {
    int64_t group;
    Range channels, panels;
  };
  void chooseLeaves();
  void chooseTasks(int threads);
  Range channelsOf(int64_t block) const;
  PanelRanges panelRanges() const { return {panels_, splits_, panelsTogether_}; }
  int64_t mostChannels() const;  // of a block, in whole cache lines
  int64_t mostPanels() const { return panelRanges().longest(); }
  // Strides between the 16 matrices, in floats.
  int64_t inputPlane() const;
  int64_t gradientPlane() const;
  int64_t sumPlane() const;
  size_t zeroFloats() const;
  size_t inputFloats() const { return static_cast<size_t>(kWinogradMatrices * inputPlane()); }
  size_t gradientFloats() const { return static_cast<size_t>(kWinogradMatrices * gradientPlane()); }
  size_t sumFloats() const { return static_cast<size_t>(kWinogradMatrices * sumPlane()); }
  size_t tapFloats() const;      // of the transformed sums of a block and panel
  int64_t weightFloats() const;  // of the packed weights
  ptrdiff_t weightsAt(const Part &part, int64_t panel, int64_t tap) const;
  void addLeaf(int64_t task, const float *x, const float *dy, float *packedWeights, const Update &update,
               float *scratch, float *leaves) const noexcept;
  void multiply(const Part &part, int64_t tiles, bool isFirst, const float *v, const float *z, float *n) const noexcept;
  void writeSums(const Part &part, const float *n, float *packedWeights, const Update &update,
                 float *taps) const noexcept;
  void addUp(int64_t task, const float *leaves, float *packedWeights, const Update &update) const noexcept;

  WindowGradientShape shape_;
  WinogradTiles tiles_;
  int64_t panels_, panelsTogether_ = 1;           // of a group; multiplied by the same rows of V
  int64_t leaves_ = 1, blocks_ = 1, splits_ = 1;  // ranges of tiles, of channels, of panels
  Rounds rounds_;
};

}  // namespace popart::cpu
