// See replica_flow.hpp. The rows of collectives are in collectives.cpp: those with a group of replicas.
#include "ops/comm/replica_flow.hpp"

namespace popart::ops {
namespace {

bool isRow(const Op &op, const char *type) { return &op.def().base() == &opDef(type); }

// Every member keeps a part, or its own.
bool keepsApart(const Op &op) {
  return op.attrString("op") == "Local" || isRow(op, "ReplicatedReduceScatter") || isRow(op, "CollectiveScatter");
}

bool isGather(const Op &op) { return isRow(op, "ReplicatedAllGather") || isRow(op, "CollectiveGather"); }

}  // namespace

ReplicaFlow replicaFlow(const Op &op) {
  if (op.is(Role::HostLoad)) return op.outInfo(0).nelms() > 1 ? ReplicaFlow::Differs : ReplicaFlow::Follows;
  if (isRow(op, "ReplicaRandomSeed")) return ReplicaFlow::Differs;
  if (!op.hasAttr("group_size") || !op.hasAttr("stride") || op.attrInt("group_size") == 1) return ReplicaFlow::Follows;
  if (isGather(op)) return ReplicaFlow::Joins;
  return keepsApart(op) ? ReplicaFlow::Differs : ReplicaFlow::Joins;
}

}  // namespace popart::ops
