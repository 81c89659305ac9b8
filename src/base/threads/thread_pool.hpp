// Fork-join thread pool for the CPU engine: `run` hands numbered tasks to a set of threads and returns when all are
// done.
//
// Each thread owns a contiguous range of the task numbers and works it upwards, so that task i lands on the same core
// run after run and finds its data in that core's caches; a thread that has finished its own range takes tasks from the
// upper end of another thread's range. Which thread runs a task must therefore never influence a result.
//
// A run may ask for fewer threads than there are. What it costs then is what these threads cost: each worker has a bell
// of its own (a word in a cache line of its own, polled for a while, then slept on), the caller rings the first workers
// and each of them rings the next ones, and only the threads of the run are looked at for work or waited for. The
// others sleep.
//
// Invariant: a task is claimed by exactly one compare-and-swap; the run's function and state are read only after a
// claim, and a run cannot end while a claimed task is unfinished, so a late worker can never touch a finished run.
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

// Processors of each worker, in the order of the workers; a worker may run on any of its set. Empty: on all.
using WorkerProcessors = std::vector<std::vector<int>>;

struct ThreadPoolOptions {
  // How long an idle worker polls before it sleeps. Zero sleeps at once; used automatically when there are more threads
  // than processors, where polling would only take time from the threads that have work.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  // Where workers are bound to; the calling thread never is.
  WorkerProcessors processors;
  // Own: threads that the pool starts. Lent: threads of another pool, see serve().
  enum class Workers : uint8_t { Own, Lent } workers = Workers::Own;
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
  std::chrono::nanoseconds spin() const { return spin_; }

  // For lent workers. From expectWorkers() on, a thread that calls serve(w), 0 < w < threads(), is worker w until
  // release(); one that comes later returns at once. Runs in between need not wait for workers to come. All serve()
  // return before workers are expected again.
  void expectWorkers() noexcept { stop_.store(false, std::memory_order_release); }
  void serve(int worker) noexcept;
  void release() noexcept;

  // Calls fn(state, t, thread) once for each t in [0, tasks) on the first `threads` threads (0: all); returns when all
  // calls have returned, and everything they wrote is visible to the caller. Allocates nothing. With one task, one
  // thread, or from inside a task of this pool, the calls are made inline in ascending order. Calls from several
  // threads at once are served one after the other.
  void run(int tasks, TaskFn fn, void *state, int threads = 0) noexcept;

  // The same for a callable `body(int task, int thread)`.
  template <typename Body>
  void parallel(int tasks, Body &&body, int threads = 0) noexcept {
    using Fn = std::remove_reference_t<Body>;
    run(tasks, callBody<Fn>, const_cast<void *>(static_cast<const void *>(&body)), threads);
  }

  // Calls body(thread, thread) once on every thread of the pool, for what a thread has to do itself, such as touching
  // its memory first.
  template <typename Body>
  void onEachThread(Body &&body) noexcept {
    using Fn = std::remove_reference_t<Body>;
    start(threads_, callBody<Fn>, const_cast<void *>(static_cast<const void *>(&body)), threads_, Stealing::kNo);
  }

 private:
  enum class Stealing : uint8_t { kNo, kYes };
  // Half-open range of unclaimed tasks, begin in the low and end in the high half; the owner takes begin, others take
  // end - 1.
  struct alignas(64) Range {
    std::atomic<uint64_t> span{0};
  };
  // Of one worker: counts what woke it.
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings{0};
    std::atomic<bool> sleeps{false};
    uint32_t seen = 0;  // rings, by the worker
    std::atomic<std::thread::id> worker;
  };
  // Of 64 neighbouring threads: bit i is set while others may take tasks from the range of thread i.
  struct alignas(64) Open {
    std::atomic<uint64_t> threads{0};
  };

  template <typename Fn>
  static void callBody(void *state, int task, int thread) {
    (*static_cast<Fn *>(state))(task, thread);
  }
  void start(int tasks, TaskFn fn, void *state, int threads, Stealing stealing) noexcept;
  void publish(int tasks, int active, Stealing stealing) noexcept;
  void work(int thread, int active) noexcept;
  int workOn(int owner, int thread) noexcept;
  bool claim(int owner, int thread, int &task) noexcept;
  void ring(int worker) noexcept;
  void ringChildren(int thread, int active) noexcept;
  uint32_t awaitBell(Bell &bell, uint32_t seen) noexcept;
  void awaitTasks() noexcept;
  void stopWorkers() noexcept;
  void startWorkers(const ThreadPoolOptions &options);
  int threadInside() const noexcept;

  const int threads_;
  std::chrono::nanoseconds spin_;
  std::unique_ptr<Range[]> ranges_;
  std::unique_ptr<Bell[]> bells_;  // [0] is unused
  std::unique_ptr<Open[]> open_;
  TaskFn fn_ = nullptr;
  void *state_ = nullptr;
  alignas(64) std::atomic<int> active_{1};  // threads of the current run
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> pending_{0};
  std::atomic<bool> busy_{false};
  std::vector<std::thread> workers_;
  std::atomic<std::thread::id> caller_;  // who runs tasks in run() beside the workers
};

}  // namespace popart
