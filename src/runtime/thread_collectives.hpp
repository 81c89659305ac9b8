// ThreadCollectives: collectives for replicas that are threads of one process. Each member of a group publishes the
// addresses of its operands, and the members that have arrived compute the results for all of them. Members of a group
// that is also in other processes publish together, wait for an operation between processes, and take its results
// together: see GroupAcross.
#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <popart/replicagrouping.hpp>

#include "executable/executable.hpp"
#include "runtime/collective_work.hpp"
#include "runtime/interrupt.hpp"

namespace popart::runtime {

// One collective of a group that has members in other processes.
class GroupAcross {
 public:
  virtual ~GroupAcross() = default;
  // What a member waits for that other processes do, and no thread here is told of: that they have read what was
  // published before, which `begin` overwrites, or that they publish.
  enum class Wait : uint8_t { Place, Operands };
  // Whether it has to wait, for `waited` so far.
  virtual bool hasToWait(Wait what, std::chrono::nanoseconds waited) noexcept = 0;
  // Sleeps until that may have changed, for less than a tenth of a second.
  virtual void sleep(Wait what, std::chrono::nanoseconds waited) noexcept = 0;
  // Called when all members of this process have published these operands, in the order of the group. Takes the
  // operands and starts the operation between processes, without waiting for it.
  virtual void begin(std::span<const PublishedOperands> members) noexcept = 0;
  // The operation is in progress while this number is kUnderWay. The thread that changes it notifies all waiters, and
  // ThreadCollectives::ring. Null: it is in progress while members have to wait for operands.
  virtual const std::atomic<uint32_t> *state() const noexcept = 0;
  static constexpr uint32_t kUnderWay = 1;
  // Called when the operation is no longer in progress. Whether its results are available.
  virtual bool isComplete() noexcept = 0;
  // A member here has its results, and so have the others.
  virtual void leave() noexcept = 0;
  // The work that is left: to hand out the results to the members of this process, or to update variables with them.
  virtual const CollectiveWork &work() const noexcept = 0;
  virtual std::span<const PublishedOperands> results() const noexcept = 0;
};

class ThreadCollectives final : public executable::Collectives {
 public:
  // For all replicas of a program. `spin`: whether waiting replicas poll for a while before they sleep; false when
  // there are more threads than cores.
  ThreadCollectives(int replicas, bool spin) : ThreadCollectives(replicas, {0, replicas}, spin) {}
  // For the replicas of one process. `across` makes the GroupAcross for groups with members in other processes, once
  // for each collective of a group, groups in ascending order; null: there are no such groups.
  using MakeAcross =
      std::function<std::unique_ptr<GroupAcross>(const executable::CollectiveSpec &spec, unsigned group)>;
  ThreadCollectives(int replicas, const executable::LocalReplicas &local, bool spin, MakeAcross across = {});
  ~ThreadCollectives() override;

  int replicas() const noexcept override { return replicas_; }
  // Throws internal_error for a group with a replica of another process when `across` is null.
  executable::CollectiveHandle &handle(int replica, const executable::CollectiveSpec &spec) override;
  const char *problem() const noexcept override;
  void start() noexcept override;
  void finish() noexcept override;
  void fail(const std::exception *why) noexcept override;
  std::exception_ptr takeInterrupt() noexcept override { return std::exchange(interrupt_, nullptr); }
  // How long the first replica here has waited for operations between processes.
  std::chrono::nanoseconds waited() const { return std::chrono::nanoseconds(waited_.load(std::memory_order_relaxed)); }
  // Must be called when the state of a GroupAcross has changed.
  void ring() noexcept { wait_.ring(); }

 private:
  enum class Problem : uint8_t { None, ReplicaFailed, DifferentSteps, NobodyComes };
  class Handle;
  struct Site;
  struct Collective;

  bool goesOn() const noexcept { return problem_.load(std::memory_order_acquire) == Problem::None; }
  void sleep(Handle &handle) noexcept;
  bool completes(GroupAcross &group, int64_t local) noexcept;
  bool waitForOthers(int64_t local, GroupAcross &group, GroupAcross::Wait what) noexcept;
  template <class F>
  void interruptible(const F &wait) noexcept;
  template <class T>
  void sleepWhile(int64_t local, const std::atomic<T> &number, T value) noexcept;
  void stopIfNobodyComes() noexcept;
  void stop(Problem problem) noexcept;

  const int replicas_;
  const executable::LocalReplicas local_;
  const bool spin_;
  const MakeAcross across_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::unordered_map<const executable::CollectiveSpec *, Collective *> bySpec_;
  std::map<int64_t, Collective *> byChannel_;
  std::atomic<Problem> problem_{Problem::None};
  std::mutex lock_;                       // of the members below: where replicas sleep, and which have ended
  std::vector<const Handle *> sleeping_;  // by local replica; null: it does not sleep
  int ended_ = 0;
  WatchfulWait wait_;  // of the first replica
  std::atomic<int64_t> waited_{0};
  std::exception_ptr interrupt_;
};

}  // namespace popart::runtime
