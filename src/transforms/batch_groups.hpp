// Which ops of a graph a batch in parts runs through, and in what groups. Ops follow the samples as their rows say
// (ops/pieces.hpp): from the streams to what works across the batch. A group is what
// runs part by part before a whole result is needed.
#pragma once
#include <map>
#include <set>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// batchSerializationSettings, as passes need it.
struct BatchSerialisation {
  enum class Method : uint8_t { Dynamic, Static, Loop };
  // How the parts of a group follow each other: each op as the program has it; part after part; the same with each
  // part's operands cut before the part in front of it is computed.
  enum class Order : uint8_t { Scheduler, Isomorphic, CutAhead };
  int64_t parts = 1;
  std::map<TensorId, int> axes{};  // along which the samples of streams are; 0 where nothing is said
  Method method = Method::Dynamic;
  Order order = Order::Isomorphic;
  // Whether results are whole where ops change between these.
  bool joinsVirtualGraphs = true, joinsExecutionPhases = true, joinsPipelineStages = true;
};

struct BatchGroup {
  std::vector<Op *> ops;  // in order
  int64_t place = 0;      // in program order: when all operands are there
};

struct BatchGroups {
  std::vector<BatchGroup> groups;  // in order
  std::map<OpIndex, Pieces> pieces;
  std::map<OpIndex, size_t> groupOf;
  std::map<TensorIndex, int> axes;       // of the results of these ops
  std::map<TensorIndex, size_t> madeIn;  // the groups of these results
  std::set<TensorIndex> whole;           // of them, those that something needs whole

  // Whether an op takes its input part by part as its group, or an earlier one, has made it.
  bool readsParts(const Op &op, InIndex i) const;
};

// `kept`: tensors that are read whole by what is not there yet. `firstGradient`: place of the first op of the backward
// pass, which belongs to other groups than the forward pass. Throws popart::error for a stream whose batch axis has
// fewer elements than there are parts, or no multiple of them.
BatchGroups findBatchGroups(const Graph &graph, const BatchSerialisation &options, const std::set<TensorIndex> &kept,
                            int64_t firstGradient);

}  // namespace popart::transforms
