// Thread pool, see thread_pool.hpp.
//
// Order of a run: fn_, state_ and pending_ are written, then each range is published with release, then generation_ is
// bumped. A claim is an acquire on the range, so a worker that claims sees the fields of the run the task belongs to,
// even when it woke for an earlier run. parked_ and generation_ use sequentially consistent operations: either the
// worker sees the new generation before it sleeps, or the caller sees the parked worker and wakes it.
#include "base/threads/thread_pool.hpp"

#include <algorithm>
#include <system_error>

#include <popart/error.hpp>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace popart {
namespace {

void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Polls `done` for at most `limit`; returns whether it became true. Reads the clock only now and then.
template <typename Done>
bool poll(std::chrono::nanoseconds limit, Done done) {
  if (limit.count() <= 0) return done();
  constexpr int kPollsPerClockRead = 32;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < kPollsPerClockRead; ++i) {
      if (done()) return true;
      pauseBriefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

int availableProcessors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Binds `worker` to the index-th processor this process may use. Best effort: a refusal only costs speed.
void bindTo([[maybe_unused]] std::thread &worker, [[maybe_unused]] int index) {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(worker.native_handle(), sizeof(one), &one);
    return;
  }
#endif
}

constexpr uint64_t packSpan(uint32_t begin, uint32_t end) { return uint64_t{end} << 32 | begin; }

}  // namespace

ThreadPool::ThreadPool(int threads, ThreadPoolOptions options)
    : threads_(std::max(1, threads)), spin_(options.spin), ranges_(new Range[static_cast<size_t>(threads_)]) {
  if (threads_ > availableProcessors()) spin_ = std::chrono::nanoseconds(0);
  workers_.reserve(static_cast<size_t>(threads_ - 1));
  try {
    startWorkers(options.affinity);
  } catch (const std::system_error &e) {
    const size_t started = workers_.size() + 1;
    stopWorkers();
    throw runtime_error(
        "thread pool: the system refuses a thread: got {} of {} threads ({}). Set the environment variable "
        "POPART_NUM_THREADS to fewer threads, or raise the limit (ulimit -u, -v)",
        started, threads_, e.code().message());
  } catch (...) {
    stopWorkers();
    throw;
  }
}

void ThreadPool::startWorkers(Affinity affinity) {
  for (int i = 1; i < threads_; ++i) {
    workers_.emplace_back(&ThreadPool::workerMain, this, i);
    if (affinity == Affinity::kPinned) bindTo(workers_.back(), i);
  }
}

// Index of the current thread when it is inside a run of this pool, else -1. Thread-local variables would say it as
// well, but a library loaded at run time gets them at their first use, where a failed allocation ends the process.
int ThreadPool::threadInside() const noexcept {
  if (!busy_.load(std::memory_order_relaxed)) return -1;
  const std::thread::id self = std::this_thread::get_id();
  if (caller_.load(std::memory_order_relaxed) == self) return 0;
  for (size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].get_id() == self) return static_cast<int>(i) + 1;
  return -1;
}

ThreadPool::~ThreadPool() { stopWorkers(); }

void ThreadPool::stopWorkers() noexcept {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread &worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::run(int tasks, TaskFn fn, void *state) noexcept {
  if (tasks <= 0) return;
  const int inside = threads_ == 1 ? 0 : threadInside();
  if (inside >= 0) {
    for (int task = 0; task < tasks; ++task) fn(state, task, inside);
    return;
  }
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (tasks == 1) {
    fn(state, 0, 0);
  } else {
    fn_ = fn;
    state_ = state;
    pending_.store(tasks, std::memory_order_relaxed);
    for (int i = 0; i < threads_; ++i) {
      const auto begin = static_cast<uint32_t>(int64_t{tasks} * i / threads_);
      const auto end = static_cast<uint32_t>(int64_t{tasks} * (i + 1) / threads_);
      ranges_[i].span.store(packSpan(begin, end), std::memory_order_release);
    }
    generation_.fetch_add(1);
    if (parked_.load() > 0) generation_.notify_all();
    work(0);
    awaitTasks();
  }
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
}

bool ThreadPool::claim(int owner, int thread, int &task) noexcept {
  std::atomic<uint64_t> &span = ranges_[owner].span;
  uint64_t seen = span.load(std::memory_order_acquire);
  for (;;) {
    const auto begin = static_cast<uint32_t>(seen);
    const auto end = static_cast<uint32_t>(seen >> 32);
    if (begin >= end) return false;
    const bool own = owner == thread;
    const uint64_t rest = own ? packSpan(begin + 1, end) : packSpan(begin, end - 1);
    if (span.compare_exchange_weak(seen, rest, std::memory_order_acquire, std::memory_order_acquire)) {
      task = static_cast<int>(own ? begin : end - 1);
      return true;
    }
  }
}

void ThreadPool::work(int thread) noexcept {
  for (int i = 0; i < threads_; ++i) {
    const int owner = thread + i < threads_ ? thread + i : thread + i - threads_;
    int task = 0;
    while (claim(owner, thread, task)) {
      fn_(state_, task, thread);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
  }
}

void ThreadPool::awaitTasks() noexcept {
  if (poll(spin_, [this] { return pending_.load(std::memory_order_acquire) == 0; })) return;
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    pending_.wait(left, std::memory_order_acquire);
  }
}

uint32_t ThreadPool::awaitRun(uint32_t seen) noexcept {
  if (!poll(spin_, [&] { return generation_.load(std::memory_order_acquire) != seen; })) {
    parked_.fetch_add(1);
    while (generation_.load() == seen) generation_.wait(seen);
    parked_.fetch_sub(1);
  }
  return generation_.load(std::memory_order_acquire);
}

void ThreadPool::workerMain(int thread) noexcept {
  uint32_t seen = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    seen = awaitRun(seen);
    work(thread);
  }
}

}  // namespace popart
