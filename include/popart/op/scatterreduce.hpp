// ScatterReduction: how the ScatterReduce operator combines values with the same index.
#pragma once

namespace popart {

// None: the value written last.
enum class ScatterReduction { Sum = 0, Max, Min, Mul, None };

}  // namespace popart
