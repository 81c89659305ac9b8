// The results that batch normalisation in training computes from the mean and variance of a channel: the scale of the
// channel, and the op's other results (ONNX BatchNormalization-15).
#pragma once
#include <cmath>

#include <popart/op.hpp>

#include "backends/cpu/kernels/halves.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

class BatchStatistics {
 public:
  // setSize: number of elements of one channel. Types are those of the op's operands: FLOAT or a 16-bit type.
  BatchStatistics(const Op &op, size_t outputs, double setSize)
      : epsilon_(op.attrFloat("epsilon")),
        momentum_(op.attrFloat("momentum")),
        correction_(op.attrInt("unbiased_variance") != 0 && setSize > 1 ? setSize / (setSize - 1) : 1.0),
        outputs_(outputs),
        types_{op.inInfo(0).dataType(), op.inInfo(1).dataType(), op.inInfo(2).dataType(), op.inInfo(3).dataType(),
               op.inInfo(4).dataType()} {}

  // The activations, and running statistics in place: only write() reads them.
  static bool canOverwrite(int input, int output) {
    return (input == 0 && output == 0) || (input == 3 && output == 1) || (input == 4 && output == 2);
  }
  float scale(const executable::KernelArgs &args, int64_t channel, double variance) const noexcept {
    return static_cast<float>(inverseDeviation(variance) * numberAt(args.in[1], channel, types_[1]));
  }
  float shift(const executable::KernelArgs &args, int64_t channel) const noexcept {
    return numberAt(args.in[2], channel, types_[2]);
  }
  void write(const executable::KernelArgs &args, int64_t channel, double mean, double variance) const noexcept {
    const auto set = [&](size_t output, DataType type, double value) {
      if (output < outputs_ && args.out[output])
        setNumberAt(args.out[output], channel, type, static_cast<float>(value));
    };
    const auto running = [&](int input, double value) {
      return momentum_ * numberAt(args.in[input], channel, types_[input]) + (1 - momentum_) * value;
    };
    set(1, types_[3], running(3, mean));
    set(2, types_[4], running(4, variance * correction_));
    set(3, types_[0], mean);
    set(4, types_[0], inverseDeviation(variance));
  }

 private:
  double inverseDeviation(double variance) const noexcept { return 1.0 / std::sqrt(variance + epsilon_); }

  double epsilon_, momentum_, correction_;
  size_t outputs_;
  DataType types_[5];  // of x, scale, bias, mean, variance
};

}  // namespace popart::cpu
