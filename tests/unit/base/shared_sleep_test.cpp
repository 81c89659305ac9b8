// Sleeps on a number in memory of two processes, one of which may only read it.
#include "base/threads/shared_sleep.hpp"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <thread>

namespace popart {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{60};  // no test takes so long

// A number in a file without a name, and the same for readers.
class SharedNumber {
 public:
  SharedNumber() {
    const int file = ::memfd_create("popart test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file, kBytes), 0);
    written_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    read_ = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
    ::close(file);
    EXPECT_NE(written_, MAP_FAILED);
    EXPECT_NE(read_, MAP_FAILED);
    new (written_) std::atomic<uint32_t>(0);
  }
  ~SharedNumber() {
    ::munmap(written_, kBytes);
    ::munmap(read_, kBytes);
  }
  std::atomic<uint32_t> &number() { return *static_cast<std::atomic<uint32_t> *>(written_); }
  const std::atomic<uint32_t> &toRead() const { return *static_cast<const std::atomic<uint32_t> *>(read_); }

 private:
  static constexpr size_t kBytes = 4096;
  void *written_, *read_;
};

TEST(SharedSleep, ends_when_the_number_is_another_one_or_after_the_time) {
  SharedNumber shared;
  const auto begin = Clock::now();
  EXPECT_TRUE(sleepOnShared(shared.toRead(), 1, kLong));
  EXPECT_TRUE(sleepOnShared(shared.toRead(), 0, milliseconds(20)));
  EXPECT_GE(Clock::now() - begin, milliseconds(19));
  EXPECT_TRUE(sleepOnShared(shared.toRead(), 0, milliseconds(-1)));
  EXPECT_LT(Clock::now() - begin, kLong);
}

// The sleeper has another address for it.
TEST(SharedSleep, is_ended_by_another_mapping) {
  SharedNumber shared;
  const auto begin = Clock::now();
  std::atomic<bool> isAwake{false};
  std::thread sleeper([&] {
    while (shared.toRead().load() == 0) EXPECT_TRUE(sleepOnShared(shared.toRead(), 0, kLong));
    isAwake.store(true);
  });
  shared.number().store(1);
  while (!isAwake.load()) wakeShared(shared.number());
  sleeper.join();
  EXPECT_LT(Clock::now() - begin, kLong);
}

TEST(SharedSleep, is_ended_by_another_process_until_that_is_killed) {
  SharedNumber shared;
  const auto begin = Clock::now();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (uint32_t i = 1; i <= 100; ++i) {
      ::usleep(i % 10 * 50);
      shared.number().store(i);
      wakeShared(shared.number());
    }
    ::kill(::getpid(), SIGKILL);
  }
  for (uint32_t seen; (seen = shared.toRead().load()) < 100;) EXPECT_TRUE(sleepOnShared(shared.toRead(), seen, kLong));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(sleepOnShared(shared.toRead(), 100, milliseconds(20)));  // nobody is left
  EXPECT_LT(Clock::now() - begin, kLong);
}

TEST(SharedSleep, memory_that_is_not_there_is_said) {
  const auto *nowhere = reinterpret_cast<const std::atomic<uint32_t> *>(uintptr_t{64});
  EXPECT_FALSE(sleepOnShared(*nowhere, 0, kLong));
}

// Two threads on one processor take it from each other.
TEST(SharedSleep, a_lost_processor_is_noticed) {
  std::atomic<bool> ends{false};
  bool lost = false;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &set)) ++cpu;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0);
    std::thread other([&] {
      while (!ends.load()) {
      }
    });
    const auto begin = Clock::now();
    while (!(lost = lostProcessorLately()) && Clock::now() - begin < kLong) {
    }
    ends.store(true);
    other.join();
  }).join();
  EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace popart

#endif
