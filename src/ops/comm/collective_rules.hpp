// Checks that the rows of collectives over replicas share.
#pragma once
#include <popart/opdef.hpp>

namespace popart::ops {

// Fails unless attribute "group_size" is a number of replicas.
void requireGroup(const InferContext &c);
// Fails unless attribute "op" names a collective operator and "group_size" is a number of replicas.
void requireCollective(const InferContext &c);

}  // namespace popart::ops
