// See fused_ops.hpp.
#include "lower/fused_ops.hpp"

#include <popart/graph.hpp>

#include "ir/layer_names.hpp"

namespace popart::lower {

std::vector<std::string> fusedOps(const Op &op) {
  std::vector<std::string> fused;
  if (!op.has(Trait::Internal)) return fused;
  if (!op.is(Role::FusedElementwise)) fused.push_back(stepTitle(op.opType(), op.name()));
  for (const Graph *body : op.getCalledGraphs())
    for (const Op *inner : body->ops()) fused.push_back(stepTitle(inner->opType(), inner->name()));
  return fused.size() > 1 ? fused : std::vector<std::string>();
}

}  // namespace popart::lower
