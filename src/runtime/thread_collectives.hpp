// ThreadCollectives: replicas that are threads of one process. Each member of a group publishes the addresses of its
// operands; the member that arrives first then computes for all. Members of a group that is in other processes too
// publish together, wait for an operation between processes, and take its results together: see GroupAcross.
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
  // All members of this process have published these operands, in the order of the group. Takes them, starts the
  // operation between processes, and does not wait for it.
  virtual void begin(std::span<const PublishedOperands> members) noexcept = 0;
  // The operation is under way while this number is kUnderWay. Who changes it notifies all on it, and then calls
  // ThreadCollectives::ring.
  virtual const std::atomic<uint32_t> &state() const noexcept = 0;
  static constexpr uint32_t kUnderWay = 1;
  // When it is no longer under way: whether its results are there.
  virtual bool isComplete() noexcept = 0;
  // What is left: to hand out the results to the members of this process, or to update with them.
  virtual const CollectiveWork &work() const noexcept = 0;
  virtual std::span<const PublishedOperands> results() const noexcept = 0;
};

class ThreadCollectives final : public executable::Collectives {
 public:
  // All replicas of a program. `spin`: whether waiting replicas poll for a while before they sleep; false when there
  // are more threads than cores.
  ThreadCollectives(int replicas, bool spin) : ThreadCollectives(replicas, {0, replicas}, spin) {}
  // Those of one process. `across` makes what groups with members in other processes need, for each collective of a
  // group once, groups in ascending order; null: there are none.
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
  // The state of a GroupAcross has changed.
  void ring() noexcept { wait_.ring(); }

 private:
  enum class Problem : uint8_t { None, ReplicaFailed, DifferentSteps, NobodyComes };
  class Handle;
  struct Site;
  struct Collective;

  bool goesOn() const noexcept { return problem_.load(std::memory_order_acquire) == Problem::None; }
  void sleep(Handle &handle) noexcept;
  bool completes(GroupAcross &group, int64_t local) noexcept;
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
  std::mutex lock_;                       // of what follows: who sleeps where, and who has ended
  std::vector<const Handle *> sleeping_;  // by local replica; null: it does not sleep
  int ended_ = 0;
  WatchfulWait wait_;  // of the first replica
  std::atomic<int64_t> waited_{0};
  std::exception_ptr interrupt_;
};

}  // namespace popart::runtime
