// Exchanges between processes that are threads, over a network that delays and reorders messages: results have the bits
// of the tree over single members, and what goes wrong ends in an error that names the process.
#include "exchange/exchange.hpp"

#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <popart/error.hpp>

#include "base/element_types.hpp"
#include "base/threads/wait_while.hpp"
#include "exchange/join.hpp"
#include "support/fake_ranks.hpp"
#include "unit/exchange/job.hpp"

namespace popart::exchange {
namespace {

using executable::Join;
using std::chrono::milliseconds;
using test::FakeRanks;
using testing::AllOf;
using testing::HasSubstr;

// Elements of a type in memory of their own, from floats and back.
class Elements {
 public:
  Elements(DataType type, const Values &values) : type_(type) {
    for (const std::vector<float> &operand : values) {
      auto &bytes = bytes_.emplace_back(std::max<size_t>(operand.size(), 1) * width());
      forElement(kRealElements, type, [&]<class T>(T) {
        for (size_t i = 0; i < operand.size(); ++i) reinterpret_cast<T *>(bytes.data())[i] = asElement<T>(operand[i]);
      });
    }
  }
  std::vector<void *> addresses() {
    std::vector<void *> all;
    for (auto &bytes : bytes_) all.push_back(bytes.data());
    return all;
  }
  bool operator==(const Elements &) const = default;

 private:
  size_t width() const { return static_cast<size_t>(getDataTypeInfo(type_).nbytes); }
  DataType type_;
  std::vector<std::vector<std::byte>> bytes_;
};

bool reduces(const ExchangeSpec &spec) {
  return spec.operation == Operation::AllReduce ||
         (spec.operation == Operation::ReduceScatter && spec.join != Join::Keep);
}

// One operation of one process, with memory of its own.
struct OwnPart {
  OwnPart(const ExchangeSpec &spec, const GroupValues &values, const MemberRange &members)
      : type(spec.type),
        first(values.inputs(members.first, members.count)),
        expected(values.results(members.first, members.count)) {
    inputTypes.assign(first.size(), type);
    if (reduces(spec)) {
      const std::vector<Node> terms = termsOf(members.first, members.count, spec.groupSize);
      for (size_t t = 0; t < terms.size(); ++t)
        if (membersIn(terms[t], spec.groupSize) > 1) inputTypes[t] = termType(type);
    }
    for (size_t i = 0; i < first.size(); ++i) inputs.emplace_back(inputTypes[i], first[i]);
    for (size_t r = 0; r < expected.size(); ++r) results.emplace_back(type, valuesOf(spec.resultElements, kUnwritten));
    for (Elements &e : inputs) memory.inputs.push_back(e.addresses());
    for (Elements &e : results) memory.results.push_back(e.addresses());
  }
  // Inputs again, since reductions write them; results that were not written show.
  void refill() {
    for (size_t i = 0; i < inputs.size(); ++i)
      assign(memory.inputs[i], Elements(inputTypes[i], first[i]), first[i], inputTypes[i]);
    for (size_t r = 0; r < results.size(); ++r) {
      Values unwritten = expected[r];
      for (auto &operand : unwritten) std::ranges::fill(operand, kUnwritten);
      assign(memory.results[r], Elements(type, unwritten), unwritten, type);
    }
  }
  static void assign(const std::vector<void *> &to, Elements from, const Values &sizes, DataType type) {
    for (size_t o = 0; o < to.size(); ++o)
      std::memcpy(to[o], from.addresses()[o], sizes[o].size() * static_cast<size_t>(getDataTypeInfo(type).nbytes));
  }
  bool isRight() const {
    for (size_t r = 0; r < results.size(); ++r)
      if (!(results[r] == Elements(type, expected[r]))) return false;
    return true;
  }

  DataType type;
  std::vector<DataType> inputTypes;
  std::vector<Values> first, expected;
  std::vector<Elements> inputs, results;
  ExchangeMemory memory;
};

// A thread for each process of the job.
void onAll(int processes, const std::function<void(int process)> &work) {
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      try {
        work(p);
      } catch (const std::exception &e) {
        ADD_FAILURE() << "process " << p << ": " << e.what();
      }
    });
  for (std::thread &t : threads) t.join();
}

