// The ops that update one weight, as addOptimizer makes them.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// The source of an operand of a chain.
struct ChainOperand {
  enum class Kind : uint8_t {
    Absent,
    Shared,    // one number, the same one for all chains of a kind
    Own,       // one number of the chain, or a tensor that no op of the optimizer makes
    Variable,  // number `at` of the chain's variables
    Result,    // output `output` of op `at` of the chain
    Outside,   // elements made by the rest of the program: the gradient
  };
  Kind kind = Kind::Absent;
  size_t at = 0;
  OutIndex output = 0;
  bool operator==(const ChainOperand &) const = default;
};

struct ChainOp {
  Op *op = nullptr;
  std::vector<ChainOperand> operands;
  bool merges = false;  // uses only elements and shared numbers
};

// The placement of ops that use a weight: IPU, pipeline stage and execution phase.
using UpdatePlace = std::tuple<std::optional<VGraphId>, std::optional<PipelineStage>, std::optional<ExecutionPhase>>;

struct UpdateChain {
  std::vector<ChainOp> ops;            // in order
  std::vector<TensorIndex> variables;  // weight and states, by first use
  int64_t elements = 0;
  std::set<UpdatePlace> places;  // of the ops that use these variables
};

// Chains of all weights whose updates may merge with others, in order of their first ops.
std::vector<UpdateChain> findUpdateChains(const Graph &graph, int64_t firstUpdate, const std::set<TensorId> &alone);
// Whether two chains are equal, with the same numbers, for weights that are used in the same places.
bool sameKind(const Graph &graph, const UpdateChain &a, const UpdateChain &b);

}  // namespace popart::transforms
