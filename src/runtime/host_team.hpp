// Team: threads of the host with the memory that their tasks need, and the queue of kernels that run on them. A queue
// of the host is the team of all its threads; the lanes of a section are teams that divide these threads.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/thread_pool.hpp"
#include "executable/run_context.hpp"
#include "runtime/device.hpp"

namespace popart::runtime {

struct Team {
  // `settings`: of the run that executes the team's tasks.
  Team(int threads, ThreadPoolOptions options, WakePolicy wakePolicy, const RunSettings &settings)
      : pool(threads, std::move(options)),
        wakePolicy(wakePolicy),
        events(settings.events),
        contexts(static_cast<size_t>(pool.threads()),
                 executable::RunContext(failed, settings.replica, settings.collectives)) {}
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  // Throws the failure that the tasks of this step reported first, which ends the run.
  [[noreturn]] void throwFailure(const executable::Step &step);

  ThreadPool pool;
  const WakePolicy wakePolicy;
  StepTimes *const events;  // where kernels record what threads do; null: nothing is recorded
  int firstThread = 0;      // number of the team's first one among those of the engine
  char *scratch = nullptr;  // of thread t at t * scratchStride
  int64_t scratchStride = 0;
  std::atomic<bool> failed{false};
  std::vector<executable::RunContext> contexts;  // one per thread
};

// Copies and kernels on a team; allocates no memory. `device`: its name, for messages.
class TeamQueue : public Queue {
 public:
  TeamQueue(std::string device, Team &team) : device_(std::move(device)), team_(team) {}

  int threads() const override { return team_.pool.threads(); }
  char *allocate(int64_t bytes, std::span<const int64_t> values) override;
  void expect(const void *remote, int64_t bytes) override;
  bool isHostMemory() const override { return true; }
  void copyIn(void *device, const void *host, int64_t bytes) override { copyWithin(device, host, bytes); }
  void copyOut(void *host, const void *device, int64_t bytes) override { copyWithin(host, device, bytes); }
  void copyWithin(void *to, const void *from, int64_t bytes) override;
  std::unique_ptr<Launch> bind(const executable::Step &step, const void *const *in, void *const *out,
                               const KernelMemory &memory) override;
  void wait() override {}  // launches return when they are done

 private:
  const std::string device_;
  Team &team_;
};

}  // namespace popart::runtime
