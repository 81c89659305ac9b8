// Thread pool, see thread_pool.hpp.
//
// Order of a run: fn_, state_, pending_, active_ and open_ are written, then each range is published with release, then
// the bells ring. A claim is an acquire on the range, so a worker that claims sees the fields of the run the task
// the bells ring. A claim is an acquire on the range, so a worker that claims a task sees the fields of that task's
// run, even if it woke up for an earlier run. A thread counts the tasks it has done and subtracts them from pending_
// when it finds no more; until then the run continues, so a count never mixes two runs. Rings and sleeps use
// sequentially consistent operations: either the worker sees the ring before it sleeps, or the ringing thread sees that
// it sleeps and wakes it.
#include "base/threads/thread_pool.hpp"

#include <algorithm>
#include <bit>
#include <system_error>

#include <popart/error.hpp>

#include "base/threads/processors.hpp"
#include "base/threads/thread_memory.hpp"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace popart {
namespace {

constexpr int kChildren = 4;  // number of workers that each thread wakes
constexpr int kWordBits = 64;

void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // waits a few dozen cycles, unlike `yield`, which does nothing on most cores
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

// If the system refuses, the pool only gets slower.
void bindTo([[maybe_unused]] std::thread &worker, [[maybe_unused]] const std::vector<int> &processors) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : processors)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(worker.native_handle(), sizeof(set), &set);
#endif
}

constexpr uint64_t packSpan(uint32_t begin, uint32_t end) { return uint64_t{end} << 32 | begin; }
constexpr int wordsFor(int threads) { return (threads + kWordBits - 1) / kWordBits; }
constexpr uint64_t bitOf(int thread) { return uint64_t{1} << (thread % kWordBits); }

}  // namespace

