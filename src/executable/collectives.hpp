// Collectives over the replicas of one run. Each replica is an engine on the same executable, so all of them come to
// the same collectives in the same order. A collective has two phases. A replica publishes its operands where they are
// ready, and does not wait; later it waits until all of its group have published, works on what is left of the
// collective's work for all members, and ends. Between the two it does other things, so that the first replica
// need not wait.
//
// The terms of a reduction are joined in an order that follows from the size of the group (executable/join_tree.hpp):
// neither the number of threads nor their speed changes a bit.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include <popart/datatype.hpp>

namespace popart::executable {

// What a collective does with the operands, each on its own:
//   Reduce:  out = in(0) op in(1) op … in the order of executable/join_tree.hpp, for every member;
//   Scatter: the same, but member i gets chunk i of the flattened result, zeros behind its end;
//   Gather:  out = in(0), in(1), … one behind the other, for every member; what does not fit is dropped.
enum class CollectiveKind : uint8_t { Reduce, Scatter, Gather };

// How two terms are joined. 16-bit floats are joined in float and rounded once, integers wrap. Keep: no join, each
// member's own value (Scatter only).
enum class Join : uint8_t { Add, Mul, Min, Max, And, Or, Keep };

struct KernelArgs;

// What becomes of joined elements: the element-wise ops behind a reduction.
class Update {
 public:
  virtual ~Update() = default;
  // Elements [at, at + count) of each result, one behind the other from out[o] + at on, from the joined ones, of which
  // `joined` is the first, and from those elements of the kernel's other operands. Results may be operands.
  virtual void run(const void *joined, int64_t at, int64_t count, const KernelArgs &args,
                   void *const *out) const noexcept = 0;
};

// One collective of an executable; lives as long as the executable, and is the same object for all replicas.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::Reduce;
  Join join = Join::Add;
  DataType type = DataType::FLOAT;
  int groupSize = 1, stride = 1;        // groups of `groupSize` replicas whose numbers are `stride` apart
  std::vector<int64_t> elements;        // of each operand
  std::vector<int64_t> resultElements;  // of each result
  // The number of a collective whose phases are two steps with a spec each. That of the step that publishes says
  // nothing of `kind`, `join` and results. Negative: one step does it all.
  int64_t channel = -1;
  // Reduce of one operand that is not stored when it is joined, but updated; the results are those of the update. Who
  // does a piece computes it from operands of its own, which all members have alike, and writes it for all of them:
  // result o where they have published address `slot` of their results.
  static constexpr size_t kMostUpdated = 8;
  struct Updated {
    size_t slot;
    int elementBytes;
  };
  std::shared_ptr<const Update> update = {};
  std::vector<Updated> updated = {};  // by result of the update
};

// A replica's handle of one collective of the program. None of its calls throws, allocates, looks anything up or takes
// a lock, unless a replica has to sleep.
class CollectiveHandle {
 public:
  virtual ~CollectiveHandle() = default;
  // This replica's operands are ready. Until `end`, nobody else reads or writes them and its results, which may be the
  // operands: of a Scatter, whose result is then its chunk of them. False when the run cannot go on
  // (Collectives::problem says why): all later calls are then left out.
  virtual bool publish(const void *const *in, void *const *out) noexcept = 0;
  // Waits until all members of the group have published. False as publish.
  virtual bool wait() noexcept = 0;
  // Takes piece after piece of the work of the whole group until none is left; any number of threads of a replica may
  // do so at the same time. `args`: those of the thread's task.
  virtual void work(const KernelArgs &args) noexcept = 0;
  // Waits until all pieces are done: those that others took.
  virtual void end() noexcept = 0;
};

// The collectives of the replicas of one process, with each other and with those of other processes. One implementation
// per way in which replicas run.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int replicas() const noexcept = 0;  // of the program, in all processes
  // The handle of this collective of the program for a replica of this process, by its number among all; the same one
  // for all that ask for it. Every replica asks for all its handles before the first run, one after the other. It lives
  // as long as this object.
  virtual CollectiveHandle &handle(int replica, const CollectiveSpec &spec) = 0;
  // Called once every replica of this process has all its handles; more calls do nothing. Returns when the other
  // processes are ready to run. Throws runtime_error that names a process whose program differs, or that does not call.
  virtual void connect() {}
  // Why publish or wait gave false: a text that lives as long as the program.
  virtual const char *problem() const noexcept = 0;

  // ---- around a run, called by the owner of the replicas
  // Before the replicas of this process start: all of them will come.
  virtual void start() noexcept = 0;
  // A replica of this process has ended its run. Others that wait for it, now or later, go on with `false`.
  virtual void finish() noexcept = 0;
  // A replica of this process failed, or never began: all others go on with `false`. `why`: told to those of other
  // processes; null: not known.
  virtual void fail(const std::exception *why) noexcept = 0;
  // What ended the run while the first replica of this process, which has the thread of the caller, was waiting in a
  // collective; null: nothing. Gives it once.
  virtual std::exception_ptr takeInterrupt() noexcept = 0;
};

}  // namespace popart::executable
