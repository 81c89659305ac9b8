// Collectives over the replicas of one run. Each replica is an engine on the same executable, so all replicas execute
// the same collectives in the same order. A collective has two phases. First a replica publishes its operands, as soon
// as they are ready, without waiting. Later it waits until all replicas of its group have published, does a share of
// the collective's work for all members, and ends it. Between the two phases it runs other steps, so that fast replicas
// need not wait.
//
// The order in which the terms of a reduction are added depends only on the size of the group
// (executable/join_tree.hpp), so results do not depend on the number or speed of threads.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include <popart/datatype.hpp>

namespace popart::executable {

// What a collective computes, for each operand separately:
//   Reduce:  out = in(0) op in(1) op … in the order of executable/join_tree.hpp, for every member;
//   Scatter: the same, but member i gets chunk i of the flattened result, padded with zeros;
//   Gather:  out = in(0), in(1), … concatenated, for every member; elements that do not fit are dropped.
enum class CollectiveKind : uint8_t { Reduce, Scatter, Gather };

// How two terms are combined. 16-bit floats are combined in float and rounded once, integers wrap. Keep: not at all,
// each member's own value (Scatter only).
enum class Join : uint8_t { Add, Mul, Min, Max, And, Or, Keep };

struct KernelArgs;

// The element-wise ops after a reduction, which are applied to the reduced elements.
class Update {
 public:
  virtual ~Update() = default;
  // Computes elements [at, at + count) of each result, stored from out[o] + at on, from the reduced elements starting
  // at `joined` and from the same elements of the kernel's other operands. Results may be operands.
  virtual void run(const void *joined, int64_t at, int64_t count, const KernelArgs &args,
                   void *const *out) const noexcept = 0;
};

// One collective of an executable. It lives as long as the executable, and is the same object for all replicas.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::Reduce;
  Join join = Join::Add;
  DataType type = DataType::FLOAT;
  int groupSize = 1, stride = 1;        // groups of `groupSize` replicas, whose numbers are `stride` apart
  std::vector<int64_t> elements;        // of each operand
  std::vector<int64_t> resultElements;  // of each result
  // The number of a collective whose phases are two steps with a spec each. In the spec of the publishing step, `kind`,
  // `join` and results are not used. Negative: one step does both phases.
  int64_t channel = -1;
  // For a Reduce of one operand whose result is updated instead of stored; the results are those of the update. The
  // member that does a piece of the work computes it from its own other operands, which are equal on all members. It
  // writes the piece for all members: result o to the address that a member has published as `slot` of its results.
  static constexpr size_t kMostUpdated = 8;
  struct Updated {
    size_t slot;
    int elementBytes;
  };
  std::shared_ptr<const Update> update = {};
  std::vector<Updated> updated = {};  // by result of the update
};

// A replica's handle of one collective of the program. No call throws, allocates, looks up names or takes a lock,
// unless the replica has to sleep.
class CollectiveHandle {
 public:
  virtual ~CollectiveHandle() = default;
  // Declares this replica's operands ready. Until `end`, only the collective reads and writes them and its results,
  // which may be the operands (for a Scatter, the result is then this replica's chunk of them). Returns false if the
  // run cannot continue (see Collectives::problem); no other call must follow.
  virtual bool publish(const void *const *in, void *const *out) noexcept = 0;
  // Waits until all members of the group have published. Returns false as publish.
  virtual bool wait() noexcept = 0;
  // Does pieces of the work of the whole group until none is left. Any number of threads of a replica may call it at
  // the same time. `args`: those of the thread's task.
  virtual void work(const KernelArgs &args) noexcept = 0;
  // Waits until all pieces are done, including those of other replicas.
  virtual void end() noexcept = 0;
};

// The collectives of the replicas of one process, among each other and with those of other processes. There is one
// implementation for each way of running replicas.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int replicas() const noexcept = 0;  // of the program, in all processes
  // The handle of this collective for a replica of this process, given by its number among all replicas; equal calls
  // return the same handle. Every replica asks for all its handles before the first run, one after the other. A handle
  // lives as long as this object.
  virtual CollectiveHandle &handle(int replica, const CollectiveSpec &spec) = 0;
  // Call it after every replica of this process has all its handles; later calls do nothing. Returns when the other
  // processes are ready to run. Throws runtime_error naming a process whose program differs, or that does not call it.
  virtual void connect() {}
  // Why publish or wait returned false. The text lives as long as the program.
  virtual const char *problem() const noexcept = 0;

  // ---- around a run, called by the owner of the replicas
  // Call it before the replicas of this process start: all of them will take part.
  virtual void start() noexcept = 0;
  // A replica of this process has ended its run. Replicas that wait for it, now or later, continue with `false`.
  virtual void finish() noexcept = 0;
  // A replica of this process failed, or never started: all others continue with `false`. `why`: the reason to tell
  // other processes; null: not known.
  virtual void fail(const std::exception *why) noexcept = 0;
  // The exception that ended the run while the first replica of this process, which runs on the caller's thread, waited
  // in a collective; null: none. Returns it only once.
  virtual std::exception_ptr takeInterrupt() noexcept = 0;
};

}  // namespace popart::executable
