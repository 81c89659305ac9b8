// Fork-join thread pool for the CPU engine: `run` distributes numbered tasks over threads and returns when all are
// done.
//
// Each thread owns a contiguous range of task numbers and runs them in ascending order, so that task i runs on the same
// core in every run and finds its data in the caches of that core. A thread whose range is empty takes tasks from the
// upper end of another range. So results must never depend on which thread runs a task.
//
// A run may use fewer threads than there are, and then costs only those: each worker has its own bell (a word in its
// own cache line, which it polls for a while before it sleeps). The caller rings the first workers, and each of them
// rings the next ones. Only the threads of the run are searched for work and waited for. The others sleep.
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

// One task: `state` is the argument of run(), `task` is in [0, tasks), `thread` in [0, threads()) is unique among the
// tasks that run at the same time (index of per-thread scratch). Must not throw.
using TaskFn = void (*)(void *state, int task, int thread);

// The set of processors that each worker may run on. Empty: all.
using WorkerProcessors = std::vector<std::vector<int>>;

struct ThreadPoolOptions {
  // How long an idle worker polls before it sleeps. Zero sleeps at once; used automatically when there are more threads
  // than processors, where polling would only take time from the threads that have work.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  // Processors to bind workers to; the calling thread is never bound.
  WorkerProcessors processors;
  // Own: the pool starts threads. Lent: threads of another pool work, see serve().
  enum class Workers : uint8_t { Own, Lent } workers = Workers::Own;
};

class ThreadPool {
 public:
  // `threads` includes the caller of run(), so threads - 1 workers are started. Values below 1 count as 1.
  // Throws popart::runtime_error when the system refuses a thread.
  explicit ThreadPool(int threads, ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return threads_; }
  std::chrono::nanoseconds spin() const { return spin_; }

  // For lent workers. After expectWorkers(), a thread that calls serve(w), 0 < w < threads(), is worker w until
  // release(); later calls return at once. Runs do not wait for workers that have not called serve(). All serve()
  // calls return before workers are expected again.
  void expectWorkers() noexcept { stop_.store(false, std::memory_order_release); }
  void serve(int worker) noexcept;
  void release() noexcept;

  // Calls fn(state, t, thread) once for each t in [0, tasks) on the first `threads` threads (0: all). Returns when all
  // calls have returned; everything they wrote is then visible to the caller. Does not allocate. With one task, one
  // thread, or from inside a task of this pool, the calls are made inline in ascending order. If several threads call
  // this at once, their runs follow one another.
  void run(int tasks, TaskFn fn, void *state, int threads = 0) noexcept;

  // The same for a callable `body(int task, int thread)`.
  template <typename Body>
  void parallel(int tasks, Body &&body, int threads = 0) noexcept {
    using Fn = std::remove_reference_t<Body>;
    run(tasks, callBody<Fn>, const_cast<void *>(static_cast<const void *>(&body)), threads);
  }

  // Calls body(thread, thread) once on every thread of the pool, for work that each thread has to do itself, such as
  // first touching its memory.
  template <typename Body>
  void onEachThread(Body &&body) noexcept {
    using Fn = std::remove_reference_t<Body>;
    start(threads_, callBody<Fn>, const_cast<void *>(static_cast<const void *>(&body)), threads_, Stealing::kNo);
  }

 private:
  enum class Stealing : uint8_t { kNo, kYes };
  // Half-open range of unclaimed tasks: begin in the low half, end in the high half. The owner takes begin, others take
  // end - 1.
  struct alignas(64) Range {
    std::atomic<uint64_t> span{0};
  };
  // The bell of one worker: the number of rings.
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings{0};
    std::atomic<bool> sleeps{false};
    uint32_t seen = 0;  // number of rings that the worker has seen
    std::atomic<std::thread::id> worker;
  };
  // A bit for each of 64 threads: set while others may take tasks from its range.
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
  alignas(64) std::atomic<int> active_{1};  // number of threads of the current run
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> pending_{0};
  std::atomic<bool> busy_{false};
  std::vector<std::thread> workers_;
  std::atomic<std::thread::id> caller_;  // the thread that runs tasks in run(), in addition to the workers
};

}  // namespace popart
