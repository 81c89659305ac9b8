// CollectiveOperator: how collectives over replicas combine values.
#pragma once

namespace popart {

// Numbers as in PopART; Local: not combined.
enum class CollectiveOperator { Add = 0, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, SquareAdd, Local, N };

}  // namespace popart
