// Softmax along an axis that is not the last, and its gradient.
#pragma once
#include <memory>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/kernels/rows.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// y of x, FLOAT tensors without empty dimensions. y may overwrite x.
std::unique_ptr<executable::Kernel> columnSoftmax(SoftmaxForm form, const AxisSizes &sizes, int threads);
// dx of dy and y, the same. dx may overwrite dy.
std::unique_ptr<executable::Kernel> columnSoftmaxGradient(SoftmaxForm form, const AxisSizes &sizes, int threads);

}  // namespace popart::cpu
