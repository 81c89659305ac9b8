// What batch normalisation in training makes of the mean and variance of a channel: its scale, and its other results
// (ONNX BatchNormalization-15).
#pragma once
#include <cmath>

#include <popart/op.hpp>

#include "backends/cpu/kernels/halves.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

class BatchStatistics {
 public:
  // setSize: elements of one channel; type: FLOAT or one of 16 bits, of all that is read and written.
  BatchStatistics(const Op &op, size_t outputs, double setSize, DataType type)
      : epsilon_(op.attrFloat("epsilon")),
        momentum_(op.attrFloat("momentum")),
        correction_(op.attrInt("unbiased_variance") != 0 && setSize > 1 ? setSize / (setSize - 1) : 1.0),
        outputs_(outputs),
        type_(type) {}

  // The activations, and running statistics where they are: only write() reads them.
  static bool canOverwrite(int input, int output) {
    return (input == 0 && output == 0) || (input == 3 && output == 1) || (input == 4 && output == 2);
  }
  float scale(const executable::KernelArgs &args, int64_t channel, double variance) const noexcept {
    return static_cast<float>(inverseDeviation(variance) * numberAt(args.in[1], channel, type_));
  }
  void write(const executable::KernelArgs &args, int64_t channel, double mean, double variance) const noexcept {
    const auto set = [&](size_t output, double value) {
      if (output < outputs_ && args.out[output])
        setNumberAt(args.out[output], channel, type_, static_cast<float>(value));
    };
    const auto running = [&](int input, double value) {
      return momentum_ * numberAt(args.in[input], channel, type_) + (1 - momentum_) * value;
    };
    set(1, running(3, mean));
    set(2, running(4, variance * correction_));
    set(3, mean);
    set(4, inverseDeviation(variance));
  }

 private:
  double inverseDeviation(double variance) const noexcept { return 1.0 / std::sqrt(variance + epsilon_); }

  double epsilon_, momentum_, correction_;
  size_t outputs_;
  DataType type_;
};

}  // namespace popart::cpu
