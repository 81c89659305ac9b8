// Which reductions find the extremes of a tensor.
#pragma once

namespace popart {
class Op;
}

namespace popart::ops {

enum class Extreme { None, Least, Greatest };

// What the op finds along its axes: the least elements (ReduceMin), the greatest (ReduceMax), or neither.
Extreme extremeOf(const Op &op);

}  // namespace popart::ops
