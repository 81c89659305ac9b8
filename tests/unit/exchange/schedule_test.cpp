// Schedules of all processes of a group, played in memory: messages fit together, and results have the bits of the tree
// over single members whatever the order of messages.
#include "exchange/schedule.hpp"

#include <cstring>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <popart/error.hpp>

#include "unit/exchange/job.hpp"

namespace popart::exchange {
namespace {

using executable::Join;
using testing::HasSubstr;

// One process that follows its schedule: memories are Values, of received terms too, in their full size.
class Player {
 public:
  Player(const ExchangeSpec &spec, Schedule schedule, const GroupValues &values, const MemberRange &own)
      : spec_(spec), schedule_(std::move(schedule)), memories_(values.inputs(own.first, own.count)), values_(values) {
    EXPECT_EQ(static_cast<int>(memories_.size()), schedule_.inputs);
    for (int r = 0; r < schedule_.results; ++r) memories_.push_back(valuesOf(spec.resultElements, kUnwritten));
    for (size_t r = 0; r < schedule_.received.size(); ++r) memories_.push_back(valuesOf(spec.elements, kUnwritten));
    for (const Round &round : schedule_.rounds) {
      left_.push_back({round.sends.size(), round.receives.size(), {}});
      left_.back().arrivals.assign(round.joins.size(), 0);
    }
    begin();
  }

  const Schedule &schedule() const { return schedule_; }
  bool isComplete() const { return complete_ == schedule_.rounds.size(); }
  std::vector<Values> results() const {
    const auto first = memories_.begin() + schedule_.inputs;
    return {first, first + schedule_.results};
  }

  // Whether the sends of the round, or its receives, have begun.
  bool sends(size_t round) const { return round <= complete_; }
  bool receives(size_t round) const {
    for (size_t r = 0; r < round; ++r)
      if (left_[r].sends > 0) return false;
    return true;
  }

  std::vector<float> read(const Message &m) const {
    std::vector<float> data;
    for (const Place &p : m.places) {
      const float *from = at(p);
      data.insert(data.end(), from, from + (p.range.end - p.range.begin));
    }
    return data;
  }
  void sent(size_t round) { --left_[round].sends; }
  void arrive(size_t round, const Message &m, const std::vector<float> &data) {
    const float *from = data.data();
    int last = -1;
    for (const Place &p : m.places) {
      const int64_t count = p.range.end - p.range.begin;
      std::copy_n(from, count, at(p));
      from += count;
    }
    for (const Place &p : m.places)
      if (schedule_.isReceived(p.memory) && p.memory != last) arrived(round, last = p.memory);
    --left_[round].receives;
    begin();
  }

 private:
  struct Left {
    size_t sends, receives;
    std::vector<int> arrivals;  // by join
  };
  float *at(const Place &p) {
    return memories_.at(static_cast<size_t>(p.memory))[static_cast<size_t>(p.range.operand)].data() + p.range.begin;
  }
  const float *at(const Place &p) const { return const_cast<Player *>(this)->at(p); }

  void arrived(size_t r, int memory) {
    const Round &round = schedule_.rounds[r];
    int step = round.firstJoin.at(static_cast<size_t>(memory));
    while (step >= 0 && ++left_[r].arrivals[static_cast<size_t>(step)] == 2) {
      const JoinStep &join = round.joins[static_cast<size_t>(step)];
      for (const Range &range : round.joined)
        for (int64_t i = range.begin; i < range.end; ++i) {
          const float a = *at({join.left, {range.operand, i, i + 1}}), b = *at({join.right, {range.operand, i, i + 1}});
          *at({join.into, {range.operand, i, i + 1}}) = spec_.join == Join::Mul ? a * b : a + b;
        }
      step = join.next;
    }
  }

  // Completes rounds as far as messages have come; own terms join the round that begins.
  void begin() {
    for (; complete_ < schedule_.rounds.size(); ++complete_) {
      const Round &round = schedule_.rounds[complete_];
      if (begun_ == complete_) {
        ++begun_;
        for (int m = 0; m < schedule_.inputs && !round.firstJoin.empty(); ++m) arrived(complete_, m);
      }
      if (left_[complete_].receives > 0) return;
      for (const int arrivals : left_[complete_].arrivals) EXPECT_EQ(arrivals, 2);
      for (const Copy &c : round.copies)
        std::transform(at(c.from), at(c.from) + (c.from.range.end - c.from.range.begin), at(c.to),
                       [&](float x) { return values_.asElement(x); });
    }
  }

