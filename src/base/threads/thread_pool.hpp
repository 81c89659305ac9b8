// Fork-join thread pool for the CPU engine: `run` hands numbered tasks to a fixed set of threads and returns when all
// are done.
//
// Each thread owns a contiguous range of the task numbers and works it upwards, so that task i lands on the same core
// run after run and finds its data in that core's caches; a thread that has finished its own range takes tasks from the
// upper end of another thread's range. Which thread runs a task must therefore never influence a result. Invariant: a
// task is claimed by exactly one compare-and-swap; the run's function and state are read only after a claim, and a run
// cannot end while a claimed task is unfinished, so a late worker can never touch a finished run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace popart {

// One task: `state` is what was given to run(), `task` is in [0, tasks), `thread` in [0, threads()) is unique among the
// tasks that run at the same time (index of per-thread scratch). Must not throw.
using TaskFn = void (*)(void *state, int task, int thread);

// Whether worker threads are bound to one processor each. The calling thread is never bound.
enum class Affinity { kNone, kPinned };

struct ThreadPoolOptions {
  // How long an idle worker polls before it sleeps. Zero sleeps at once; used automatically when there are more threads
  // than processors, where polling would only take time from the threads that have work.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  Affinity affinity = Affinity::kNone;
};

class ThreadPool {
 public:
  // `threads` counts the caller of run() too, so threads - 1 workers are started. Values below 1 count as 1.
  // Throws popart::runtime_error when the system refuses a thread.
  explicit ThreadPool(int threads, ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return threads_; }

  // Calls fn(state, t, thread) once for each t in [0, tasks); returns when all calls have returned, and everything they
  // wrote is visible to the caller. Allocates nothing. With one task, one thread, or from inside a task of this pool,
  // the calls are made inline in ascending order. Calls from several threads at once are served one after the other.
  void run(int tasks, TaskFn fn, void *state) noexcept;

  // The same for a callable `body(int task, int thread)`.
  template <typename Body>
  void parallel(int tasks, Body &&body) noexcept {
    using Fn = std::remove_reference_t<Body>;
    run(
        tasks, [](void *state, int task, int thread) { (*static_cast<Fn *>(state))(task, thread); },
        const_cast<void *>(static_cast<const void *>(&body)));
  }

 private:
  // Half-open range of unclaimed tasks, begin in the low and end in the high half; the owner takes begin, others take
  // end - 1.
  struct alignas(64) Range {
    std::atomic<uint64_t> span{0};
  };

  void workerMain(int thread) noexcept;
  void work(int thread) noexcept;
  bool claim(int owner, int thread, int &task) noexcept;
  uint32_t awaitRun(uint32_t seen) noexcept;
  void awaitTasks() noexcept;
  void stopWorkers() noexcept;
  void startWorkers(Affinity affinity);
  int threadInside() const noexcept;

  const int threads_;
  std::chrono::nanoseconds spin_;
  std::unique_ptr<Range[]> ranges_;
  TaskFn fn_ = nullptr;
  void *state_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<int> parked_{0};
  std::atomic<bool> busy_{false};
  std::vector<std::thread> workers_;
  std::atomic<std::thread::id> caller_;  // who runs tasks in run() beside the workers
};

}  // namespace popart
