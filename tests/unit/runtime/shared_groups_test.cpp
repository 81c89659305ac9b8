// Collectives in memory that processes share. Here processes are threads that share plain memory, so that the thread
// sanitizer sees what they do.
#include "runtime/shared_groups.hpp"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "executable/host_kernel.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;

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
  EXPECT_EQ(two.at(0, 0), two.at(1, 0));
  EXPECT_NE(two.at(0, 0), two.at(2, 0));
  EXPECT_EQ(two.bytes(), 64 + 2 * 4032 + 64 + 2 * 64);
  EXPECT_EQ(one.bytes(), 64 + 4032 + 64 + 64);
}

// Three processes with 2, 1 and 2 members of five sum, scatter and gather in turns, a hundred times.
TEST(SharedGroups, processes_join_what_all_have_published) {
  constexpr int kMembers = 5, kTurns = 100, kElements = 3000;
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

  std::vector<SharedPlaces> places;
  std::vector<std::vector<std::byte>> segments;
  for (int p = 0; p < layout.processes(); ++p) {
    places.emplace_back(addressesOf(specs), layout, p);
    segments.emplace_back(static_cast<size_t>(places.back().bytes()) + 64);
  }
  const auto segmentOf = [&](int p) {
    std::byte *at = segments[static_cast<size_t>(p)].data();
    return at + (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
  };
  const auto members = exchange::membersOf(layout, ReplicaGrouping(kMembers, 1, kMembers), 0);
  std::vector<std::thread> threads;
  for (int p = 0; p < layout.processes(); ++p)
    threads.emplace_back([&, p] {
      const auto own = members[static_cast<size_t>(p)];
      std::map<std::byte *, uint64_t> uses;
      std::vector<std::unique_ptr<SharedGroup>> groups;
      for (int c = 0; c < static_cast<int>(specs.size()); ++c) {
        std::vector<SharedGroup::Published> all;
        const auto placeOf = [&](int q) { return segmentOf(q) + places[static_cast<size_t>(q)].at(c, 0); };
        for (const auto &m : members) all.push_back({m, placeOf(m.process)});
        groups.push_back(
            std::make_unique<SharedGroup>(specs[static_cast<size_t>(c)], c, all, placeOf(p), uses[placeOf(p)]));
      }
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
          while (group.occupant() >= 0) std::this_thread::yield();
          group.begin(published);
          for (SharedGroup::Missing missing; (missing = group.missing()).late >= 0;) std::this_thread::yield();
          EXPECT_EQ(group.missing().astray, -1);
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
  const auto layout = layoutOf({1, 1}, {"a", "a"});
  const std::vector<CollectiveSpec> specs{sumOf(2, 10), sumOf(2, 20)};
  const auto members = exchange::membersOf(layout, ReplicaGrouping(2, 1, 2), 0);
  const SharedPlaces places(addressesOf(specs), layout, 0);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> segments[2];
  for (auto &segment : segments) segment.resize(static_cast<size_t>(places.bytes() / 64));
  uint64_t uses[2] = {};
  std::vector<float> values(20, 1);
  const auto groupOf = [&](int process, int collective) {
    std::vector<SharedGroup::Published> all;
    std::byte *place[2];
    for (int q = 0; q < 2; ++q) {
      place[q] = segments[q][0].bytes + places.at(collective, 0);
      all.push_back({members[static_cast<size_t>(q)], place[q]});
    }
    return SharedGroup(specs[static_cast<size_t>(collective)], collective, all, place[process], uses[process]);
  };
  SharedGroup here = groupOf(0, 0), there = groupOf(1, 1), later = groupOf(0, 1);
  const std::vector<PublishedOperands> operands{{{values.data()}, {values.data()}}};
  here.begin(operands);
  EXPECT_EQ(here.missing().late, 1);
  there.begin(operands);
  EXPECT_EQ(here.missing().late, -1);
  EXPECT_EQ(here.missing().astray, 1);
  EXPECT_EQ(there.missing().astray, 0);
  // The place is free when the other process has taken what was there.
  EXPECT_EQ(later.occupant(), 1);
  there.leave();
  EXPECT_EQ(later.occupant(), -1);
}

}  // namespace
}  // namespace popart::runtime
