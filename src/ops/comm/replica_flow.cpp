// See replica_flow.hpp. The rows that join values are in collectives.cpp, exchanges.cpp and tensor_parallel.cpp: they
// have a group of replicas and an operator. Other rows with a group make each replica's part.
#include "ops/comm/replica_flow.hpp"

#include <algorithm>

namespace popart::ops {
namespace {

bool isRow(const Op &op, const char *type) { return &op.def().base() == &opDef(type); }
bool isOneOf(const Op &op, std::initializer_list<const char *> types) {
  return std::any_of(types.begin(), types.end(), [&](const char *type) { return isRow(op, type); });
}
bool isScatter(const Op &op) {
  return isOneOf(op, {"ReplicatedReduceScatter", "ReplicatedReduceScatterStrided", "CollectiveScatter"});
}
bool isGather(const Op &op) {
  return isOneOf(op, {"ReplicatedAllGather", "ReplicatedAllGatherStrided", "CollectiveGather"});
}

}  // namespace

ReplicaFlow replicaFlow(const Op &op) {
  if (op.is(Role::HostLoad)) return {op.outInfo(0).nelms() > 1 ? ReplicaFlow::Own : ReplicaFlow::Follows, {}};
  if (isRow(op, "ReplicaRandomSeed")) return {ReplicaFlow::Own, {}};
  if (!op.hasAttr("group_size") || !op.hasAttr("stride")) return {};
  const ReplicaGroup group{op.attrInt("group_size"), op.attrInt("stride")};
  if (group.size == 1) return {};
  if (isRow(op, "ReplicatedAllToAll")) return {ReplicaFlow::Own, {}};
  if (isRow(op, "ReplicatedBroadcast")) return {ReplicaFlow::Reduces, group};
  if (!op.hasAttr("op")) return {};
  const bool joins = op.attrString("op") != "Local";
  if (isGather(op)) return {ReplicaFlow::Gathers, group};
  if (isScatter(op)) return {joins ? ReplicaFlow::Scatters : ReplicaFlow::Cuts, group};
  return joins ? ReplicaFlow{ReplicaFlow::Reduces, group} : ReplicaFlow{};
}

}  // namespace popart::ops
