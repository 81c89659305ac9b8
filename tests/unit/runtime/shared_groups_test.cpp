// Collectives in memory that processes share. Here processes are threads that share plain memory, so that the thread
// sanitizer sees what they do.
#include "runtime/shared_groups.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "executable/host_kernel.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;
using Wait = SharedGroup::Wait;

exchange::ReplicaLayout layoutOf(const std::vector<int> &counts, const std::vector<std::string> &hosts) {
  return {counts, hosts};
}

std::vector<const CollectiveSpec *> addressesOf(const std::vector<CollectiveSpec> &specs) {
  std::vector<const CollectiveSpec *> all;
  for (const CollectiveSpec &spec : specs) all.push_back(&spec);
  return all;
}

CollectiveSpec sumOf(int members, int64_t elements, int64_t channel = -1) {
  return {CollectiveKind::Reduce, Join::Add, DataType::FLOAT, members, 1, {elements}, {elements}, channel};
}

TEST(SharedGroups, are_small_groups_of_several_processes_of_one_host) {
  const auto one = layoutOf({2, 2, 2, 2}, {"a", "a", "b", "b"});
  EXPECT_TRUE(canShare(sumOf(4, 1), one, 0));
  EXPECT_TRUE(canShare(sumOf(4, 1), one, 1));
  EXPECT_FALSE(canShare(sumOf(8, 1), one, 0));  // two hosts
  EXPECT_FALSE(canShare(sumOf(2, 1), one, 0));  // one process
  CollectiveSpec keeps = sumOf(4, 4);
  keeps.kind = CollectiveKind::Scatter, keeps.join = Join::Keep;  // nothing is exchanged
  EXPECT_FALSE(canShare(keeps, one, 0));
  EXPECT_TRUE(canShare(sumOf(8, 1), layoutOf({4, 4}, {"a", "a"}), 0));
  EXPECT_FALSE(canShare(sumOf(16, 1), layoutOf({8, 8}, {"a", "a"}), 0));  // many members
}

TEST(SharedGroups, collectives_that_wait_at_once_have_one_place) {
  const auto layout = layoutOf({2, 1}, {"a", "a"});
  const std::vector<CollectiveSpec> specs{sumOf(3, 100), sumOf(3, 1000), sumOf(3, 10, 7)};
  const SharedPlaces two(addressesOf(specs), layout, 0), one(addressesOf(specs), layout, 1);
  EXPECT_EQ(two.at(0, 0).offset, two.at(1, 0).offset);
  EXPECT_EQ(two.at(0, 0).areaBytes, two.at(1, 0).areaBytes);
  EXPECT_NE(two.at(0, 0).offset, two.at(2, 0).offset);
  EXPECT_EQ(two.bytes(), 64 + 2 * (2 * 4032) + 64 + 2 * 64);
  EXPECT_EQ(one.bytes(), 64 + 2 * 4032 + 64 + 64);
}

// The memory of processes, which are threads, and their groups in it.
class Processes {
 public:
  Processes(const exchange::ReplicaLayout &layout, const std::vector<CollectiveSpec> &specs)
      : specs_(specs),
        members_(exchange::membersOf(
            layout,
            ReplicaGrouping(static_cast<unsigned>(layout.replicas()), 1, static_cast<unsigned>(layout.replicas())),
            0)) {
    for (int p = 0; p < layout.processes(); ++p) {
      places_.emplace_back(addressesOf(specs_), layout, p);
      segments_.emplace_back(static_cast<size_t>(places_.back().bytes() / kLine));
    }
  }
  const exchange::MemberRange &members(int process) const { return members_[static_cast<size_t>(process)]; }

  // The groups of one process, by collective.
  std::vector<std::unique_ptr<SharedGroup>> groupsOf(int process, std::map<std::byte *, uint64_t> &uses) {
    std::vector<std::unique_ptr<SharedGroup>> groups;
    for (int c = 0; c < static_cast<int>(specs_.size()); ++c) {
      std::vector<SharedGroup::Published> all;
      std::byte *own = nullptr;
      for (const exchange::MemberRange &m : members_) {
        const auto p = static_cast<size_t>(m.process);
        const SharedPlaces::Place &place = places_[p].at(c, 0);
        std::byte *const at = segments_[p][0].bytes + place.offset;
        if (m.process == process) own = at;
        all.push_back({m, at, place.areaBytes});
      }
      groups.push_back(std::make_unique<SharedGroup>(specs_[static_cast<size_t>(c)], c, all, own, uses[own]));
    }
    return groups;
  }

