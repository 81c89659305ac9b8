// Plans of depthwise convolutions: forward, data gradient and weight gradient over pixels, taps and channel panels.
// Used by the plans in conv.hpp when ConvShape::isDepthwise(); same contracts. Invariant: see depthwise.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

// Which of the two pixel grids is written: kForward y from x, kBackward dx from dy.
enum class DepthwiseDirection { kForward, kBackward };

class DepthwisePixels {
 public:
  DepthwisePixels(const ConvShape &shape, DepthwiseDirection direction, int threads);
  int tasks() const { return tasks_; }
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
  int tasks() const { return tasks_; }
  size_t scratchFloats() const { return scratchFloats_; }
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
           float *scratch) const noexcept;

 private:
  ConvShape shape_;
  int tasks_ = 0;             // one per channel panel
  size_t scratchFloats_ = 0;  // gradient of a panel
};

}  // namespace popart::cpu