ThreadPool::ThreadPool(int threads, ThreadPoolOptions options)
    : threads_(std::max(1, threads)),
      spin_(options.spin),
      ranges_(new Range[static_cast<size_t>(threads_)]),
      bells_(new Bell[static_cast<size_t>(threads_)]),
      open_(new Open[static_cast<size_t>(wordsFor(threads_))]) {
  if (threads_ > allowedProcessors()) spin_ = std::chrono::nanoseconds(0);
  if (options.workers == ThreadPoolOptions::Workers::Lent) return;
  workers_.reserve(static_cast<size_t>(threads_ - 1));
  try {
    startWorkers(options);
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

void ThreadPool::startWorkers(const ThreadPoolOptions &options) {
  for (int i = 1; i < threads_; ++i) {
    workers_.emplace_back(&ThreadPool::serve, this, i);
    if (static_cast<size_t>(i) <= options.processors.size())
      bindTo(workers_.back(), options.processors[static_cast<size_t>(i) - 1]);
  }
}

// Index of the current thread if it is inside a run of this pool, else -1. Not a thread-local variable: in a library
// that was loaded at run time, its first use allocates memory, and a failure ends the process.
int ThreadPool::threadInside() const noexcept {
  if (!busy_.load(std::memory_order_relaxed)) return -1;
  const std::thread::id self = std::this_thread::get_id();
  if (caller_.load(std::memory_order_relaxed) == self) return 0;
  for (int i = 1; i < threads_; ++i)
    if (bells_[i].worker.load(std::memory_order_relaxed) == self) return i;
  return -1;
}

ThreadPool::~ThreadPool() { stopWorkers(); }

void ThreadPool::release() noexcept {
  stop_.store(true);
  for (int i = 1; i < threads_; ++i) ring(i);
}

void ThreadPool::stopWorkers() noexcept {
  release();
  for (std::thread &worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::run(int tasks, TaskFn fn, void *state, int threads) noexcept {
  start(tasks, fn, state, threads > 0 ? std::min(threads, threads_) : threads_, Stealing::kYes);
}

void ThreadPool::start(int tasks, TaskFn fn, void *state, int threads, Stealing stealing) noexcept {
  if (tasks <= 0) return;
  const int inside = threads_ == 1 ? 0 : threadInside();
  if (inside >= 0) {
    for (int task = 0; task < tasks; ++task) fn(state, task, inside);
    return;
  }
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (const int active = std::min(threads, tasks); active == 1) {
    for (int task = 0; task < tasks; ++task) fn(state, task, 0);
  } else {
    fn_ = fn;
    state_ = state;
    publish(tasks, active, stealing);
    ringChildren(0, active);
    work(0, active);
    awaitTasks();
  }
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::publish(int tasks, int active, Stealing stealing) noexcept {
  pending_.store(tasks, std::memory_order_relaxed);
  active_.store(active, std::memory_order_relaxed);
  for (int word = 0; word < wordsFor(active); ++word) {
    const int bits = std::min(kWordBits, active - word * kWordBits);
    const uint64_t all = bits == kWordBits ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    open_[word].threads.store(stealing == Stealing::kYes ? all : 0, std::memory_order_relaxed);
  }
  for (int i = 0; i < active; ++i) {
    const auto begin = static_cast<uint32_t>(int64_t{tasks} * i / active);
    const auto end = static_cast<uint32_t>(int64_t{tasks} * (i + 1) / active);
    ranges_[i].span.store(packSpan(begin, end), std::memory_order_release);
  }
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
    if (!span.compare_exchange_weak(seen, rest, std::memory_order_acquire, std::memory_order_acquire)) continue;
    if (begin + 1 == end) open_[owner / kWordBits].threads.fetch_and(~bitOf(owner), std::memory_order_relaxed);
    task = static_cast<int>(own ? begin : end - 1);
    return true;
  }
}

int ThreadPool::workOn(int owner, int thread) noexcept {
  int task = 0, done = 0;
  for (; claim(owner, thread, task); ++done) fn_(state_, task, thread);
  return done;
}

void ThreadPool::work(int thread, int active) noexcept {
  int done = workOn(thread, thread);
  const int words = wordsFor(active), start = thread % kWordBits;
  for (int i = 0; i < words; ++i) {
    const int word = (thread / kWordBits + i) % words;
    uint64_t tried = i == 0 ? bitOf(thread) : 0;
    for (uint64_t open; (open = open_[word].threads.load(std::memory_order_acquire) & ~tried) != 0;) {
      const int owner = word * kWordBits + (start + std::countr_zero(std::rotr(open, start))) % kWordBits;
      done += workOn(owner, thread);
      tried |= bitOf(owner);
    }
  }
  if (done > 0 && pending_.fetch_sub(done, std::memory_order_acq_rel) == done) pending_.notify_one();
}

void ThreadPool::awaitTasks() noexcept {
  if (poll(spin_, [this] { return pending_.load(std::memory_order_acquire) == 0; })) return;
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    pending_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::ring(int worker) noexcept {
  Bell &bell = bells_[worker];
  bell.rings.fetch_add(1);
  if (bell.sleeps.load()) bell.rings.notify_one();
}

void ThreadPool::ringChildren(int thread, int active) noexcept {
  const int first = kChildren * thread + 1;
  for (int worker = first; worker < std::min(first + kChildren, active); ++worker) ring(worker);
}

uint32_t ThreadPool::awaitBell(Bell &bell, uint32_t seen) noexcept {
  if (!poll(spin_, [&] { return bell.rings.load(std::memory_order_acquire) != seen; })) {
    bell.sleeps.store(true);
    while (bell.rings.load() == seen) bell.rings.wait(seen);
    bell.sleeps.store(false);
  }
  return bell.rings.load(std::memory_order_acquire);
}

void ThreadPool::serve(int worker) noexcept {
  reserveThreadMemory();
  Bell &bell = bells_[worker];
  bell.worker.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (!stop_.load(std::memory_order_acquire)) {
    bell.seen = awaitBell(bell, bell.seen);
    const int active = active_.load(std::memory_order_acquire);
    if (worker >= active) continue;
    ringChildren(worker, active);
    work(worker, active);
  }
}

}  // namespace popart
