// ScatterReduction: how the ScatterReduce operator joins values that meet at one index.
#pragma once

namespace popart {

// None: the last value written stays.
enum class ScatterReduction { Sum = 0, Max, Min, Mul, None };

}  // namespace popart
