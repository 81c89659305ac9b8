// The ops of a graph that a batch in parts runs through, and their groups. Rows of ops say how samples pass through
// them (ops/pieces.hpp): from the streams to ops that work across the batch. A group is a set of ops that run part by
// part before a whole result is needed.
#pragma once
#include <map>
#include <set>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// batchSerializationSettings, in the form that passes need.
struct BatchSerialisation {
  enum class Method : uint8_t { Dynamic, Static, Loop };
  // The order of the parts of a group: each op in program order for all parts; part after part; or the same with the
  // operands of each part sliced before the previous part is computed.
  enum class Order : uint8_t { Scheduler, Isomorphic, CutAhead };
  int64_t parts = 1;
  std::map<TensorId, int> axes{};  // axis of the samples of streams; default 0
  Method method = Method::Dynamic;
  Order order = Order::Isomorphic;
  // Whether results are joined where ops change between these.
  bool joinsVirtualGraphs = true, joinsExecutionPhases = true, joinsPipelineStages = true;
};

struct BatchGroup {
  std::vector<Op *> ops;  // in order
  int64_t place = 0;      // in program order, after all operands
};

struct BatchGroups {
  std::vector<BatchGroup> groups;  // in order
  std::map<OpIndex, Pieces> pieces;
  std::map<OpIndex, size_t> groupOf;
  std::map<TensorIndex, int> axes;       // of the results of these ops
  std::map<TensorIndex, size_t> madeIn;  // the groups of these results
  std::set<TensorIndex> whole;           // results that are needed whole

  // Whether an op reads its input part by part, as its group or an earlier one makes it.
  bool readsParts(const Op &op, InIndex i) const;
};

// `kept`: tensors that ops added later read whole. `firstGradient`: place of the first op of the backward pass, which
// has other groups than the forward pass. Throws popart::error if the batch axis of a stream has fewer elements than
// there are parts, or not a multiple of them.
BatchGroups findBatchGroups(const Graph &graph, const BatchSerialisation &options, const std::set<TensorIndex> &kept,
                            int64_t firstGradient);

}  // namespace popart::transforms
