// ThreadCollectives: replicas that are threads of this process. They meet in memory: each member publishes the
// addresses of its operands, and whoever comes first then works for all.
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

#include "runtime/collective_work.hpp"
#include "runtime/interrupt.hpp"

namespace popart::runtime {

class ThreadCollectives final : public executable::Collectives {
 public:
  // `spin`: whether waiting replicas poll for a while before they sleep; false when there are more threads than cores.
  ThreadCollectives(int replicas, bool spin);
  ~ThreadCollectives() override;

  int replicas() const noexcept override { return replicas_; }
  executable::Seat &seat(int replica, const executable::CollectiveSpec &spec) override;
  const char *problem() const noexcept override;

  // ---- around a run; not inside of a meeting
  // Before replicas start: all of them are to come.
  void start() noexcept;
  // A replica has ended its run. Others that wait for it, now or later, go on with `false`.
  void finish() noexcept;
  // A replica failed: all others go on with `false`.
  void fail() noexcept;
  // What ended the run while the first replica, which has the thread of the caller, was waiting in a meeting; null:
  // nothing. Gives it once.
  std::exception_ptr takeInterrupt() noexcept { return std::exchange(interrupt_, nullptr); }

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
  const bool spin_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::unordered_map<const executable::CollectiveSpec *, Meeting *> bySpec_;
  std::map<int64_t, Meeting *> byChannel_;
  std::atomic<Problem> problem_{Problem::None};
  std::mutex lock_;                      // of what follows: who sleeps where, and who has ended
  std::vector<const Chair *> sleeping_;  // by replica; null: it does not sleep
  int ended_ = 0;
  WatchfulWait wait_;  // of the first replica
  std::exception_ptr interrupt_;
};

}  // namespace popart::runtime
