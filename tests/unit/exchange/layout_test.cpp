// Where replicas are, and which members of a group a process holds.
#include "exchange/layout.hpp"

#include <ctime>
#include <functional>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <popart/error.hpp>

#include "exchange/schedule.hpp"

namespace popart::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> oneHost(size_t processes) { return std::vector<std::string>(processes, "here"); }

// The least of three turns, in milliseconds of the thread's processor time, in which other programs have no part.
double fastest(const std::function<void()> &work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  double least = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    const double begin = now();
    work();
    least = std::min(least, now() - begin);
  }
  return least;
}

TEST(ReplicaLayout, finds_replicas_of_equal_and_unequal_counts) {
  for (const std::vector<int> &counts : {std::vector<int>{3, 3, 3}, {1, 4, 2, 2}, {5}}) {
    const ReplicaLayout layout(counts, oneHost(counts.size()));
    EXPECT_EQ(layout.processes(), static_cast<int>(counts.size()));
    EXPECT_EQ(layout.replicas(), std::accumulate(counts.begin(), counts.end(), 0));
    int replica = 0;
    for (size_t p = 0; p < counts.size(); ++p) {
      const auto process = static_cast<int>(p);
      EXPECT_EQ(layout.first(process), replica);
      EXPECT_EQ(layout.count(process), counts[p]);
      for (int local = 0; local < counts[p]; ++local, ++replica) {
        EXPECT_EQ(layout.processOf(replica), process);
        EXPECT_EQ(layout.localNumber(replica), local);
      }
    }
  }
}

TEST(ReplicaLayout, numbers_hosts_and_their_processes) {
  const std::vector<int> counts{2, 1, 1, 2};
  const std::vector<std::string> hosts{"a", "node7", "a", "node7"};
  const ReplicaLayout layout(counts, hosts);
  EXPECT_EQ(layout.hosts(), 2);
  EXPECT_EQ(layout.hostOf(2), 0);
  EXPECT_EQ(layout.hostName(3), "node7");
  EXPECT_EQ(layout.processesOn(1), 2);
  EXPECT_EQ(layout.numberOnHost(2), 1);
  EXPECT_EQ(layout.numberOnHost(1), 0);
  EXPECT_EQ(layout.describe(3), "process 3 on host 'node7' (replicas 4 to 5)");
  EXPECT_EQ(layout.describe(1), "process 1 on host 'node7' (replica 2)");
}

TEST(ReplicaLayout, refuses_what_is_no_job) {
  const auto refused = [](const std::vector<int> &counts, const std::vector<std::string> &hosts, const char *text) {
    try {
      ReplicaLayout(counts, hosts);
      FAIL() << "expected: " << text;
    } catch (const error &e) {
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  };
  refused({}, {}, "at least one process");
  refused({1, 2}, {"a"}, "counts of 2 processes and hosts of 1");
  refused({1, 0}, {"a", "a"}, "process 1 drives 0 replicas");
  refused({1 << 30, 1 << 30}, {"a", "a"}, "at most");
}

// Every grouping of up to 12 replicas, over all divisions into processes.
TEST(ReplicaLayout, members_of_a_process_are_consecutive) {
  for (unsigned replicas = 1; replicas <= 12; ++replicas)
    for (unsigned stride = 1; stride <= replicas; ++stride)
      for (unsigned size = 1; stride * size <= replicas; ++size) {
        if (replicas % (stride * size) != 0) continue;
        const ReplicaGrouping grouping(replicas, stride, size);
        for (unsigned cuts = 0; cuts < 1u << (replicas - 1); cuts += 5) {
          std::vector<int> counts{1};
          for (unsigned i = 0; i + 1 < replicas; ++i)
            if (cuts >> i & 1)
              counts.push_back(1);
            else
              ++counts.back();
          const ReplicaLayout layout(counts, oneHost(counts.size()));
          std::set<std::pair<int, int>> held;  // group, process
          for (unsigned g = 0; g < grouping.getNumGroups(); ++g) {
            int next = 0;
            for (const MemberRange &m : membersOf(layout, grouping, static_cast<int>(g))) {
              ASSERT_EQ(m.first, next);
              next += m.count;
              held.insert({static_cast<int>(g), m.process});
              for (int i = m.first; i < next; ++i)
                ASSERT_EQ(layout.processOf(static_cast<int>(grouping.getReplicaAt(g, static_cast<unsigned>(i)))),
                          m.process);
            }
            ASSERT_EQ(next, static_cast<int>(size));
          }
          std::set<std::pair<int, int>> asked;
          for (int p = 0; p < layout.processes(); ++p)
            for (const int g : groupsOf(layout, grouping, p)) asked.insert({g, p});
          ASSERT_EQ(asked, held);
        }
      }
}

TEST(ReplicaLayout, of_65536_replicas_is_small_and_made_fast) {
  const auto layoutOf = [](int each, bool isUniform) {
    std::vector<int> counts(static_cast<size_t>(65536 / each), each);
    if (!isUniform) ++counts.front(), --counts.back();
    std::vector<std::string> hosts;
    for (size_t p = 0; p < counts.size(); ++p) hosts.push_back("node" + std::to_string(p / 8));
    EXPECT_LT(fastest([&] { ReplicaLayout(counts, hosts); }), 50);
    ReplicaLayout layout(counts, hosts);
    EXPECT_EQ(layout.replicas(), 65536);
    EXPECT_LT(layout.bytes(), 1 << 20);
    return layout;
  };
  layoutOf(8, false);
  layoutOf(2, false);
  layoutOf(1, true);
  const ReplicaLayout layout = layoutOf(8, true);
  // One process's share of a sum over all of them has no table of all.
  const ExchangeSpec spec{.groupSize = 65536, .elements = {1 << 20}, .resultElements = {1 << 20}};
  Schedule schedule;
  EXPECT_LT(fastest([&] { schedule = planExchange(spec, layout, 4711, {}); }), 50);
  EXPECT_EQ(schedule.algorithm, Algorithm::Halving);
  EXPECT_EQ(schedule.sentMessages(), 2 * 13);
  EXPECT_EQ(schedule.received.size(), 13u);
}

TEST(ReplicaLayout, groups_of_a_process) {
  const ReplicaLayout layout(std::vector<int>{3, 3, 3, 3}, oneHost(4));
  EXPECT_THAT(groupsOf(layout, ReplicaGrouping(12, 2, 3), 2), ElementsAre(2, 3));
  EXPECT_THAT(membersOf(layout, ReplicaGrouping(12, 2, 3), 2), ElementsAre(MemberRange{2, 0, 2}, MemberRange{3, 2, 1}));
  EXPECT_THROW(groupsOf(layout, ReplicaGrouping(6, 2, 3), 2), error);
}

}  // namespace
}  // namespace popart::exchange
