// See replica_flow.hpp. What joins values is a row of collectives.cpp or tensor_parallel.cpp: those with a group of
// replicas and an operator. Other rows with a group make each replica's part.
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
  for (const char *name : {"op", "group_size", "stride"})
    if (!op.hasAttr(name)) return ReplicaFlow::Follows;
  if (op.attrInt("group_size") == 1) return ReplicaFlow::Follows;
  if (isGather(op)) return ReplicaFlow::Joins;
  return keepsApart(op) ? ReplicaFlow::Differs : ReplicaFlow::Joins;
}

}  // namespace popart::ops
