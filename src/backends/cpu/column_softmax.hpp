// Softmax along an axis other than the last one, and its gradient.
#pragma once
#include <memory>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/kernels/rows.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// y from x, FLOAT tensors without empty dimensions. y may overwrite x.
std::unique_ptr<executable::Kernel> columnSoftmax(SoftmaxForm form, const AxisSizes &sizes, int threads);
// dx from dy and y, with the same conditions. dx may overwrite dy.
std::unique_ptr<executable::Kernel> columnSoftmaxGradient(SoftmaxForm form, const AxisSizes &sizes, int threads);

}  // namespace popart::cpu
