// Collectives: how the replicas of one run meet. Each replica is an engine on the same executable, so all of them come
// to the same collectives in the same order. Three calls make one meeting: all replicas of a group begin, each then
// does its share of the work, in any number of parts at a time, and all end.
//
// The terms of a reduction are joined in the order of the group's members, so that neither the number of threads nor
// their speed changes a bit.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/datatype.hpp>

namespace popart::executable {

// What a meeting does with the operands, each on its own:
//   Reduce:  out = in(0) op in(1) op …, for every member;
//   Scatter: the same, but member i gets chunk i of the flattened result, zeros behind its end;
//   Gather:  out = in(0), in(1), … one behind the other, for every member; what does not fit is dropped.
enum class Meeting : uint8_t { Reduce, Scatter, Gather };

// How two terms are joined. 16-bit floats are joined in float and rounded once, integers wrap. Keep: no join, each
// member's own value (Scatter only).
enum class Join : uint8_t { Add, Mul, Min, Max, And, Or, Keep };

// One collective of an executable; lives as long as the executable, and is the same object for all replicas.
struct CollectiveSpec {
  Meeting meeting = Meeting::Reduce;
  Join join = Join::Add;
  DataType type = DataType::FLOAT;
  int groupSize = 1, stride = 1;        // groups of `groupSize` replicas whose numbers are `stride` apart
  std::vector<int64_t> elements;        // of each operand
  std::vector<int64_t> resultElements;  // of each result
};

// One implementation per way in which replicas run. None of the calls throws or allocates.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int replicas() const noexcept = 0;
  // Waits for the members of the group; operands and results stay where they are until `end`. False when the run cannot
  // go on (problem() says why): the other two calls are then left out.
  virtual bool begin(int replica, const CollectiveSpec &spec, const void *const *in, void *const *out) noexcept = 0;
  // Part `part` of `parts` of this replica's share. Parts may run on several threads at the same time.
  virtual void work(int replica, const CollectiveSpec &spec, int part, int parts) noexcept = 0;
  // Waits until all members have done their share.
  virtual bool end(int replica, const CollectiveSpec &spec) noexcept = 0;
  // Why begin or end gave false: a text that lives as long as the program.
  virtual const char *problem() const noexcept = 0;
};

}  // namespace popart::executable
