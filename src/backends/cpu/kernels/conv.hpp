// Convolutions over channels-last activations (N, D, H, W, C), forward and both gradients. 1-D and 2-D convolutions set
// the leading dimensions to one. Activations and weights are of ConvShape::type; sums are float32, and BFLOAT16 is
// multiplied two at a time where the processor does that.
//
// Weights are packed per group as the matrix (taps * Cin/g) x (Cout/g), rows ordered (kd, kh, kw, cin), see pack.hpp;
// the weight gradient and optimizer state share that layout. The data gradient reads transposed weights: channels
// swapped, taps reversed, per group the matrix (taps * Cout/g) x (Cin/g). Where ConvShape::joinsGroups(), as of
// depthwise convolutions, there is one layout for all: the matrix (taps * Cin/g) x Cout of all groups.
// Invariant: every sum has a fixed order given by the shape, whatever the tasks and threads.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "backends/cpu/kernels/conv_depthwise.hpp"
#include "backends/cpu/kernels/conv_grouped.hpp"
#include "backends/cpu/kernels/conv_product.hpp"
#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/conv_weight_gradient.hpp"
#include "backends/cpu/kernels/conv_winograd.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/kernels/winograd_gradient.hpp"

namespace popart::cpu {

// Converts packed weights to transposed ones; not used if groups are joined. Tasks write disjoint parts.
class ConvWeightTranspose {
 public:
  explicit ConvWeightTranspose(const ConvShape &shape);
  int tasks() const { return static_cast<int>(shape_.groups * panels_ * shape_.taps()); }
  int64_t transposedFloats() const { return shape_.groups * panels_ * rows_ * width_; }
  void run(int task, const void *packedWeights, void *transposed) const noexcept;

 private:
  template <class T>
  void runAs(int task, const T *packedWeights, T *transposed) const noexcept;
  ConvShape shape_;
  int64_t width_, panels_, rows_;  // of the transposed matrix of a group
};

// Matmul: kernels with one tap that read every pixel.
using ForwardPlan = std::variant<DepthwiseProduct, GroupedProduct, Matmul, WindowProduct, WinogradProduct>;
// Vectors have one product per phase.
using DataGradientPlan = std::variant<std::vector<DepthwiseProduct>, std::vector<GroupedProduct>, Matmul,
                                      std::vector<WindowProduct>, WinogradProduct>;

// y (N, *out, Cout) = epilogue(conv(x, weights)); the epilogue's bias is (Cout), its matrices have the layout of y.
class ConvForward {
 public:
  ConvForward(const ConvShape &shape, int threads);
  int tasks() const;
  // The fraction of all work that a task does.
  double share(int task) const;
  size_t scratchFloats() const;
  // `rows`: computes the rows of x; the argument x is then its first operand. Only if takesRows().
  void run(int task, const void *x, const void *packedWeights, void *y, const Epilogue &epilogue, float *scratch,
           RowProgram *rows = nullptr) const noexcept;
  // Whether every pixel is read once, as the row of a product, or few of them are read twice.
  bool takesRows() const;
  bool usesWinograd() const { return std::holds_alternative<WinogradProduct>(plan_); }
  // DepthwiseProduct::takeWholeImages; false for all other plans.
  bool takeWholeImages(int threads);
  ImageChannels channelsOf(int task) const noexcept { return std::get_if<DepthwiseProduct>(&plan_)->channelsOf(task); }

 private:
  ConvShape shape_;
  ForwardPlan plan_;
};

// dx (N, *in, Cin) = epilogue(data gradient of conv at dy (N, *out, Cout)); also the forward pass of a transposed
// convolution. Pixels are split into the phases of the stride, so that no inserted zero is multiplied. Weights are
// transposed, or packed if groups are joined.
class ConvDataGradient {
 public:
  ConvDataGradient(const ConvShape &shape, int threads);
  int tasks() const;
  // The fraction of all work that a task does.
  double share(int task) const;
  size_t scratchFloats() const;
  void run(int task, const void *dy, const void *transposedWeights, void *dx, const Epilogue &epilogue,
           float *scratch) const noexcept;
  bool usesWinograd() const { return std::holds_alternative<WinogradProduct>(plan_); }

 private:
  ConvShape shape_;
  DataGradientPlan plan_;
};

using WeightGradientPlan = std::variant<GroupedGradient, WindowGradient, WinogradGradient>;

// packed weights = update(packed weights, weight gradient of conv); Update::kStore writes the gradient itself. Sums run
// over pixels.
class ConvWeightGradient {
 public:
  ConvWeightGradient(const ConvShape &shape, int threads);
  // Tasks are divided into rounds. `shared`: sharedFloats() floats that all tasks use, at an address aligned to 64
  // bytes.
  const Rounds &rounds() const;
  int tasks() const { return rounds().tasks(); }
  size_t scratchFloats() const;
  size_t sharedFloats() const;
  bool usesWinograd() const { return std::holds_alternative<WinogradGradient>(plan_); }
  // `packedWeights`: as for applyUpdate. For 16-bit parameters, the update says where they are.
  void run(int task, const void *x, const void *dy, float *packedWeights, const Update &update, float *scratch,
           float *shared) const noexcept;

 private:
  WeightGradientPlan plan_;
};

}  // namespace popart::cpu