  const ExchangeSpec &spec_;
  Schedule schedule_;
  std::vector<Values> memories_;
  const GroupValues &values_;
  std::vector<Left> left_;  // by round
  size_t complete_ = 0, begun_ = 0;
};

struct Sent {
  size_t sender, receiver, round, send, receive;  // receive: number of the message there
};

// Every send with its receive; no message of either side is left over.
std::vector<Sent> pairsOf(const std::vector<std::unique_ptr<Player>> &players,
                          const std::vector<MemberRange> &members) {
  std::map<std::tuple<int, int, size_t>, std::pair<size_t, size_t>> receives;
  for (size_t p = 0; p < players.size(); ++p) {
    const Schedule &schedule = players[p]->schedule();
    for (size_t r = 0; r < schedule.rounds.size(); ++r)
      for (size_t m = 0; m < schedule.rounds[r].receives.size(); ++m)
        EXPECT_TRUE(receives.try_emplace({schedule.rounds[r].receives[m].peer, members[p].process, r}, p, m).second);
  }
  std::vector<Sent> pairs;
  for (size_t p = 0; p < players.size(); ++p) {
    const Schedule &schedule = players[p]->schedule();
    for (size_t r = 0; r < schedule.rounds.size(); ++r)
      for (size_t m = 0; m < schedule.rounds[r].sends.size(); ++m) {
        const Message &send = schedule.rounds[r].sends[m];
        const auto found = receives.find({members[p].process, send.peer, r});
        if (found == receives.end()) {
          ADD_FAILURE() << "process " << members[p].process << " sends to " << send.peer << " in round " << r
                        << ", which does not receive";
          continue;
        }
        const auto [receiver, number] = found->second;
        EXPECT_EQ(players[receiver]->schedule().rounds[r].receives[number].bytes, send.bytes);
        pairs.push_back({p, receiver, r, m, number});
        receives.erase(found);
      }
  }
  EXPECT_TRUE(receives.empty());
  return pairs;
}

void play(const ExchangeSpec &spec, const ReplicaLayout &layout, const LinkCost &cost, unsigned seed) {
  const ReplicaGrouping grouping = groupingOf(spec, layout);
  const std::vector<MemberRange> members = membersOf(layout, grouping, spec.group);
  const GroupValues values(spec, seed);
  std::vector<std::unique_ptr<Player>> players;
  for (const MemberRange &m : members)
    players.push_back(std::make_unique<Player>(spec, planExchange(spec, layout, m.process, cost), values, m));
  std::vector<Sent> pending = pairsOf(players, members);
  std::mt19937 random(seed);
  while (!pending.empty()) {
    // The first of a random order whose two sides have begun; its bytes are read when it arrives.
    std::ranges::shuffle(pending, random);
    const auto ready = std::ranges::find_if(pending, [&](const Sent &s) {
      return players[s.sender]->sends(s.round) && players[s.receiver]->receives(s.round);
    });
    ASSERT_NE(ready, pending.end()) << "the processes wait for each other";
    const Sent s = *ready;
    pending.erase(ready);
    Player &sender = *players[s.sender], &receiver = *players[s.receiver];
    const std::vector<float> data = sender.read(sender.schedule().rounds[s.round].sends[s.send]);
    sender.sent(s.round);
    receiver.arrive(s.round, receiver.schedule().rounds[s.round].receives[s.receive], data);
  }
  for (size_t p = 0; p < players.size(); ++p) {
    ASSERT_TRUE(players[p]->isComplete());
    const std::vector<Values> results = players[p]->results(),
                              expected = values.results(members[p].first, members[p].count);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t o = 0; o < results[r].size(); ++o)
        ASSERT_EQ(std::memcmp(results[r][o].data(), expected[r][o].data(), results[r][o].size() * sizeof(float)), 0)
            << "process " << members[p].process << ", result " << r << ", operand " << o;
  }
}

// With each algorithm that the processes can follow.
void playEach(const ExchangeSpec &spec, const ReplicaLayout &layout, unsigned seed) {
  play(spec, layout, kForDirect, seed);
  const auto first =
      static_cast<int>(ReplicaGrouping(static_cast<unsigned>(layout.replicas()), static_cast<unsigned>(spec.stride),
                                       static_cast<unsigned>(spec.groupSize))
                           .getReplicaAt(static_cast<unsigned>(spec.group)));
  if (planExchange(spec, layout, layout.processOf(first), kForHalving).algorithm == Algorithm::Halving)
    play(spec, layout, kForHalving, seed);
}

std::string describe(const ExchangeSpec &spec, const std::vector<int> &counts) {
  return "operation " + std::to_string(static_cast<int>(spec.operation)) + ", type " + toText(spec.type) +
         ", replicas " + testing::PrintToString(counts);
}

class ExchangeSchedule : public testing::TestWithParam<int> {};

TEST_P(ExchangeSchedule, gives_the_bits_of_the_tree) {
  for (const std::vector<int> &counts : countsFor(GetParam())) {
    const ReplicaLayout layout = layoutOf(counts);
    for (const ExchangeSpec &spec : specsOf(layout.replicas())) {
      SCOPED_TRACE(describe(spec, counts));
      playEach(spec, layout, 5);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(processes, ExchangeSchedule, testing::Range(1, 18));

TEST(ExchangeSchedules, of_groups_with_strides_and_of_several_groups) {
  for (const std::vector<int> &counts : {std::vector<int>{6, 6}, {3, 3, 3, 3}, {1, 5, 2, 4}, {2, 2, 2, 2, 2, 2}}) {
    const ReplicaLayout layout = layoutOf(counts);
    for (const auto &[stride, size] : {std::pair{1, 4}, {1, 6}, {2, 3}, {2, 6}, {3, 2}, {3, 4}, {4, 3}, {6, 2}, {1, 1}})
      for (int group = 0; group < layout.replicas() / size; ++group)
        for (ExchangeSpec spec : specsOf(size, stride)) {
          spec.group = group;
          SCOPED_TRACE(describe(spec, counts));
          playEach(spec, layout, 9);
          if (HasFatalFailure()) return;
        }
  }
}

// 2 (P - 1) / P N bytes for an all-reduce, half of it for each half, of terms in the first.
TEST(ExchangeSchedules, send_the_least_bytes) {
  for (const int processes : {2, 3, 4, 7, 8, 16}) {
    const ReplicaLayout layout = layoutOf(std::vector<int>(static_cast<size_t>(processes), 2));
    const int64_t n = int64_t{processes} * 64 * 6, share = n / processes * (processes - 1);
    const auto plan = [&](Operation operation, DataType type, const LinkCost &cost, int64_t elements, int64_t results) {
      const ExchangeSpec spec{operation, Join::Add, type, 2 * processes, 1, 0, 0, {elements}, {results}};
      return planExchange(spec, layout, processes / 2, cost);
    };
    for (const LinkCost &cost : {kForDirect, kForHalving}) {
      const Schedule sum = plan(Operation::AllReduce, DataType::FLOAT, cost, n, n);
      EXPECT_EQ(sum.sentBytes(), 2 * 4 * share);
      EXPECT_EQ(sum.receivedBytes, 4 * share);
      EXPECT_EQ(plan(Operation::AllReduce, DataType::FLOAT16, cost, n, n).sentBytes(), (4 + 2) * share);
      EXPECT_EQ(plan(Operation::ReduceScatter, DataType::FLOAT, cost, n, n / 2 / processes).sentBytes(), 4 * share);
      EXPECT_EQ(plan(Operation::ReduceScatter, DataType::FLOAT, cost, n, n / 2 / processes).receivedBytes, 4 * share);
      EXPECT_EQ(plan(Operation::AllGather, DataType::INT8, cost, n / 2 / processes, n).sentBytes(), share);
    }
    EXPECT_EQ(plan(Operation::AllToAll, DataType::FLOAT, {}, n, n).sentBytes(), 2 * 4 * share);
    const Schedule direct = plan(Operation::AllReduce, DataType::FLOAT, kForDirect, n, n);
    EXPECT_EQ(direct.sentMessages(), 2 * (processes - 1));
    if (processes == 8 || processes == 16) {
      const Schedule halving = plan(Operation::AllReduce, DataType::FLOAT, kForHalving, n, n);
      EXPECT_EQ(halving.algorithm, Algorithm::Halving);
      EXPECT_EQ(halving.sentMessages(), processes == 8 ? 6 : 8);
    }
  }
}

// Of 16-bit elements, terms of one member travel as they are. Sums of halves are wider.
TEST(ExchangeSchedules, single_members_send_no_wider_terms) {
  const auto sent = [](const std::vector<int> &counts, int process, const LinkCost &cost, DataType type) {
    const ReplicaLayout layout = layoutOf(counts);
    const int64_t n = 64 * 24;
    const ExchangeSpec spec{Operation::AllReduce, Join::Add, type, layout.replicas(), 1, 0, 0, {n}, {n}};
    return planExchange(spec, layout, process, cost).sentBytes() / 64;
  };
  for (const DataType type : {DataType::FLOAT16, DataType::BFLOAT16})
    for (int p = 0; p < 4; ++p) {
      EXPECT_EQ(sent({1, 1, 1, 1}, p, kForDirect, type), 18 * 2 + 18 * 2);
      EXPECT_EQ(sent({1, 1, 1, 1}, p, kForHalving, type), 12 * 2 + 6 * 4 + 18 * 2);
      EXPECT_EQ(sent({2, 2, 2, 2}, p, kForDirect, type), 18 * 4 + 18 * 2);
      EXPECT_EQ(sent({1, 1, 1, 1}, p, kForDirect, DataType::FLOAT), 18 * 4 + 18 * 4);
    }
  EXPECT_EQ(sent({2, 1, 1}, 0, kForDirect, DataType::FLOAT16), 16 * 4 + 16 * 2);
  EXPECT_EQ(sent({2, 1, 1}, 2, kForDirect, DataType::FLOAT16), 16 * 2 + 16 * 2);
  EXPECT_EQ(sent({3, 1}, 0, kForDirect, DataType::FLOAT16), 12 * 4 + 12 * 2 + 12 * 2);  // a sum of two, and one
}

TEST(ExchangeSchedules, processes_with_several_terms_send_each) {
  const ReplicaLayout layout = layoutOf({3, 3, 3, 3});
  const int64_t n = 4 * 64;
  const ExchangeSpec spec{Operation::AllReduce, Join::Add, DataType::FLOAT, 12, 1, 0, 0, {n}, {n}};
  for (int p = 0; p < 4; ++p) {
    const Schedule schedule = planExchange(spec, layout, p, kForHalving);
    EXPECT_EQ(schedule.algorithm, Algorithm::Direct);  // which does not follow from the costs
    EXPECT_EQ(schedule.inputs, 2);
    EXPECT_EQ(schedule.sentBytes(), 4 * (2 * 192 + 192));
  }
}

TEST(ExchangeSchedules, choose_the_algorithm_by_processes_and_bytes) {
  const auto chosen = [](int processes, int64_t elements, Operation operation = Operation::AllReduce) {
    const ReplicaLayout layout = layoutOf(std::vector<int>(static_cast<size_t>(processes), 1));
    const ExchangeSpec spec{operation, Join::Add, DataType::FLOAT, processes, 1, 0, 0, {elements}, {elements}};
    return planExchange(spec, layout, 0, {20e3, 2e3, 0.8}).algorithm;
  };
  EXPECT_EQ(chosen(4, 1 << 20), Algorithm::Direct);
  EXPECT_EQ(chosen(128, 1 << 20), Algorithm::Halving);
  EXPECT_EQ(chosen(127, 1 << 20), Algorithm::Direct);  // no power of two
  EXPECT_EQ(chosen(64, 1 << 20), Algorithm::Halving);
  EXPECT_EQ(chosen(64, 1), Algorithm::Direct);  // one process joins it all
  EXPECT_EQ(chosen(8, 1 << 24, Operation::Broadcast), Algorithm::Direct);
  EXPECT_EQ(chosen(512, 1, Operation::Broadcast), Algorithm::Halving);
}

TEST(ExchangeSchedules, short_operands_have_few_messages) {
  const ReplicaLayout layout = layoutOf(std::vector<int>(8, 1));
  const ExchangeSpec spec{Operation::AllReduce, Join::Add, DataType::FLOAT, 8, 1, 0, 0, {5}, {5}};
  int messages = 0;
  for (int p = 0; p < 8; ++p) messages += planExchange(spec, layout, p, kForDirect).sentMessages();
  EXPECT_EQ(messages, 14);  // to the one that joins the line, and back
}

TEST(ExchangeSchedules, keep_and_single_processes_send_nothing) {
  const ReplicaLayout layout = layoutOf({4, 4});
  for (const ExchangeSpec &spec : specsOf(4)) EXPECT_EQ(planExchange(spec, layout, 0, {}).sentMessages(), 0);
  const ExchangeSpec keep{Operation::ReduceScatter, Join::Keep, DataType::FLOAT, 8, 1, 0, 0, {80}, {10}};
  EXPECT_EQ(planExchange(keep, layout, 1, {}).sentMessages(), 0);
  EXPECT_EQ(planExchange(keep, layout, 1, {}).rounds[0].copies.size(), 4u);
}

TEST(ExchangeSchedules, refuse_numbers_that_contradict_each_other) {
  const ReplicaLayout layout = layoutOf({2, 2});
  const auto refused = [&](ExchangeSpec spec, int process, const char *text) {
    try {
      planExchange(spec, layout, process, {});
      FAIL() << "expected: " << text;
    } catch (const error &e) {
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  };
  const ExchangeSpec good{Operation::AllReduce, Join::Add, DataType::FLOAT, 4, 1, 0, 0, {8}, {8}};
  const auto with = [&](auto change) {
    ExchangeSpec spec = good;
    change(spec);
    return spec;
  };
  refused(with([](auto &s) { s.resultElements = {7}; }), 0, "result 0 of an operand of 8 elements");
  refused(with([](auto &s) { s.resultElements = {}; }), 0, "got 1 operands and 0 results");
  refused(with([](auto &s) { s.operation = Operation::ReduceScatter; }), 0, "expected 2");
  refused(with([](auto &s) { s.operation = Operation::AllToAll, s.elements = s.resultElements = {6}; }), 0,
          "must divide into a chunk per member");
  refused(with([](auto &s) { s.operation = Operation::AllGather, s.resultElements = {33}; }), 0, "expected 32");
  refused(with([](auto &s) { s.root = 4; }), 0, "root 4 is not a member of a group of 4");
  refused(with([](auto &s) { s.groupSize = 3; }), 0, "must divide the number of replicas");
  refused(with([](auto &s) { s.stride = 0; }), 0, "got groups of 4 members 0 apart");
  refused(with([](auto &s) { s.group = 1; }), 0, "out of range");
  refused(with([](auto &s) { s.groupSize = 2; }), 1, "process 1 on host 'host0' (replicas 2 to 3) holds none");
  refused(with([](auto &s) { s.elements = s.resultElements = {-1}; }), 0, "expected no negative number");
}

TEST(ExchangeSchedules, of_the_collectives_of_executables) {
  executable::CollectiveSpec spec;
  spec.kind = executable::CollectiveKind::Scatter;
  spec.join = Join::Max;
  spec.type = DataType::INT32;
  spec.groupSize = 3, spec.stride = 2;
  spec.elements = {7}, spec.resultElements = {3};
  const ExchangeSpec scatter = exchangeSpec(spec);
  EXPECT_EQ(scatter.operation, Operation::ReduceScatter);
  EXPECT_EQ(scatter.join, Join::Max);
  EXPECT_EQ(scatter.type, DataType::INT32);
  EXPECT_EQ(scatter.groupSize, 3);
  EXPECT_EQ(scatter.stride, 2);
  EXPECT_EQ(scatter.elements, spec.elements);
  EXPECT_EQ(scatter.resultElements, spec.resultElements);
  spec.kind = executable::CollectiveKind::Gather;
  EXPECT_EQ(exchangeSpec(spec).operation, Operation::AllGather);
  spec.kind = executable::CollectiveKind::Reduce;
  EXPECT_EQ(exchangeSpec(spec).operation, Operation::AllReduce);
}

}  // namespace
}  // namespace popart::exchange
