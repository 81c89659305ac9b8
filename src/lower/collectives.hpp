// When the replicas of a program wait for each other: small collectives are merged, and no replica waits while it has
// other work. Both passes keep all results, bit by bit: elements are reduced in the same order.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// Limits, in bytes, of merged collectives (of operands; for gathers of results), and of collectives that are under way
// at the same time.
struct CollectiveRules {
  struct Merging {
    int64_t together = int64_t{64} << 10;  // of operands that exist at the same time
    int64_t waiting = int64_t{64} << 10;   // of operands that wait for the last one
    bool operator==(const Merging &) const = default;
  };
  Merging reduce, scatter, gather;
  // Bytes published and not yet waited for; there is always at least one collective. Sharded state is there to save
  // memory: a scatter, which frees most of its operand, never waits for more than the next one.
  int64_t ahead = int64_t{4} << 20;
  // Keeps no value in memory longer to gain speed.
  void saveMemory() { reduce.waiting = scatter.waiting = gather.waiting = ahead = 0; }
  bool operator==(const CollectiveRules &) const = default;
};

// The inputs of a collective that other members read or write meanwhile: all; for an update only the gradient and,
// in the order of results, the operands that these replace.
std::vector<int> publishedInputs(const Op &op);

// Moves reductions and scatters to the producers of their operands if nothing else reads these, and merges collectives
// of the same kind, operator, group and element type where data allows it:
//   a = CollectiveReduce(x);  b = CollectiveReduce(y)   →   a, b = CollectiveReduce(x, y)
// A collective of more bytes than the rules allow stays alone. Gathers may move to an earlier position.
void mergeCollectives(Ir &program, const CollectiveRules &rules);

// Splits reductions and scatters of values that nothing else reads into two steps, so that a replica continues
// meanwhile:
//   r = CollectiveReduce(x)   →   p = CollectivePublish(x);  …  r = CollectiveReduce(p)
// The second one runs where later collectives have published `ahead` bytes, after the last operand of any of them, or
// before the first reader of a result, whatever is first. A collective without work in between stays one step.
void overlapCollectives(Ir &program, const CollectiveRules &rules);

}  // namespace popart::lower
