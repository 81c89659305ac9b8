// Plans of depthwise convolutions: forward, data gradient and weight gradient over pixels, taps and channel panels.
// Used by the plans in conv.hpp when ConvShape::isDepthwise(); same contracts. Invariant: see depthwise.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {

// Which of the two pixel grids is written: kForward y from x, kBackward dx from dy.
enum class DepthwiseDirection { kForward, kBackward };

class DepthwisePixels {
 public:
  DepthwisePixels(const ConvShape &shape, DepthwiseDirection direction, int threads);
  int tasks() const { return tasks_; }
  double share(int) const { return 1.0 / tasks_; }
  size_t scratchFloats() const { return scratchFloats_; }
  void run(int task, const float *source, const float *packedWeights, float *target, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  ConvShape shape_;
  DepthwiseDirection direction_;
  Spatial target_;
  int64_t rows_ = 0;  // target rows: images * depth * height
  int tasks_ = 0;
  size_t scratchFloats_ = 0;  // one target row, then the term list of a pixel
};

class DepthwiseWeights {
 public:
  explicit DepthwiseWeights(const ConvShape &shape);
  // The sums of each channel panel over each of `leaves` ranges of the pixels, then their totals in that order. The
  // number of leaves depends on the shape alone.
  const Rounds &rounds() const { return rounds_; }
  size_t scratchFloats() const { return panelFloats_; }
  size_t sharedFloats() const { return leaves_ == 1 ? 0 : panelFloats_ * static_cast<size_t>(leaves_ * panels_); }
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  void addPixels(int64_t panel, int64_t begin, int64_t end, const float *x, const float *dy,
                 float *sums) const noexcept;

  ConvShape shape_;
  int64_t panels_ = 0, leaves_ = 1, pixels_ = 0;
  Rounds rounds_;
  size_t panelFloats_ = 0;  // gradient of a panel
};

}  // namespace popart::cpu
