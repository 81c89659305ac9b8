// Float32 convolutions over channels-last activations (N, D, H, W, C), forward and both gradients, as matrix products
// over patches that are gathered tile by tile and never stored whole. 1-D and 2-D convolutions set the leading
// dimensions to one.
//
// Weights are packed per group as the matrix (taps * Cin/g) x (Cout/g), rows ordered (kd, kh, kw, cin), see pack.hpp;
// the weight gradient and optimizer state share that layout. Depthwise convolutions (Cin/g = Cout/g = 1) have their own
// layout. Invariant: every sum runs in a fixed order given by the shape; tasks and threads never change a bit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/conv_depthwise.hpp"
#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/gemm.hpp"

namespace popart::cpu {

// Floats of the packed weights, and conversion from and to ONNX order (Cout, Cin/g, kd, kh, kw).
int64_t convWeightSize(const ConvShape &shape) noexcept;
void packConvWeights(const ConvShape &shape, const float *weights, float *packed) noexcept;
void unpackConvWeights(const ConvShape &shape, const float *packed, float *weights) noexcept;

// The input pixels that share a remainder modulo the stride, and the kernel taps that reach them.
struct ConvPhase {
  Spatial first;                               // input position of the phase's first pixel
  Spatial count;                               // pixels per dimension
  std::array<std::vector<int64_t>, 3> taps;    // kernel positions that reach this phase
  std::array<std::vector<int64_t>, 3> shifts;  // per tap: pixel index + shift = output position it reads
};

// y (N, *out, Cout) = epilogue(conv(x, weights)); the epilogue's bias is (Cout), its matrices have the layout of y.
class ConvForward {
 public:
  ConvForward(const ConvShape &shape, int threads);
  int tasks() const { return depthwise_ ? depthwise_->tasks() : matmul_.tasks(); }
  size_t scratchFloats() const { return depthwise_ ? depthwise_->scratchFloats() : matmul_.scratchFloats(); }
  void run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  ConvShape shape_;
  std::optional<DepthwisePixels> depthwise_;
  bool pointwise_;  // one tap, stride one, no padding: a plain product over pixels
  Matmul matmul_;
};

// dx (N, *in, Cin) = epilogue(data gradient of conv at dy (N, *out, Cout)); also the forward pass of a transposed
// convolution. Pixels are split into the phases of the stride, so that no multiplication with an inserted zero is made.
class ConvDataGradient {
 public:
  ConvDataGradient(const ConvShape &shape, int threads);
  int tasks() const { return tasks_; }
  size_t scratchFloats() const { return scratchFloats_; }
  void run(int task, const float *dy, const float *packedWeights, float *dx, const Epilogue &epilogue,
           float *scratch) const noexcept;

 private:
  struct Part {
    ConvPhase phase;
    Matmul matmul;
  };
  ConvShape shape_;
  std::optional<DepthwisePixels> depthwise_;
  std::vector<Part> parts_;
  int tasks_ = 0;
  size_t scratchFloats_ = 0;
};

// packed weights = update(packed weights, weight gradient of conv); Update::kStore writes the gradient itself. Sums
// over pixels.
class ConvWeightGradient {
 public:
  ConvWeightGradient(const ConvShape &shape, int threads);
  int tasks() const { return depthwise_ ? depthwise_->tasks() : matmul_.tasks(); }
  size_t scratchFloats() const { return depthwise_ ? depthwise_->scratchFloats() : matmul_.scratchFloats(); }
  void run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
           float *scratch) const noexcept;

 private:
  ConvShape shape_;
  std::optional<DepthwiseWeights> depthwise_;
  Matmul matmul_;
};

}  // namespace popart::cpu
