// The pipeline stage of every op of a loop's body, including ops without a stage of their own.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// The stages, by slot of the op in the body. Stages never decrease along data and constraints, which may put an op into
// a later stage than it requests. All ops that access memory which the body changes and keeps between iterations
// (accumulators, statistics, remote variables, carried values) are in one stage, so that they run in the order of the
// iterations; the last value written may be read later. Ops without a stage that depend on no op with one run as late
// as their readers allow, others as early as possible. Takes more than linear time only if stages are raised
// repeatedly.
std::vector<int64_t> stagesOfBody(const Op &loop);

}  // namespace popart::transforms
