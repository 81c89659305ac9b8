// shardState: weights, optimizer state and accumulators of which each replica keeps a part (ZeRO 1, 2, 3). Updates of
// variables in parts run on parts: gradients are joined by a ReduceScatter in place of an AllReduce. A weight that
// stays whole is updated by parts that are gathered; one in parts is gathered where the model reads it.
//
//   g' = AllReduce(g)                           g' = ReduceScatter(g)
//   m' = Accumulate(m, g')                 →    m' = Accumulate(m, g')                      m: a part
//   w' = VarUpdate(w, m')                       p = VarUpdate(part of w, m'); w' = CopyVarUpdate(w, AllGather(p))
#pragma once
#include <set>

#include "transforms/add_optimizer.hpp"
#include "transforms/shards.hpp"

namespace popart::transforms {

// `updates`: the optimizer's ops; all later ones belong to them. Element-wise ops keep their bits. Sums over all
// elements (norms) become sums over parts, joined by an AllReduce, where the whole operand is needed for nothing else.
// An accumulator in parts adds up what the replicas have in common: they reduce once per micro-batch. `anchors` keep
// their ids and are whole. Returns what is in parts now. Throws popart::error: what shardingOf throws, a tensor
// by name that is no variable, or that the model itself changes.
Shardings shardState(Graph &main, const ShardRules &rules, const WeightUpdates &updates,
                     const std::set<TensorId> &anchors);

// HostStore of the whole value that a micro-batch, or the step, has made of a variable in parts.
void storeWhole(Graph &main, const TensorId &variable, const Sharding &sharding, const std::string &stream,
                ExecutionContext context);

// The weights in parts are gathered once for the forward pass and once for the backward pass, each before its first use
// there, so that in between they take no memory; the one that was gathered last is kept. Before: any gathers of them.
// `loss`: the tensor behind which the backward pass begins; empty or unknown: there is none.
void gatherByPhase(Graph &main, const Shardings &shardings, const TensorId &loss);

}  // namespace popart::transforms
