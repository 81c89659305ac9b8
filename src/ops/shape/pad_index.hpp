// The input element for each position of a padded axis.
#pragma once
#include <array>
#include <string>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/datatype.hpp>
#include <popart/names.hpp>

namespace popart::ops {

// Pads before and after each axis of a tensor of `rank` axes, from attributes pads and (optional) axes: 2 x rank
// numbers. Throws popart::error for lists of wrong length.
std::vector<int64_t> fullPads(const Attributes &attributes, int64_t rank);
// Input position for each of the size + before + after output positions of one axis; -1 for the fill value (mode
// constant). Modes reflect, edge, wrap as in ONNX Pad-19; negative pads cut. `size` must be > 0 unless the result is
// empty or the mode is constant.
std::vector<int64_t> padIndices(const std::string &mode, int64_t size, int64_t before, int64_t after);

// The fill value as the bytes of an element of `type`: floats rounded, integers truncated toward zero, complex numbers
// without an imaginary part.
std::array<char, 16> padFill(DataType type, float value);

}  // namespace popart::ops
