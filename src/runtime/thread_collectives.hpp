// ThreadCollectives: replicas that are threads of one process. Each member publishes the addresses of its operands; the
// member that arrives first then computes for all.
#pragma once
#include <atomic>
#include <exception>
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

class ThreadCollectives final : public executable::Collectives {
 public:
  // All replicas of a program. `spin`: whether waiting replicas poll for a while before they sleep; false when there
  // are more threads than cores.
  ThreadCollectives(int replicas, bool spin) : ThreadCollectives(replicas, {0, replicas}, spin) {}
  // Those of one process; they meet in groups that have no others.
  ThreadCollectives(int replicas, const executable::LocalReplicas &local, bool spin);
  ~ThreadCollectives() override;

  int replicas() const noexcept override { return replicas_; }
  // Throws internal_error for a group with a replica of another process.
  executable::Seat &seat(int replica, const executable::CollectiveSpec &spec) override;
  const char *problem() const noexcept override;
  void start() noexcept override;
  void finish() noexcept override;
  void fail() noexcept override;
  std::exception_ptr takeInterrupt() noexcept override { return std::exchange(interrupt_, nullptr); }

 private:
  enum class Problem : uint8_t { None, ReplicaFailed, DifferentSteps, NobodyComes };
  class Chair;
  struct Site;
  struct Meeting;

  bool goesOn() const noexcept { return problem_.load(std::memory_order_acquire) == Problem::None; }
  void sleep(Chair &chair) noexcept;
  void stopIfNobodyComes() noexcept;
  void stop(Problem problem) noexcept;

  const int replicas_;
  const executable::LocalReplicas local_;
  const bool spin_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::unordered_map<const executable::CollectiveSpec *, Meeting *> bySpec_;
  std::map<int64_t, Meeting *> byChannel_;
  std::atomic<Problem> problem_{Problem::None};
  std::mutex lock_;                      // of what follows: who sleeps where, and who has ended
  std::vector<const Chair *> sleeping_;  // by local replica; null: it does not sleep
  int ended_ = 0;
  WatchfulWait wait_;  // of the first replica
  std::exception_ptr interrupt_;
};

}  // namespace popart::runtime
