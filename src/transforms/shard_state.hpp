// shardState: each replica keeps only a part of weights, optimizer state and accumulators (ZeRO 1, 2, 3). Updates of
// variables in parts run on parts: a ReduceScatter of gradients replaces the AllReduce. If a weight stays whole, its
// updated parts are gathered; if it is in parts, it is gathered where the model reads it.
//
//   g' = AllReduce(g)                           g' = ReduceScatter(g)
//   m' = Accumulate(m, g')                 →    m' = Accumulate(m, g')                      m: a part
//   w' = VarUpdate(w, m')                       p = VarUpdate(part of w, m'); w' = CopyVarUpdate(w, AllGather(p))
#pragma once
#include <set>

#include "transforms/add_optimizer.hpp"
#include "transforms/shards.hpp"

namespace popart::transforms {

// `updates`: the optimizer's ops, which include all later ops. Element-wise ops keep their bits. Sums over all elements
// (norms) become sums over parts with an AllReduce, if nothing else needs the whole operand. An accumulator in parts
// sums reduced values: replicas reduce once per micro-batch. `anchors` keep their ids and are whole. Returns the
// variables that are in parts now. Throws popart::error: as shardingOf; a named tensor is not a variable, or the model
// itself changes it.
Shardings shardState(Graph &main, const ShardRules &rules, const WeightUpdates &updates,
                     const std::set<TensorId> &anchors);

// Adds a HostStore of the whole value of a variable in parts, after a micro-batch or after the step.
void storeWhole(Graph &main, const TensorId &variable, const Sharding &sharding, const std::string &stream,
                ExecutionContext context);

// Gathers the weights in parts once for the forward pass and once for the backward pass, before their first use in it,
// so that they need no memory in between; the weight that was gathered last is kept. Replaces existing gathers of them.
// `loss`: the tensor after which the backward pass starts; empty or unknown: there is none.
void gatherByPhase(Graph &main, const Shardings &shardings, const TensorId &loss);

}  // namespace popart::transforms
