// What one process sends, receives and joins in one collective operation over a group of replicas. Planning is a pure
// function of the operation, the layout of replicas and the costs of the network: every process plans its own part, and
// all parts agree.
//
// Terms. A *process* drives consecutive replicas. A *member* is a replica of the group, numbered within the group. A
// *term* is the contribution of a process to a reduction: a node of the tree of tree.hpp over its own members. A
// *round* is a set of messages that do not depend on each other. A *place* is a range of elements in one of the
// memories of an operation, which are numbered:
//   inputs    reductions: the process's terms, in the order of members; broadcast: the value of the root, in the only
//             process that has it; otherwise the operands of the process's members, by member;
//   results   all-reduce, all-gather, broadcast: one; otherwise one for each of the process's members;
//   received  terms of other processes, and sums for which the left term is too narrow: memory of the exchange.
// A term of one member has the type of the elements; all other terms, and sums, have termType(type).
//
// Algorithms, for P processes and N bytes of each term:
//   Direct    Reductions are split into one part per process, which receives the terms of its part from all others,
//             joins them, and sends the result of its part to all. 2 rounds; with one term per process each sends
//             2 (P - 1) / P N bytes.
//   Halving   For P a power of two and one term per process. In round k, processes whose numbers differ in bit k
//             exchange the halves that the other keeps and join theirs, which is level k of the tree; then the parts
//             return in the opposite order, doubling. 2 log2 P rounds, the same bytes.
// Reduce-scatter is the first half of both, all-gather the second. Broadcast sends parts, which every process sends on
// (Direct), or whole values along a binary tree (Halving, for any P). All-to-all is Direct.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/layout.hpp"
#include "executable/collectives.hpp"

namespace popart::exchange {

//   AllReduce      every member gets the joined operands
//   ReduceScatter  member i gets chunk i of the joined operands, flattened; Join::Keep: chunk i of its own operands
//   AllGather      every member gets the operands of all members, one after the other, as far as the result has room
//   Broadcast      every member gets the operands of member `root`
//   AllToAll       member i gets chunk i of the operands of all members, one after the other
enum class Operation : uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll };

const char *nameOf(Operation operation);  // "all-reduce"

// One operation of one group.
struct ExchangeSpec {
  Operation operation = Operation::AllReduce;
  executable::Join join = executable::Join::Add;  // for reductions
  DataType type = DataType::FLOAT;
  // Group: index of the group in ReplicaGrouping(replicas, stride, groupSize).
  int groupSize = 1, stride = 1, group = 0;
  int root = 0;                         // the member whose operands Broadcast sends
  std::vector<int64_t> elements;        // by operand of a member
  std::vector<int64_t> resultElements;  // by result of a member
};

// The operation of a collective of an executable, for group 0.
ExchangeSpec exchangeSpec(const executable::CollectiveSpec &spec);

// The grouping to which the operation's group belongs. Throws popart::error if the layout's replicas do not divide into
// it.
ReplicaGrouping groupingOf(const ExchangeSpec &spec, const ReplicaLayout &layout);

// Costs of messages, in nanoseconds.
struct LinkCost {
  double latency = 20e3;    // from the start of a message to its arrival, without its bytes
  double perMessage = 2e3;  // time that a process spends per message
  double perByte = 0.8;     // 10 Gbit/s
};

enum class Algorithm : uint8_t { Direct, Halving };

struct Range {  // elements [begin, end) of an operand
  int operand;
  int64_t begin, end;
  bool operator==(const Range &) const = default;
};

struct Place {
  int memory;
  Range range;
};

struct Message {
  int peer;  // process
  int64_t bytes;
  std::vector<Place> places;  // in order
};

// into = left op right, on the elements of Round::joined.
struct JoinStep {
  int left, right, into;  // numbers of memories
  int next;               // the step of this round that uses the result; -1: none
};

struct Copy {  // from a term to a result, with rounding
  Place from, to;
};

// The sends of a round begin when the receives, joins and copies of earlier rounds are complete; its receives begin
// when the sends of earlier rounds are complete. Joins run when their terms arrive; copies run when the receives and
// joins are complete.
struct Round {
  std::vector<Message> sends, receives;
  std::vector<Range> joined;
  std::vector<JoinStep> joins;      // each step comes after those whose results it uses
  std::vector<int> firstJoin = {};  // by memory: the step that uses its term; -1: none. Empty without joins
  std::vector<Copy> copies;
};

struct Schedule {
  Algorithm algorithm = Algorithm::Direct;
  int processes = 1;            // that have members of the group
  int inputs = 0, results = 0;  // memories [0, inputs) and [inputs, inputs + results); received ones follow
  int64_t sumBytes = 0;         // per element of joined terms
  std::vector<int64_t> widths;  // by memory: bytes per element
  struct Received {
    int64_t offset;             // in the memory of the exchange; a multiple of 64 bytes
    std::vector<Range> ranges;  // its elements, in order
  };
  std::vector<Received> received;
  int64_t receivedBytes = 0;
  std::vector<Round> rounds;

  bool isReceived(int memory) const { return memory >= inputs + results; }
  bool isResult(int memory) const { return memory >= inputs && !isReceived(memory); }
  int64_t widthOf(int memory) const { return widths[static_cast<size_t>(memory)]; }
  int64_t sentBytes() const;
  int sentMessages() const;
};

// The part of `process`. Throws popart::error if the numbers of the spec contradict each other or the layout, or if the
// process has no member of the group.
Schedule planExchange(const ExchangeSpec &spec, const ReplicaLayout &layout, int process, const LinkCost &cost);

}  // namespace popart::exchange
