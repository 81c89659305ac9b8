// The attributes of Cast for values that a small type does not have.
#pragma once
#include <popart/attributes.hpp>

#include "base/small_types.hpp"

namespace popart::ops {

// Attributes saturate (absent: 1) and round_mode (absent: "up") of ONNX's Cast-25. Throws popart::error for another
// round_mode than up, down and nearest.
SmallRounding smallRounding(const Attributes &attributes);

}  // namespace popart::ops
