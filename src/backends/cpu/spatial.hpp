// Shared by the kernels over channels-last activations: a tensor's dimensions and checks of its layout.
#pragma once
#include <string>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// A tensor (N, C, spatial…) in the form that kernels use: rows of C floats, one per pixel of an image.
struct ChannelRows {
  int64_t n = 1, channels = 1, places = 1;
  int64_t rows() const { return n * places; }
};
ChannelRows channelRows(const Shape &shape);

// True when the operand's memory is channels last (plain memory is, with singleton channels or spatial dimensions).
bool isChannelsLast(const executable::OperandDesc &operand);
// True if it is channels last and of this type; otherwise sets the reason.
bool requireChannelsLast(const executable::OperandDesc &operand, std::string &reason, DataType type = DataType::FLOAT);
// Elements from one pixel to the next in memory that is channels last, or a slice of it; 0 if it is neither.
int64_t pixelStride(const executable::OperandDesc &operand);
// The same for a slice; 0 if it is none.
int64_t strideOfSlice(const executable::OperandDesc &operand);
// Whether the operand is a slice of this type, or satisfies requireChannelsLast(); otherwise sets the reason.
bool requirePixels(const executable::OperandDesc &operand, std::string &reason, DataType type = DataType::FLOAT);
// Whether the operand is plain and of this type (or absent); otherwise sets the reason.
bool requirePlain(const executable::OperandDesc &operand, DataType type, std::string &reason);
bool requirePlainFloats(const executable::OperandDesc &operand, std::string &reason);

// Spatial sizes of `shape` right-aligned in three dimensions, with leading ones. Rank 2 to 5.
Spatial spatialOf(const Shape &shape);

}  // namespace popart::cpu
