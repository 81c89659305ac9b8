// The pipeline stage of every op of a loop's body, those without one of their own too.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// By slot of the op in the body. Stages never fall along data and constraints, which may put an op later than it asks
// for. All that reads or writes memory which the body changes and keeps from one iteration to the next (accumulators,
// statistics, remote variables, carried values) is in one stage, so that it happens in the order of the iterations; the
// last value written may be read later. Ops without a stage that depend on no op with one run as late as their readers
// let them, others as early as they can. Extra-linear only where stages must be raised repeatedly.
std::vector<int64_t> stagesOfBody(const Op &loop);

}  // namespace popart::transforms
