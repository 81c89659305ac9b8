// ScatterReduction: how the ScatterReduce operator joins values that meet at one index.
#pragma once

namespace popart {

enum class ScatterReduction { Sum = 0, Max, Min, Mul, None };

}  // namespace popart
