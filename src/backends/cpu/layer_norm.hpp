// Normalisation in plain memory: LayerNormalization, GroupNormalization with one group for all channels of an image,
// and batch and group normalisation of rows of pixels.
#pragma once
#include <memory>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Normalises over the dimensions of x from `axis` on. Inputs (x, scale[, bias]), outputs (y[, mean, r]), all plain; x
// and y of FLOAT or one 16-bit type, the others of FLOAT or that type. Null with the reason if the kernel does not
// support them.
std::unique_ptr<executable::Kernel> layerNormOver(const executable::KernelRequest &request, int64_t axis,
                                                  std::string &reason);
// Inputs (dy, x, scale[, mean, r]), outputs (dx[, dscale, dbias]); the same types.
std::unique_ptr<executable::Kernel> layerNormGradientOver(const executable::KernelRequest &request, int64_t axis,
                                                          std::string &reason);

// Groups of `groupChannels` (at least 1) neighbouring channels of each image. Inputs (x, scale, bias), outputs (y[,
// mean, r]), all plain FLOAT.
std::unique_ptr<executable::Kernel> plainGroupNorm(const executable::KernelRequest &request, int64_t groupChannels);

// ONNX BatchNormalization, all operands plain FLOAT.
std::unique_ptr<executable::Kernel> plainBatchNorm(const executable::KernelRequest &request);

// The gradient of batch normalisation (groupChannels 0), or of groups of `groupChannels` neighbouring channels. Inputs
// (dy, x, scale, mean, r), outputs (dx[, dscale, dbias]), all plain FLOAT.
std::unique_ptr<executable::Kernel> plainNormGradient(const executable::KernelRequest &request, int64_t groupChannels);

}  // namespace popart::cpu
