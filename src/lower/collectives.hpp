// When the replicas of a program wait for each other: small collectives together, and no replica waits while it has
// other work. Both passes keep what the program computes, to the bit: elements are joined in the same order.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// How many bytes one collective may hold that was several (of operands; of the results of gathers), and how many may be
// under way.
struct CollectiveRules {
  struct Merging {
    int64_t together = int64_t{64} << 10;  // that are there at one time
    int64_t waiting = int64_t{64} << 10;   // of which the first wait for the last
    bool operator==(const Merging &) const = default;
  };
  Merging reduce, scatter, gather;
  // Published, and not waited for yet; one collective always is. Who shares state out saves memory: a scatter, which
  // gives most of its operand back, never waits for more than the next one.
  int64_t ahead = int64_t{4} << 20;
  // Nothing waits in memory for the sake of speed.
  void saveMemory() { reduce.waiting = scatter.waiting = gather.waiting = ahead = 0; }
  bool operator==(const CollectiveRules &) const = default;
};

// Inputs of a collective that other members read or write in the meantime: all, but of an update the gradient and, in
// the order of results, what these replace.
std::vector<int> publishedInputs(const Op &op);

// Moves reductions and scatters to where their operands are made, when nothing else reads those, and puts collectives
// of one kind, operator, group and element type together where data allows it:
//   a = CollectiveReduce(x);  b = CollectiveReduce(y)   →   a, b = CollectiveReduce(x, y)
// A collective of more bytes than the rules allow stays alone. The results of gathers may be made earlier.
void mergeCollectives(Ir &program, const CollectiveRules &rules);

// Cuts reductions and scatters of values that nothing else reads into two steps, so that a replica goes on in between:
//   r = CollectiveReduce(x)   →   p = CollectivePublish(x);  …  r = CollectiveReduce(p)
// The second one runs where later collectives have published `ahead` bytes, behind the last operand of any of them, or
// before the first reader of a result, whatever comes first. A collective without work in between stays one step.
void overlapCollectives(Ir &program, const CollectiveRules &rules);

}  // namespace popart::lower
