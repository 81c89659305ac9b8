// Memory that processes of a host share. Here processes are threads, which map each other's segments all the same.
#include "exchange/segments.hpp"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_ranks.hpp"

namespace popart::exchange {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kBytes = 10'000;

// Segments of this process that are mapped, or open.
int mappedSegments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:popart replicas") != std::string::npos;
  return count;
}

struct Process {
  int64_t bytes = kBytes;
  std::string off = {};
};

// The segments of all processes, while all of them exist.
void share(const std::vector<std::string> &hosts, const std::vector<Process> &processes,
           const std::function<void(const std::vector<std::unique_ptr<Segments>> &)> &work) {
  const ReplicaLayout layout(std::vector<int>(hosts.size(), 1), hosts);
  test::FakeRanks ranks(layout.processes(), 1);
  std::vector<std::unique_ptr<Segments>> all(hosts.size());
  std::vector<std::thread> threads;
  for (size_t p = 0; p < hosts.size(); ++p)
    threads.emplace_back([&, p] {
      all[p] = std::make_unique<Segments>(ranks.transport(static_cast<int>(p)), layout, processes[p].bytes,
                                          processes[p].off, milliseconds(20'000));
    });
  for (std::thread &t : threads) t.join();
  work(all);
}

TEST(Segments, are_read_by_the_processes_of_the_host) {
  share({"a", "b", "a", "a"}, std::vector<Process>(4), [](const auto &all) {
    EXPECT_EQ(all[1]->of(0), nullptr);
    for (const int from : {0, 2, 3}) {
      ASSERT_TRUE(all[static_cast<size_t>(from)]->areShared());
      std::byte *const own = all[static_cast<size_t>(from)]->own();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(own) % 64, 0u);
      for (int64_t i = 0; i < kBytes; ++i) ASSERT_EQ(own[i], std::byte(0));
      std::memset(own, from + 1, kBytes);
      for (const int to : {0, 2, 3}) EXPECT_EQ(all[static_cast<size_t>(to)]->of(from)[kBytes - 1], std::byte(from + 1));
      EXPECT_EQ(all[static_cast<size_t>(from)]->of(1), nullptr);
    }
    EXPECT_EQ(mappedSegments(), 9 + 1);
  });
  EXPECT_EQ(mappedSegments(), 0);
}

TEST(Segments, have_no_file_and_no_open_number) {
  share({"a", "a"}, std::vector<Process>(2), [](const auto &) {
    for (int file = 0; file < 256; ++file) {
      char path[64] = {}, target[256] = {};
      std::snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
      const bool isOpen = ::readlink(path, target, sizeof(target) - 1) > 0;
      EXPECT_FALSE(isOpen && std::strstr(target, "popart replicas")) << target;
    }
  });
}

TEST(Segments, failures_are_seen_by_the_others) {
  share({"a", "a", "a"}, std::vector<Process>(3), [](const auto &all) {
    EXPECT_EQ(all[0]->failure(), nullptr);
    all[1]->fail("index 9 is out of range");
    all[1]->fail("and something else");
    EXPECT_STREQ(all[0]->failure(), "index 9 is out of range");
    EXPECT_STREQ(all[2]->failure(), "index 9 is out of range");
    EXPECT_EQ(all[1]->failure(), nullptr);
    all[2]->fail(std::string(100'000, 'x'));
    EXPECT_THAT(all[1]->failure(), testing::StartsWith("xxx"));
  });
}

TEST(Segments, a_host_shares_nothing_if_one_of_its_processes_does_not) {
  share({"a", "a", "b", "b"}, {{}, {kBytes, "it is switched off"}, {}, {}}, [](const auto &all) {
    EXPECT_FALSE(all[0]->areShared());
    EXPECT_FALSE(all[1]->areShared());
    EXPECT_TRUE(all[2]->areShared());
    EXPECT_EQ(mappedSegments(), 4);
  });
}

TEST(Segments, memory_that_cannot_be_had_is_a_reason) {
  constexpr int64_t kTooMuch = int64_t{1} << 50;
  share({"a", "a"}, {{kTooMuch}, {}}, [](const auto &all) {
    EXPECT_FALSE(all[0]->areShared());
    EXPECT_FALSE(all[1]->areShared());
    EXPECT_EQ(mappedSegments(), 0);
  });
}

TEST(Segments, a_process_may_have_none) {
  share({"a", "a", "a"}, {{}, {0}, {}}, [](const auto &all) {
    EXPECT_TRUE(all[0]->areShared());
    EXPECT_FALSE(all[1]->areShared());
    EXPECT_EQ(all[0]->of(1), nullptr);
    EXPECT_NE(all[0]->of(2), nullptr);
  });
}

}  // namespace
}  // namespace popart::exchange
