// MemoryPlan: the memory of every value of a scheduled program. One value contains live ranges, sharing and placement;
// `emit` reads it, people print it, and `verify` checks it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <popart/ir.hpp>
#include <popart/op.hpp>

#include "executable/executable.hpp"
#include "schedule/schedule.hpp"

namespace popart::memory {

using Place = executable::Buffer::Place;

// Whether rows of stacks may be `bytes` apart: kernels expect operands at multiples of 64 bytes.
constexpr bool fitsRows(int64_t bytes) { return bytes % 64 == 0; }

// A piece of memory. Values that share memory (views, in-place results, updated variables, loop carries) have the same.
struct Storage {
  Place place = Place::Arena;
  int64_t bytes = 0;
  // Arena: bytes from its start; Row: bytes from the stack's start in iteration 0; others: index in
  // MemoryPlan::variables or constants.
  int64_t offset = 0;
  int first = -1, last = -1;         // live range, both times included; -1: never live
  std::string name;                  // name of the value that it was made for
  int stack = -1;                    // Row: index in MemoryPlan::storages
  int64_t stride = 0;                // Row: bytes from one iteration to the next
  int initial = -1;                  // Row: the storage that replaces it in the first iteration; -1: none
  executable::Sharers sharers = {};  // Variable: the replicas that share it
  int whole = -1;                    // Slice: index in MemoryPlan::storages of the whole
};

// A copy between storages that sharing could not remove.
struct Copy {
  int from = -1, to = -1;
  int64_t bytes = 0;
};

// The order in which ops were made, which texts use.
struct ByOpId {
  bool operator()(const Op *a, const Op *b) const { return a->id < b->id; }
};

struct MemoryPlan {
  std::vector<Storage> storages;
  std::vector<const Tensor *> variables, constants;  // of the program that the plan is for
  // Copies after each iteration of a loop, in this order: from results to carries.
  std::map<const Op *, std::vector<Copy>, ByOpId> carried;
  // Copies after the last iteration of a loop, addressed as in a further iteration: carries that were read in stacks.
  std::map<const Op *, std::vector<Copy>, ByOpId> results;
  // Storages whose address advances with the iterations of a loop: rows that its body reads or writes in place.
  std::map<const Op *, std::vector<int>, ByOpId> rows;
  // Copies at the end of the program, in this order: new values of variables.
  std::vector<Copy> assigned;
  // Storages that the tasks of a kernel share while it runs (Kernel::sharedBytes), in the arena.
  std::unordered_map<const Op *, int> sharedOf;
  // Large scratch memory of kernels (Kernel::scratchBytes), in the arena: a part for each thread that can run tasks at
  // the same time. Kernels without an entry use the memory that each thread keeps (Executable::scratchBytesPerThread).
  std::unordered_map<const Op *, int> scratchOf;
  int64_t arenaBytes = 0;
  int64_t largestLiveSetBytes = 0;  // lower bound of every arena
  int64_t scratchBytes = 0;         // by how much scratchOf increases the largest live set

  // Index in storages; -1 if the tensor needs no memory, because nothing that runs uses it.
  int of(const Graph &graph, TensorIndex t) const;
  // Whether the storage is the row of the stack that iteration i writes, at i times its size.
  bool isScanRow(int storage, int stack) const;
  std::unordered_map<const Graph *, std::vector<int>> storageOf;  // by tensor index
};

// The kernel that runs an op; null for ops without one (host streams, loops, branches, views, assignments).
using KernelOf = std::function<const executable::Kernel *(const Op &)>;

// Bytes of the arena that a kernel uses only while it runs: those that its tasks share, and large scratch memory of the
// threads that can run its tasks at the same time, at most `threads` (0: they have it elsewhere).
struct TemporaryBytes {
  int64_t shared = 0, scratch = 0;
};
TemporaryBytes temporaryBytes(const executable::Kernel &kernel, int threads);

// `threads`: as for temporaryBytes.
MemoryPlan planMemory(const Ir &program, const schedule::Schedule &schedule, const KernelOf &kernelOf, int threads);

// One line per storage (offset, bytes, lifetime, values), then the copies and the totals.
std::string print(const MemoryPlan &plan);

// Throws internal_error if a lane writes memory that another lane of its section reads or writes. The plan must be that
// of the program and the schedule.
void verifyLanes(const MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule);

// Finds the variables that replicas can share: only CollectiveUpdates write them, in place, and nothing else uses them
// from the publishing of an update to its end. planMemory calls it; the plan must be that of the program.
void shareVariables(MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule);
// Throws internal_error if the plan shares another variable.
void verifySharedVariables(const MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule);

// Throws internal_error if storages with overlapping live ranges overlap in the arena, one exceeds the arena, a row is
// outside of its stack, or a slice is outside of its whole.
void verify(const MemoryPlan &plan);

}  // namespace popart::memory
