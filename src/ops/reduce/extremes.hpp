// Which reductions compute the extremes of a tensor.
#pragma once

namespace popart {
class Op;
}

namespace popart::ops {

enum class Extreme { None, Least, Greatest };

// What the op computes along its axes: the smallest elements (ReduceMin), the largest (ReduceMax), or neither.
Extreme extremeOf(const Op &op);

}  // namespace popart::ops