ExchangeSettings settingsFor(const LinkCost &cost) {
  ExchangeSettings settings;
  settings.cost = cost;
  settings.spin = false;
  settings.timeout = milliseconds(60'000);
  return settings;
}

// All groups of all operations several times, some of them under way at the same time.
void runJob(const std::vector<int> &counts, const std::vector<ExchangeSpec> &collectives, ExchangeSettings settings,
            unsigned seed) {
  const ReplicaLayout layout = layoutOf(counts);
  FakeRanks ranks(layout.processes(), seed);
  onAll(layout.processes(), [&](int process) {
    std::vector<std::unique_ptr<OwnPart>> parts;
    Exchange exchange(ranks.transport(process), layout, settings);
    for (size_t c = 0; c < collectives.size(); ++c) {
      ExchangeSpec spec = collectives[c];
      const ReplicaGrouping grouping = groupingOf(spec, layout);
      for (const int group : groupsOf(layout, grouping, process)) {
        spec.group = group;
        const GroupValues values(spec, seed + static_cast<unsigned>(100 * c) + static_cast<unsigned>(group));
        for (const MemberRange &m : membersOf(layout, grouping, group))
          if (m.process == process) parts.push_back(std::make_unique<OwnPart>(spec, values, m));
        EXPECT_EQ(exchange.add(spec, parts.back()->memory, static_cast<int>(c), "operation " + std::to_string(c)),
                  static_cast<int>(parts.size()) - 1);
      }
    }
    exchange.connect();
    if (settings.receiveBytes < 1000) {
      EXPECT_LT(exchange.receivedBytes(), 30'000);
    }
    for (int turn = 0; turn < 2; ++turn) {
      for (auto &part : parts) part->refill();
      for (size_t i = 0; i < parts.size(); ++i) {
        exchange.start(static_cast<int>(i));
        if (turn == 0) exchange.wait(static_cast<int>(i));
      }
      for (size_t i = 0; i < parts.size() && turn > 0; ++i) exchange.wait(static_cast<int>(i));
      for (size_t i = 0; i < parts.size(); ++i) EXPECT_TRUE(parts[i]->isRight()) << process << ", operation " << i;
    }
  });
}

TEST(Exchange, gives_the_bits_of_the_tree) {
  for (const std::vector<int> &counts : {std::vector<int>{4}, {1, 1}, {2, 2, 2, 2}, {3, 3, 3}, {1, 5, 2, 4, 1}})
    for (const LinkCost &cost : {kForDirect, kForHalving}) {
      const int replicas = std::accumulate(counts.begin(), counts.end(), 0);
      runJob(counts, specsOf(replicas), settingsFor(cost), 11);
    }
}

TEST(Exchange, runs_several_groups_at_the_same_time) {
  std::vector<ExchangeSpec> all;
  for (const auto &[stride, size] : {std::pair{4, 3}, {2, 6}})
    for (const ExchangeSpec &spec : specsOf(size, stride)) all.push_back(spec);
  runJob({3, 3, 3, 3}, all, settingsFor({}), 12);
  runJob({1, 5, 2, 4}, all, settingsFor({}), 13);
}

TEST(Exchange, operations_share_received_memory) {
  ExchangeSettings settings = settingsFor(kForDirect);
  settings.receiveBytes = 0;  // one at a time
  runJob({2, 2, 2}, specsOf(6), settings, 14);
  settings.receiveBytes = 4000;
  runJob({2, 2, 2}, specsOf(6), settings, 15);
}

TEST(Exchange, joins_as_the_operator_says) {
  const auto joined = [&](Join join, DataType type, std::vector<float> values, const LinkCost &cost = {}) {
    const auto processes = static_cast<int>(values.size());
    const ReplicaLayout layout = layoutOf(std::vector<int>(values.size(), 1));
    FakeRanks ranks(processes, 1);
    float result = 0;
    onAll(processes, [&](int process) {
      constexpr int64_t n = 256;  // a part for each process
      Elements in(type, {std::vector<float>(n, values[static_cast<size_t>(process)])});
      Elements out(type, {std::vector<float>(n)});
      Exchange exchange(ranks.transport(process), layout, settingsFor(cost));
      const ExchangeSpec spec{Operation::AllReduce, join, type, processes, 1, 0, 0, {n}, {n}};
      exchange.add(spec, {{in.addresses()}, {out.addresses()}}, 0, "join");
      exchange.connect();
      exchange.run(0);
      if (process == 1)
        forElement(kRealElements, type, [&]<class T>(T) {
          result = static_cast<float>(*static_cast<const T *>(out.addresses()[0]));
          EXPECT_TRUE(out == Elements(type, {std::vector<float>(n, result)}));
        });
    });
    return result;
  };
  EXPECT_EQ(joined(Join::Add, DataType::INT8, {100, 100, 100}), 44);  // wraps
  EXPECT_EQ(joined(Join::Mul, DataType::DOUBLE, {3, 5, 7}), 105);
  EXPECT_EQ(joined(Join::Min, DataType::FLOAT, {3, -5, 7}), -5);
  EXPECT_EQ(joined(Join::Max, DataType::UINT16, {3, 5, 7}), 7);
  EXPECT_EQ(joined(Join::And, DataType::BOOL, {1, 1, 0}), 0);
  EXPECT_EQ(joined(Join::Or, DataType::BOOL, {0, 1, 0}), 1);
  EXPECT_TRUE(std::isnan(joined(Join::Max, DataType::FLOAT, {3, NAN, 7})));
  // Of equal numbers the left one stays, which shows in the sign of zeros.
  for (const LinkCost &cost : {kForDirect, kForHalving}) {
    EXPECT_TRUE(std::signbit(joined(Join::Min, DataType::FLOAT, {-0.0f, 0, 0, 0}, cost)));
    EXPECT_FALSE(std::signbit(joined(Join::Max, DataType::FLOAT, {0, -0.0f, -0.0f, -0.0f}, cost)));
  }
}

TEST(Exchange, works_in_place) {
  const ReplicaLayout layout = layoutOf({2, 2, 2, 2});
  for (const LinkCost &cost : {kForDirect, kForHalving}) {
    const ExchangeSpec sum{Operation::AllReduce, Join::Add, DataType::FLOAT, 8, 1, 0, 0, {1000, 3}, {1000, 3}};
    const ExchangeSpec gather{Operation::AllGather, Join::Add, DataType::FLOAT, 8, 1, 0, 0, {50}, {397}};
    const GroupValues sums(sum, 1), parts(gather, 2);
    FakeRanks ranks(4, 3);
    onAll(4, [&](int process) {
      Elements term(DataType::FLOAT, sums.inputs(2 * process, 2)[0]);
      Elements whole(DataType::FLOAT, {std::vector<float>(400)});
      auto *at = static_cast<float *>(whole.addresses()[0]);
      for (int m = 2 * process; m < 2 * process + 2; ++m) std::ranges::copy(parts.operands(m)[0], at + 50 * m);
      Exchange exchange(ranks.transport(process), layout, settingsFor(cost));
      exchange.add(sum, {{term.addresses()}, {term.addresses()}}, 0, "sum");
      exchange.add(gather, {{{at + 100 * process}, {at + 100 * process + 50}}, {{at}}}, 1, "gather");
      exchange.connect();
      for (const int operation : {0, 1}) exchange.run(operation);
      EXPECT_TRUE(term == Elements(DataType::FLOAT, sums.results(2 * process, 2)[0]));
      EXPECT_EQ(std::memcmp(at, parts.results(0, 1)[0][0].data(), 397 * sizeof(float)), 0);
    });
  }
}

TEST(Exchange, sends_the_bytes_of_the_schedule) {
  const ReplicaLayout layout = layoutOf({1, 1, 1, 1});
  FakeRanks ranks(4, 1);
  onAll(4, [&](int process) {
    std::vector<float> value(4 * 64, 1);
    Exchange exchange(ranks.transport(process), layout, settingsFor(kForDirect));
    const ExchangeSpec spec{Operation::AllReduce, Join::Add, DataType::FLOAT, 4, 1, 0, 0, {256}, {256}};
    exchange.add(spec, {{{value.data()}}, {{value.data()}}}, 0, "sum");
    exchange.connect();
    for (int turn = 0; turn < 2; ++turn) exchange.run(0);
    EXPECT_EQ(value[17], 16);
  });
  for (int p = 0; p < 4; ++p) EXPECT_EQ(ranks.sentBytes(p), 2 * 2 * 3 * 64 * 4);
}

// ---- what goes wrong --------------------------------------------------------------------------

struct Sum {
  Sum(FakeRanks &ranks, const ReplicaLayout &layout, int process, const ExchangeSettings &settings)
      : value(1000, 1), exchange(ranks.transport(process), layout, settings) {
    const ExchangeSpec spec{
        Operation::AllReduce, Join::Add, DataType::FLOAT, layout.replicas(), 1, 0, 0, {1000}, {1000}};
    exchange.add(spec, {{{value.data()}}, {{value.data()}}}, 0, "sum of gradients");
  }
  std::string failure() {
    try {
      exchange.run(0);
    } catch (const runtime_error &e) {
      return e.what();
    }
    return "no failure";
  }
  std::vector<float> value;
  Exchange exchange;
};

TEST(Exchange, a_lost_message_ends_all_processes_and_names_the_peer) {
  const ReplicaLayout layout = layoutOf({1, 1, 1});
  FakeRanks ranks(3, 1);
  ranks.lose(2, 0, 2);  // in the second run
  ExchangeSettings settings = settingsFor({});
  settings.timeout = milliseconds(300);
  settings.warnAfter = milliseconds(100);
  onAll(3, [&](int process) {
    Sum sum(ranks, layout, process, settings);
    sum.exchange.connect();
    sum.exchange.run(0);
    // Process 0 sees what does not come; the others may see that process 0 does not go on.
    const std::string text = sum.failure();
    EXPECT_THAT(text, AllOf(HasSubstr("exchange of replicas: process "), HasSubstr("sum of gradients: no message came"),
                            HasSubstr("waiting for process "), HasSubstr(" on host 'host")));
    if (process == 0 && text.starts_with("exchange of replicas: process 0")) {
      EXPECT_THAT(text, HasSubstr("waiting for process 2 on host 'host1' (replica 2)"));
    }
    EXPECT_EQ(sum.failure(), text);  // and later runs as well
  });
}

TEST(Exchange, a_process_that_does_not_come_is_named) {
  const ReplicaLayout layout = layoutOf({1, 1});
  FakeRanks ranks(2, 1);
  ExchangeSettings settings = settingsFor({});
  settings.timeout = milliseconds(200);
  std::atomic<bool> failed{false};
  onAll(2, [&](int process) {
    Sum sum(ranks, layout, process, settings);
    sum.exchange.connect();
    if (process == 1) {
      sleepWhile(failed, false);
      return;
    }
    EXPECT_THAT(sum.failure(), HasSubstr("waiting for process 1 on host 'host0' (replica 1)"));
    failed = true;
    failed.notify_all();
  });
}

TEST(Exchange, the_loss_of_a_process_ends_the_others) {
  const ReplicaLayout layout = layoutOf({1, 1, 2});
  FakeRanks ranks(3, 1);
  onAll(3, [&](int process) {
    Sum sum(ranks, layout, process, settingsFor({}));
    sum.exchange.connect();
    if (process == 2) return ranks.kill(2);
    EXPECT_EQ(sum.failure(), "exchange of replicas: process 2 on host 'host1' (replicas 2 to 3): the process ended");
  });
}

TEST(Exchange, a_failure_of_a_program_ends_all_processes_with_its_text) {
  const ReplicaLayout layout = layoutOf({1, 1, 1});
  FakeRanks ranks(3, 1);
  onAll(3, [&](int process) {
    Sum sum(ranks, layout, process, settingsFor({}));
    sum.exchange.connect();
    if (process == 1) sum.exchange.fail("Gather 'embedding': index 9 is out of range");
    EXPECT_EQ(
        sum.failure(),
        "exchange of replicas: process 1 on host 'host0' (replica 1): Gather 'embedding': index 9 is out of range");
  });
}

TEST(Exchange, ends_while_operations_are_under_way) {
  const ReplicaLayout layout = layoutOf({1, 1});
  FakeRanks ranks(2, 1);
  Sum one(ranks, layout, 0, settingsFor({})), other(ranks, layout, 1, settingsFor({}));
  std::thread peer([&] { other.exchange.connect(); });
  one.exchange.connect();
  peer.join();
  one.exchange.start(0);
  EXPECT_FALSE(one.exchange.isDone(0));
}

TEST(Exchange, different_collectives_are_refused_with_the_odd_one) {
  const ReplicaLayout layout = layoutOf({1, 1, 1});
  FakeRanks ranks(3, 1);
  onAll(3, [&](int process) {
    std::vector<float> value(64);
    Exchange exchange(ranks.transport(process), layout, settingsFor({}));
    const int64_t n = process == 1 ? 63 : 64;
    const ExchangeSpec spec{Operation::AllReduce, Join::Add, DataType::FLOAT, 3, 1, 0, 0, {n}, {n}};
    exchange.add(spec, {{{value.data()}}, {{value.data()}}}, 0, "sum");
    try {
      exchange.connect();
      ADD_FAILURE() << "connected";
    } catch (const runtime_error &e) {
      EXPECT_THAT(e.what(), HasSubstr("the collectives of process 1 on host 'host0' (replica 1) differ"));
    }
  });
}

TEST(Exchange, a_process_that_does_not_connect_is_named) {
  FakeRanks ranks(2, 1);
  const ReplicaLayout layout = layoutOf({1, 1});
  ExchangeSettings settings = settingsFor({});
  settings.timeout = milliseconds(50);
  Sum sum(ranks, layout, 0, settings);
  EXPECT_THROW(sum.exchange.connect(), runtime_error);
}

TEST(Exchange, refuses_memory_that_is_not_the_schedule) {
  FakeRanks ranks(2, 1);
  const ReplicaLayout layout = layoutOf({3, 3});
  float value = 0;
  Exchange exchange(ranks.transport(0), layout, {});
  const ExchangeSpec spec{Operation::AllReduce, Join::Add, DataType::FLOAT, 6, 1, 0, 0, {1}, {1}};
  try {
    exchange.add(spec, {{{&value}}, {{&value}}}, 0, "sum");  // three members are two terms
    FAIL();
  } catch (const error &e) {
    EXPECT_STREQ(e.what(), "sum: got 1 inputs and 1 results, expected 2 and 1, with 1 operands each");
  }
  EXPECT_THROW(Exchange(ranks.transport(0), layoutOf({1, 1, 1}), {}), error);
}

}  // namespace
}  // namespace popart::exchange
