// Thread pool: every task runs exactly once and is visible after run(), for any mix of thread counts, task counts and
// parking.
#include "base/threads/thread_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/threads/processors.hpp"

namespace popart::cpu {
namespace {

// Plain (non-atomic) counters on purpose: a lost or doubled task, or a missing happens-before, shows as a wrong count
// or in TSAN.
void checkEachTaskRunsOnce(ThreadPool &pool, int tasks) {
  std::vector<int> calls(static_cast<size_t>(tasks), 0);
  pool.parallel(tasks, [&](int task, int thread) {
    ASSERT_GE(thread, 0);
    ASSERT_LT(thread, pool.threads());
    ++calls[static_cast<size_t>(task)];
  });
  for (int task = 0; task < tasks; ++task) ASSERT_EQ(calls[static_cast<size_t>(task)], 1) << "task " << task;
}

TEST(ThreadPool, runs_each_task_exactly_once) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int tasks : {0, 1, 2, 3, 5, 64, 1000}) checkEachTaskRunsOnce(pool, tasks);
  }
}

TEST(ThreadPool, counts_fewer_than_one_thread_as_one) {
  ThreadPool pool(-3);
  EXPECT_EQ(pool.threads(), 1);
  checkEachTaskRunsOnce(pool, 4);
}

TEST(ThreadPool, runs_back_to_back_without_mixing_tasks_of_two_runs) {
  ThreadPool pool(4);
  std::vector<int> owner(8, -1);
  for (int round = 0; round < 5000; ++round) {
    const int tasks = 1 + round % 8;
    pool.parallel(tasks, [&](int task, int) { owner[static_cast<size_t>(task)] = round; });
    for (int task = 0; task < tasks; ++task) ASSERT_EQ(owner[static_cast<size_t>(task)], round);
  }
}

TEST(ThreadPool, wakes_workers_that_sleep_at_once) {
  ThreadPool pool(2, {.spin = std::chrono::nanoseconds(0), .processors = {}});
  for (int round = 0; round < 500; ++round) checkEachTaskRunsOnce(pool, 6);
}

TEST(ThreadPool, lends_its_threads_to_pools_of_their_own) {
  using Workers = ThreadPoolOptions::Workers;
  ThreadPool all(5);
  ThreadPool two(2, {.processors = {}, .workers = Workers::Lent}),
      three(3, {.processors = {}, .workers = Workers::Lent});
  checkEachTaskRunsOnce(two, 4);  // nobody serves: the caller does it all
  for (int round = 0; round < 300; ++round) {
    two.expectWorkers();
    three.expectWorkers();
    all.onEachThread([&](int thread, int) {
      ThreadPool &own = thread < 2 ? two : three;
      const int member = thread < 2 ? thread : thread - 2;
      if (member > 0) return own.serve(member);
      for (const int tasks : {1, 7, 32}) checkEachTaskRunsOnce(own, tasks);
      own.release();
    });
    checkEachTaskRunsOnce(all, 16);
  }
}

TEST(ThreadPool, binds_each_worker_to_its_processors) {
  const int last = allowedProcessors() - 1;
  ThreadPool pool(3, {.spin = std::chrono::microseconds(50), .processors = {{0, last}, {last}}});
  for (int round = 0; round < 100; ++round) checkEachTaskRunsOnce(pool, 6);
}

TEST(ThreadPool, uses_the_first_threads_only_when_fewer_are_asked_for) {
  for (int threads : {2, 5, 70}) {
    for (int active : {1, 2, 3, 5, 66}) {
      // No worker of a new pool was ever woken, so that none can come late from a run with more threads.
      ThreadPool pool(threads, {.spin = std::chrono::nanoseconds(0), .processors = {}});
      for (int round = 0; round < 20; ++round) {
        std::vector<int> calls(200, 0);
        pool.parallel(
            200,
            [&](int task, int thread) {
              ASSERT_LT(thread, std::min(active, threads));
              ++calls[static_cast<size_t>(task)];
            },
            active);
        for (int count : calls) ASSERT_EQ(count, 1) << threads << " threads, " << active << " of them";
      }
    }
  }
}

TEST(ThreadPool, runs_once_on_each_thread) {
  for (int threads : {1, 2, 7, 66}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::thread::id> ids(static_cast<size_t>(threads));
      std::vector<int> calls(static_cast<size_t>(threads), 0);
      pool.onEachThread([&](int task, int thread) {
        ASSERT_EQ(task, thread);
        ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
        ++calls[static_cast<size_t>(thread)];
      });
      for (size_t i = 0; i < ids.size(); ++i) {
        ASSERT_EQ(calls[i], 1);
        for (size_t j = 0; j < i; ++j) ASSERT_NE(ids[i], ids[j]);
      }
    }
  }
}

TEST(ThreadPool, changes_the_number_of_threads_from_run_to_run) {
  ThreadPool pool(9);
  std::vector<int> owner(40, -1);
  for (int round = 0; round < 3000; ++round) {
    pool.parallel(
        40, [&](int task, int) { owner[static_cast<size_t>(task)] = round; }, 1 + round * 7 % 9);
    for (int task = 0; task < 40; ++task) ASSERT_EQ(owner[static_cast<size_t>(task)], round);
  }
}

TEST(ThreadPool, runs_nested_calls_inline_on_the_same_thread_index) {
  ThreadPool pool(3);
  std::vector<int> sums(16, 0);
  pool.parallel(16, [&](int task, int thread) {
    int expected = 0;
    pool.parallel(10, [&](int inner, int innerThread) {
      EXPECT_EQ(innerThread, thread);
      EXPECT_EQ(inner, expected++);
      sums[static_cast<size_t>(task)] += inner;
    });
  });
  for (int sum : sums) EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, serves_callers_from_several_threads) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) checkEachTaskRunsOnce(pool, 5);
    });
  }
  for (std::thread &caller : callers) caller.join();
}

TEST(ThreadPool, thread_index_is_unique_among_concurrent_tasks) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inUse(4);
  for (int round = 0; round < 200; ++round) {
    pool.parallel(32, [&](int, int thread) {
      EXPECT_EQ(inUse[static_cast<size_t>(thread)].fetch_add(1), 0);
      inUse[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
}

}  // namespace
}  // namespace popart::cpu
