// Convolutions with few channels in a group, and weight gradients of depthwise ones (their sums:
// conv_depthwise_gradient.hpp; forward and data gradient: conv_depthwise.hpp): vectors hold channels of several groups
// (lane_spread.hpp), so that every lane of a multiply-add has work. Used by the plans in conv.hpp when
// ConvShape::joinsGroups(); same contracts. The windows of a chunk of outputs are spread into a zero-padded strip for
// one panel of output channels, which tiles of AMode::kLaneRows and kLanePanel then read.
// Invariant: a sum over taps and channels is one ascending chain; a sum over pixels is made of chains over leaves that
// depend on the shape alone. Tasks and tiles never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/conv_depthwise_gradient.hpp"
#include "backends/cpu/kernels/conv_product.hpp"
#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/conv_weight_gradient.hpp"
#include "backends/cpu/kernels/conv_window.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/lane_spread.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {

// The form of the weights of a product: packed as in the forward pass, as the matrix (taps * Cin/g) x Cout, or with
// input and output channels exchanged. Rows of exchanged weights are ordered (tap from the last to the first, cout).
enum class GroupedWeights { kPacked, kExchanged };

class GroupedProduct {
 public:
  // `threads` only determines the sizes of tasks. shape.tapRows are rows of weights in the form `weights`.
  GroupedProduct(WindowProductShape shape, GroupedWeights weights, int threads);
  int tasks() const { return static_cast<int>(panels_ * ranges_); }
  // The number of multiply-adds, and the fraction of them that a task does.
  double products() const;
  double share(int task) const;
  size_t scratchFloats() const { return windows_.stripFloats() + lineFloats_ + exchangedFloats_; }
  // The epilogue's matrices have the layout of y; its strides are not used.
  void run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  void chooseChunks(int threads);
  void makeBlocks();
  void exchange(int64_t panel, const float *packed, float *weights) const noexcept;
  void runLine(int64_t panel, const float *view, const float *weights, int64_t pixels, ptrdiff_t at, float *y,
               const Epilogue &epilogue, float *sums) const noexcept;

  WindowProductShape shape_;
  GroupedWeights weights_;
  LaneSpread spread_;
  Windows windows_;
  ChunkSize chunkSize_;
  int64_t panels_ = 0, ranges_ = 0;  // a task is one panel and a range of chunks
  std::vector<BlockOffset> blocks_;  // each has k_ rows of the weights
  int64_t k_ = 0;
  size_t lineFloats_ = 0, exchangedFloats_ = 0;
};

class GroupedGradient {
 public:
  // `threads` only determines the sizes of tasks. With Reading::kStrip, depthwise convolutions also read from a strip,
  // with the same bits.
  GroupedGradient(const WindowGradientShape &shape, int threads, Windows::Reading reading = Windows::Reading::kInPlace);
  // The first round computes the leaves' sums for each panel. If there are several leaves, the second round adds them
  // in order.
  const Rounds &rounds() const { return rounds_; }
  size_t scratchFloats() const { return packedFloats_ + panelFloats_ * static_cast<size_t>(panelsAtOnce()); }
  size_t sharedFloats() const { return leaves_ == 1 ? 0 : panelFloats_ * static_cast<size_t>(leaves_ * panels_); }
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  // Neighbouring rows of the weight matrix (tap, channel).
  struct Tile {
    ptrdiff_t offset;  // from tap 0 of a window to the first row
    int64_t row;
    int rows;
  };
  void makeTiles();
  void addLeaf(int64_t panel, int64_t leaf, const float *x, const float *dy, float *sums,
               float *scratch) const noexcept;
  // The same for depthwise convolutions and panels [panel, end).
  void addPlaces(int64_t panel, int64_t end, int64_t leaf, const float *x, const float *dy, float *sums) const noexcept;
  int64_t panelsAtOnce() const { return ranges_ == 0 ? 0 : (panels_ + ranges_ - 1) / ranges_; }

  WindowGradientShape shape_;
  LaneSpread spread_;
  Windows windows_;
  ChunkSize chunkSize_;
  std::optional<DepthwiseTapSums> depthwise_;
  std::vector<Tile> tiles_;
  std::vector<BlockOffset> inPlaceBlocks_, packedBlocks_;  // one per line of a chunk
  int64_t panels_ = 0, ranges_ = 0, leaves_ = 1;           // ranges of panels
  Rounds rounds_;
  size_t panelFloats_ = 0, packedFloats_ = 0;  // gradient of a panel; strip of a chunk, and dy of its channels
};

}  // namespace popart::cpu
