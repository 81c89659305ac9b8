// Bytes between processes, which are threads here: every text comes to its member, groups of some members share a
// network, and failures name who is missing.
#include "exchange/host_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <popart/error.hpp>

#include "../support/message_of.hpp"
#include "support/borrowed_transport.hpp"
#include "support/fake_ranks.hpp"

namespace popart::exchange {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// f(group) in each process, which drives one replica.
template <class F>
void onEach(int processes, const HostGroupSettings &settings, F f) {
  test::FakeRanks ranks(processes, 11);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      HostGroup group(std::make_unique<test::Borrowed>(ranks.transport(p)), {processes, 1, p}, settings);
      f(group);
    });
  for (std::thread &t : threads) t.join();
}

std::string textOf(int from, int to, size_t bytes) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(static_cast<size_t>(from * 7 + to * 31) + i * 13);
  return text;
}

// Gives member m of a group the text of `processes`, and looks at what came.
void expectTexts(HostGroup &group, const std::vector<int> &processes, size_t longest) {
  const int own = processes[static_cast<size_t>(group.member())];
  const auto bytes = [&](int from, int to) { return longest * static_cast<size_t>(1 + (from + to) % 3) / 3; };
  std::vector<std::string> texts;
  for (const int p : processes) texts.push_back(textOf(own, p, bytes(own, p)));
  const std::vector<std::string> got =
      group.exchange(std::vector<std::string_view>(texts.begin(), texts.end()), "test");
  ASSERT_EQ(got.size(), processes.size());
  for (size_t m = 0; m < got.size(); ++m)
    EXPECT_TRUE(got[m] == textOf(processes[m], own, bytes(processes[m], own))) << "from " << m << " to " << own;
}

// Barrier.
void synchronize(HostGroup &group) {
  group.exchange(std::vector<std::string_view>(static_cast<size_t>(group.members())), "synchronize");
}

TEST(HostGroup, every_member_gets_what_each_gave_it) {
  for (const int processes : {1, 2, 5})
    onEach(processes, {}, [&](HostGroup &group) {
      std::vector<int> all;
      for (int p = 0; p < processes; ++p) all.push_back(p);
      for (const size_t longest : {0, 1, 100, 4'079, 4'080, 4'081, 100'000, 3}) expectTexts(group, all, longest);
      EXPECT_THAT(group.describe(processes - 1), StartsWith("process " + toText(processes - 1) + " on host '"));
    });
}

TEST(HostGroup, groups_of_some_members_share_the_network) {
  onEach(5, {}, [](HostGroup &group) {
    const int own = group.member();
    const std::unique_ptr<HostGroup> odd = group.subset(std::vector{1, 3}),
                                     most = group.subset(std::vector{0, 1, 3, 4});
    EXPECT_EQ(odd != nullptr, own == 1 || own == 3);
    EXPECT_EQ(most != nullptr, own != 2);
    const std::unique_ptr<HostGroup> inner = most ? most->subset(std::vector{1, 3}) : nullptr;  // processes 1 and 4
    EXPECT_EQ(inner != nullptr, own == 1 || own == 4);
    for (size_t turn = 0; turn < 20; ++turn) {
      if (odd) expectTexts(*odd, {1, 3}, turn * 1'000);
      if (most) expectTexts(*most, {0, 1, 3, 4}, turn * 700);
      if (inner) expectTexts(*inner, {1, 4}, turn * 900);
      if (turn % 7 == 0) expectTexts(group, {0, 1, 2, 3, 4}, 5'000);
    }
  });
}

TEST(HostGroup, bad_numbers_of_members_are_refused) {
  onEach(2, {}, [](HostGroup &group) {
    for (const std::vector<int> &members : {std::vector{1, 0}, {0, 0}, {2}, {-1}})
      EXPECT_THAT(test::messageOf([&] { group.subset(members); }), HasSubstr("expected ascending numbers below 2"));
    EXPECT_THAT(test::messageOf([&] { group.exchange({}, "test"); }),
                HasSubstr("test: got 0 texts, expected one for each of 2 members"));
  });
}

TEST(HostGroup, who_does_not_come_is_named_to_all) {
  onEach(4, {.warnAfter = milliseconds(50), .timeout = milliseconds(200)}, [](HostGroup &group) {
    synchronize(group);
    if (group.member() > 1) return;
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(
          test::messageOf([&] { synchronize(group); }),
          AllOf(HasSubstr("synchronize: process 2 on host '"), HasSubstr("(replica 2), process 3 on host '"),
                HasSubstr("did not come within 0.2 s. Look for a process that stopped"), HasSubstr("POPDIST_TIMEOUT")));
  });
}

TEST(HostGroup, members_of_different_groups_do_not_wait_for_each_other) {
  onEach(3, {.timeout = milliseconds(10'000)}, [](HostGroup &group) {
    const std::unique_ptr<HostGroup> two = group.subset(std::vector{0, 1});
    EXPECT_THAT(test::messageOf([&] { synchronize(group.member() == 0 ? *two : group); }),
                HasSubstr("is in an operation of other processes than this one"));
  });
}

TEST(HostGroup, an_interrupt_ends_the_wait_of_all) {
  struct Interrupt {};
  HostGroupSettings settings{.timeout = milliseconds(20'000), .look = [] { throw Interrupt(); }};
  test::FakeRanks ranks(2, 3);
  std::thread other([&] {
    HostGroup group(std::make_unique<test::Borrowed>(ranks.transport(1)), {2, 1, 1}, {.timeout = milliseconds(20'000)});
    while (!ranks.transport(1).failure()) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_THAT(test::messageOf([&] { synchronize(group); }),
                AllOf(StartsWith("process 0 on host '"), HasSubstr("the wait for the others was interrupted")));
  });
  HostGroup group(std::make_unique<test::Borrowed>(ranks.transport(0)), {2, 1, 0}, settings);
  EXPECT_THROW(synchronize(group), Interrupt);
  other.join();
}

}  // namespace
}  // namespace popart::exchange
