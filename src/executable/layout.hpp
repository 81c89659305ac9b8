// Layout: how a tensor's elements lie in device memory, its name in IR text (Tensor::layout), and the conversions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <popart/tensorinfo.hpp>

namespace popart::executable {

// Plain: C order. ChannelsLast: (N, spatial…, C) for a logical (N, C, spatial…).
// Packed: a logical matrix [rows, columns] (or its transpose) as panels [ceil(columns/panel)][rows][panel], zero
// padded.
struct Layout {
  enum class Kind : uint8_t { Plain, ChannelsLast, Packed, PackedConv };
  Kind kind = Kind::Plain;
  int32_t panel = 0;  // Packed, PackedConv: columns per panel
  // Packed: the stored matrix is the transpose of the logical one. PackedConv: panels of input channels, see
  // layout.cpp.
  bool transposed = false;
  int32_t groups = 1;  // PackedConv
  bool operator==(const Layout &) const = default;
  // "plain", "channels_last", "packed16", "packed_t16", "packed_conv16g1", "packed_conv_t16g1".
  std::string str() const;
  // What str() wrote; "" is plain. Throws popart::error for another text.
  static Layout parse(std::string_view name);
};
// Bytes a tensor of this info takes in this layout (padding included). Throws popart::error for a shape that the layout
// does not describe.
int64_t storageBytes(const TensorInfo &info, const Layout &layout);

// Converts between the plain layout (`info`) and `layout`; both buffers have the right sizes. Bit exact.
void pack(const TensorInfo &info, const Layout &layout, const void *plain, void *stored);
void unpack(const TensorInfo &info, const Layout &layout, const void *stored, void *plain);

}  // namespace popart::executable
