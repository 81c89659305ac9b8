// Normalisation in plain memory: LayerNormalization, GroupNormalization whose one group is all that an image has, and
// batch and group normalisation of rows of pixels.
#pragma once
#include <memory>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Over the dimensions of x from `axis` on. Inputs (x, scale[, bias]), outputs (y[, mean, r]), all plain; x and y of
// FLOAT or one type of 16 bits, the others of FLOAT or that type; null with the reason when the kernel does not take
// them.
std::unique_ptr<executable::Kernel> layerNormOver(const executable::KernelRequest &request, int64_t axis,
                                                  std::string &reason);
// Inputs (dy, x, scale[, mean, r]), outputs (dx[, dscale, dbias]); types likewise.
std::unique_ptr<executable::Kernel> layerNormGradientOver(const executable::KernelRequest &request, int64_t axis,
                                                          std::string &reason);

// Groups of `groupChannels` (at least 1) neighbouring channels of each image. Inputs (x, scale, bias), outputs (y[,
// mean, r]), all plain FLOAT.
std::unique_ptr<executable::Kernel> plainGroupNorm(const executable::KernelRequest &request, int64_t groupChannels);

// ONNX BatchNormalization, all operands plain FLOAT.
std::unique_ptr<executable::Kernel> plainBatchNorm(const executable::KernelRequest &request);

// Of batch normalisation (groupChannels 0), or of groups of so many neighbouring channels. Inputs (dy, x, scale, mean,
// r), outputs (dx[, dscale, dbias]), all plain FLOAT.
std::unique_ptr<executable::Kernel> plainNormGradient(const executable::KernelRequest &request, int64_t groupChannels);

}  // namespace popart::cpu