 private:
  static constexpr int64_t kLine = 64;
  struct alignas(kLine) Line {
    std::byte bytes[kLine] = {};
  };
  const std::vector<CollectiveSpec> specs_;
  const std::vector<exchange::MemberRange> members_;
  std::vector<SharedPlaces> places_;
  std::vector<std::vector<Line>> segments_;
};

constexpr std::chrono::seconds kLong{60};  // no test takes so long

// Three processes with 2, 1 and 2 members of five sum, scatter and gather in turns, twenty times.
TEST(SharedGroups, processes_join_what_all_have_published) {
  constexpr int kMembers = 5, kTurns = 20, kElements = 20'005;  // long enough for stores past the caches
  const auto layout = layoutOf({2, 1, 2}, {"a", "a", "a"});
  std::vector<CollectiveSpec> specs{sumOf(kMembers, kElements), sumOf(kMembers, kElements), sumOf(kMembers, kElements),
                                    sumOf(kMembers, kElements, 1)};
  specs[1].kind = CollectiveKind::Scatter;
  specs[1].resultElements = {kElements / kMembers};
  specs[2].kind = CollectiveKind::Gather;
  specs[2].resultElements = {kElements * kMembers};
  const auto valueOf = [](int turn, int collective, int member, int64_t i) {
    return static_cast<float>((turn * 7 + collective * 31 + member * 1009 + i * 13) % 977) / 31.0f;
  };

  Processes processes(layout, specs);
  std::vector<std::thread> threads;
  for (int p = 0; p < layout.processes(); ++p)
    threads.emplace_back([&, p] {
      const auto own = processes.members(p);
      std::map<std::byte *, uint64_t> uses;
      const auto groups = processes.groupsOf(p, uses);
      EXPECT_EQ(uses.size(), 2u);
      std::atomic<bool> failed{false};
      executable::RunContext context(failed, own.first, nullptr);
      const executable::KernelArgs args{nullptr, nullptr, nullptr, context};
      for (int turn = 0; turn < kTurns; ++turn)
        for (int c = 0; c < static_cast<int>(specs.size()); ++c) {
          const CollectiveSpec &spec = specs[static_cast<size_t>(c)];
          SharedGroup &group = *groups[static_cast<size_t>(c)];
          std::vector<std::vector<float>> in, out;
          std::vector<PublishedOperands> published(static_cast<size_t>(own.count));
          for (int m = 0; m < own.count; ++m) {
            in.emplace_back(kElements);
            for (int64_t i = 0; i < kElements; ++i)
              in.back()[static_cast<size_t>(i)] = valueOf(turn, c, own.first + m, i);
            out.emplace_back(static_cast<size_t>(spec.resultElements[0]));
          }
          for (size_t m = 0; m < published.size(); ++m) published[m] = {{in[m].data()}, {out[m].data()}};
          ASSERT_TRUE(spec.channel >= 0 || group.late(Wait::Place) < 0);  // in one step it never waits for the place
          while (group.late(Wait::Place) >= 0) group.sleep(Wait::Place, kLong);
          group.begin(published);
          while (group.late(Wait::Operands) >= 0) group.sleep(Wait::Operands, kLong);
          EXPECT_EQ(group.astray(), -1);
          for (int piece = 0; piece < group.work().pieces(); ++piece)
            group.work().run(piece, group.sources(), published, published[0], args);
          group.leave();
          for (int m = 0; m < own.count; ++m)
            for (int64_t i = 0; i < spec.resultElements[0]; ++i) {
              const auto of = [&](int member, int64_t at) { return valueOf(turn, c, member, at); };
              const int64_t at =
                  spec.kind == CollectiveKind::Scatter ? i + (own.first + m) * spec.resultElements[0] : i;
              const float expected = spec.kind == CollectiveKind::Gather
                                         ? of(static_cast<int>(i / kElements), i % kElements)
                                         : ((of(0, at) + of(1, at)) + (of(2, at) + of(3, at))) + of(4, at);
              ASSERT_EQ(out[static_cast<size_t>(m)][static_cast<size_t>(i)], expected)
                  << "turn " << turn << ", collective " << c << ", member " << own.first + m << ", element " << i;
            }
        }
    });
  for (std::thread &t : threads) t.join();
}

