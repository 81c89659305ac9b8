// CollectiveOperator: how collectives over replicas join values.
#pragma once

namespace popart {

// Numbers as in PopART; Local: no join.
enum class CollectiveOperator { Add = 0, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, SquareAdd, Local, N };

}  // namespace popart