TEST(SharedGroups, a_process_at_another_collective_is_seen) {
  Processes processes(layoutOf({1, 1}, {"a", "a"}), {sumOf(2, 10), sumOf(2, 20)});
  std::map<std::byte *, uint64_t> uses[2];
  const auto here = processes.groupsOf(0, uses[0]), there = processes.groupsOf(1, uses[1]);
  std::vector<float> values(20, 1);
  const std::vector<PublishedOperands> operands{{{values.data()}, {values.data()}}};
  here[0]->begin(operands);
  EXPECT_EQ(here[0]->late(Wait::Operands), 1);
  there[1]->begin(operands);
  EXPECT_EQ(here[0]->late(Wait::Operands), -1);
  EXPECT_EQ(here[0]->astray(), 1);
  EXPECT_EQ(there[1]->astray(), 0);
}

TEST(SharedGroups, the_place_of_a_split_collective_is_free_when_all_have_left_it) {
  Processes processes(layoutOf({1, 1}, {"a", "a"}), {sumOf(2, 10, 3)});
  std::map<std::byte *, uint64_t> uses[2];
  const auto here = processes.groupsOf(0, uses[0]), there = processes.groupsOf(1, uses[1]);
  std::vector<float> values(10, 1);
  const std::vector<PublishedOperands> operands{{{values.data()}, {values.data()}}};
  EXPECT_EQ(here[0]->late(Wait::Place), -1);
  here[0]->begin(operands);
  there[0]->begin(operands);
  EXPECT_EQ(here[0]->late(Wait::Place), 1);
  there[0]->leave();
  EXPECT_EQ(here[0]->late(Wait::Place), -1);
}

// Three processes that always sleep, in places of one and of two areas. A wake-up that is lost would take kLong.
TEST(SharedGroups, no_wake_up_is_lost) {
  constexpr int kTurns = 3000;
  const auto layout = layoutOf({1, 1, 1}, {"a", "a", "a"});
  Processes processes(layout, {sumOf(3, 1), sumOf(3, 1, 5)});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int p = 0; p < layout.processes(); ++p)
    threads.emplace_back([&, p] {
      std::map<std::byte *, uint64_t> uses;
      const auto groups = processes.groupsOf(p, uses);
      std::minstd_rand random(static_cast<unsigned>(p) + 1);
      float value = 0;
      const std::vector<PublishedOperands> operands{{{&value}, {&value}}};
      for (int turn = 0; turn < kTurns; ++turn)
        for (const auto &group : groups) {
          while (group->late(Wait::Place) >= 0) ASSERT_TRUE(group->sleep(Wait::Place, kLong));
          for (unsigned i = random() % 400; i > 0; --i) value = std::sqrt(value + 1);  // others come in any order
          group->begin(operands);
          while (group->late(Wait::Operands) >= 0) ASSERT_TRUE(group->sleep(Wait::Operands, kLong));
          group->leave();
        }
    });
  for (std::thread &t : threads) t.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
}

TEST(SharedGroups, a_sleep_ends_by_time_or_by_waking_all) {
  Processes processes(layoutOf({1, 1}, {"a", "a"}), {sumOf(2, 10)});
  std::map<std::byte *, uint64_t> uses[2];
  const auto here = processes.groupsOf(0, uses[0]), there = processes.groupsOf(1, uses[1]);
  std::vector<float> values(10, 1);
  const std::vector<PublishedOperands> operands{{{values.data()}, {values.data()}}};
  here[0]->begin(operands);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(here[0]->sleep(Wait::Operands, std::chrono::milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(29));
  EXPECT_EQ(here[0]->late(Wait::Operands), 1);
  std::atomic<bool> isAwake{false};
  std::thread waker([&] {
    while (!isAwake.load()) there[0]->wakeAll();
  });
  EXPECT_TRUE(here[0]->sleep(Wait::Operands, kLong));
  isAwake.store(true);
  waker.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
}

}  // namespace
}  // namespace popart::runtime
