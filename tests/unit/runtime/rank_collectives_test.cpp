// Replicas in several processes over a network that delays and reorders messages: results have the bits of replicas
// that are all in one process, and what goes wrong ends all replicas of all processes.
#include "runtime/rank_collectives.hpp"

#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "base/element_types.hpp"
#include "executable/host_kernel.hpp"
#include "support/fake_ranks.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

// w = w - sum / 8, where w is the second operand and the result.
class StepUpdate final : public executable::Update {
 public:
  void run(const void *joined, int64_t at, int64_t count, const executable::KernelArgs &args,
           void *const *out) const noexcept override {
    const auto *sum = static_cast<const float *>(joined), *w = static_cast<const float *>(args.in[1]) + at;
    for (int64_t i = 0; i < count; ++i) static_cast<float *>(out[0])[at + i] = w[i] - sum[i] / 8;
  }
};

// A collective of a program; with a channel, the spec of the step that publishes besides.
struct Collective {
  CollectiveSpec waits, publishes;
  bool isSplit() const { return waits.channel >= 0; }
};
using ProgramOf = std::vector<Collective>;

void add(ProgramOf &program, CollectiveSpec spec) {
  for (const bool isSplit : {false, true}) {
    if (isSplit && (spec.update || spec.kind == CollectiveKind::Gather)) continue;  // which are not cut in two here
    spec.channel = isSplit ? static_cast<int64_t>(program.size()) : -1;
    CollectiveSpec publishes = spec;
    publishes.resultElements.clear();
    program.push_back({spec, publishes});
  }
}

// Every kind over groups of `size` members.
void addAll(ProgramOf &program, int size, int stride) {
  const std::vector<int64_t> sizes{700, 7, 0, 130};
  std::vector<int64_t> chunks, gathered;
  for (const int64_t s : sizes) chunks.push_back((s + size - 1) / size), gathered.push_back(s * size);
  const auto of = [&](CollectiveKind kind, Join join, DataType type, const std::vector<int64_t> &results) {
    add(program, {kind, join, type, size, stride, sizes, results});
  };
  of(CollectiveKind::Reduce, Join::Add, DataType::FLOAT, sizes);
  of(CollectiveKind::Reduce, Join::Mul, DataType::FLOAT16, sizes);
  of(CollectiveKind::Reduce, Join::Add, DataType::BFLOAT16, sizes);
  of(CollectiveKind::Reduce, Join::Max, DataType::INT32, sizes);
  of(CollectiveKind::Scatter, Join::Add, DataType::FLOAT, chunks);
  of(CollectiveKind::Scatter, Join::Add, DataType::FLOAT16, chunks);
  of(CollectiveKind::Scatter, Join::Keep, DataType::FLOAT, chunks);
  of(CollectiveKind::Gather, Join::Keep, DataType::UINT32, gathered);
  for (int64_t &n : gathered) n = std::max<int64_t>(n - 3, 0);  // the last operand does not fit
  of(CollectiveKind::Gather, Join::Keep, DataType::UINT16, gathered);
  CollectiveSpec update{CollectiveKind::Reduce, Join::Add, DataType::FLOAT, size, stride, {20'000}, {20'000}};
  update.update = std::make_shared<StepUpdate>();
  update.updated = {{0, 4}};
  add(program, update);
}

// What one replica has in one collective.
struct Memory {
  std::vector<Bytes> in, out;
  std::vector<const void *> inAt;
  std::vector<void *> outAt;
};

Memory memoryFor(const Collective &c, unsigned seed) {
  std::mt19937 random(seed);
  const auto width = static_cast<size_t>(getDataTypeInfo(c.waits.type).nbytes);
  Memory m;
  std::vector<int64_t> sizes = c.waits.elements;
  if (c.waits.update) sizes.push_back(sizes[0]);
  for (const int64_t n : sizes) {
    Bytes &bytes = m.in.emplace_back(static_cast<size_t>(n) * width + 1);
    forElement(kRealElements, c.waits.type, [&]<class T>(T) {
      for (int64_t i = 0; i < n; ++i) {
        const T value = asElement<T>(static_cast<float>(random() % 4001) / 321.0f);
        std::memcpy(bytes.data() + static_cast<size_t>(i) * width, &value, width);
      }
    });
  }
  for (const int64_t n : c.waits.resultElements) m.out.emplace_back(static_cast<size_t>(n) * width + 1);
  if (c.waits.update) {  // of all members, as a variable is
    std::mt19937 all(7);
    for (size_t i = 0; i < m.in[1].size() / width; ++i) {
      const float value = static_cast<float>(all() % 1000) / 77.0f;
      std::memcpy(m.in[1].data() + i * width, &value, width);
    }
  }
  for (const Bytes &b : m.in) m.inAt.push_back(b.data());
  for (size_t o = 0; o < m.out.size(); ++o)
    m.outAt.push_back(c.isSplit() ? m.in[o].data() : c.waits.update ? m.in[1].data() : m.out[o].data());
  return m;
}

// A replica comes to all collectives: first it publishes those that are split, then it waits; what it then has.
std::vector<Bytes> runReplica(executable::Collectives &all, int replica, const ProgramOf &program, unsigned seed) {
  std::vector<Memory> memory;
  for (size_t c = 0; c < program.size(); ++c)
    memory.push_back(memoryFor(program[c], seed + static_cast<unsigned>(100 * c) + static_cast<unsigned>(replica)));
  std::atomic<bool> failed{false};
  executable::RunContext context(failed, replica, &all);
  const auto publish = [&](size_t c, const CollectiveSpec &spec) {
    return all.handle(replica, spec).publish(memory[c].inAt.data(), memory[c].outAt.data());
  };
  bool goesOn = true;
  for (size_t c = 0; c < program.size(); ++c)
    if (program[c].isSplit()) goesOn = goesOn && publish(c, program[c].publishes);
  for (size_t c = 0; c < program.size() && goesOn; ++c) {
    if (!program[c].isSplit()) goesOn = publish(c, program[c].waits);
    executable::CollectiveHandle &handle = all.handle(replica, program[c].waits);
    if (!goesOn || !handle.wait()) {
      ADD_FAILURE() << "collective " << c << ": " << all.problem();
      all.fail(nullptr);
      return {};
    }
    const executable::KernelArgs args{memory[c].inAt.data(), memory[c].outAt.data(), nullptr, context};
    std::thread helper([&] { handle.work(args); });
    handle.work(args);
    helper.join();
    handle.end();
  }
  std::vector<Bytes> results;
  for (size_t c = 0; c < program.size(); ++c) {
    const CollectiveSpec &spec = program[c].waits;
    const auto width = static_cast<size_t>(getDataTypeInfo(spec.type).nbytes);
    for (size_t o = 0; o < memory[c].outAt.size(); ++o) {
      const auto *at = static_cast<const std::byte *>(memory[c].outAt[o]);
      auto first = size_t{0}, count = static_cast<size_t>(spec.resultElements[o]);
      if (spec.kind == CollectiveKind::Scatter && program[c].isSplit()) {  // its chunk is where it published it
        const auto all_ = static_cast<size_t>(spec.elements[o]);
        first = std::min(all_, static_cast<size_t>(replica / spec.stride % spec.groupSize) * count);
        count = std::min(count, all_ - first);
      }
      results.emplace_back(at + first * width, at + (first + count) * width);
    }
  }
  return results;
}

void takeHandles(executable::Collectives &all, int first, int count, const ProgramOf &program) {
  for (int r = first; r < first + count; ++r)
    for (const Collective &c : program) {
      if (c.isSplit()) all.handle(r, c.publishes);
      all.handle(r, c.waits);
    }
}

// One run of the replicas of a process, each on a thread.
void runReplicas(executable::Collectives &all, int first, int count, const std::function<void(int replica)> &work) {
  all.start();
  std::vector<std::thread> threads;
  for (int r = first; r < first + count; ++r)
    threads.emplace_back([&, r] {
      work(r);
      all.finish();
    });
  for (std::thread &t : threads) t.join();
}

// With so many processes on each host.
exchange::ReplicaLayout layoutOf(const std::vector<int> &counts, size_t onHost = 1) {
  std::vector<std::string> hosts;
  for (size_t p = 0; p < counts.size(); ++p) hosts.push_back("host" + std::to_string(p / onHost));
  return {counts, hosts};
}
constexpr size_t kOneHost = 1000;

exchange::ExchangeSettings settingsFor(int timeout = 60'000) {
  exchange::ExchangeSettings settings;
  settings.spin = false;
  settings.timeout = milliseconds(timeout);
  return settings;
}

// A thread for each process.
void onAll(const exchange::ReplicaLayout &layout, const std::function<void(int process)> &work) {
  std::vector<std::thread> threads;
  for (int p = 0; p < layout.processes(); ++p) threads.emplace_back([&, p] { work(p); });
  for (std::thread &t : threads) t.join();
}

void expectBitsOfOneProcess(const std::vector<int> &counts, const ProgramOf &program,
                            exchange::ExchangeSettings settings, size_t onHost = 1) {
  constexpr unsigned kRuns = 2;
  const exchange::ReplicaLayout layout = layoutOf(counts, onHost);
  const int replicas = layout.replicas();
  std::vector<std::vector<Bytes>> expected(static_cast<size_t>(replicas) * kRuns), got = expected;
  ThreadCollectives threads(replicas, false);
  takeHandles(threads, 0, replicas, program);
  const auto runAll = [&](executable::Collectives &all, int first, int count, auto &into) {
    for (unsigned run = 0; run < kRuns; ++run)
      runReplicas(all, first, count, [&](int r) {
        into[static_cast<size_t>(r) * kRuns + run] = runReplica(all, r, program, 10'000 * run);
      });
  };
  runAll(threads, 0, replicas, expected);
  std::vector<const CollectiveSpec *> specs;
  for (const Collective &c : program) specs.push_back(&c.waits);
  test::FakeRanks ranks(layout.processes(), 5);
  onAll(layout, [&](int p) {
    RankCollectives all(ranks.transport(p), layout, settings);
    EXPECT_EQ(all.replicas(), replicas);
    takeHandles(all, layout.first(p), layout.count(p), program);
    EXPECT_EQ(all.bytes(), 0);
    all.connect();
    const int64_t bytes = all.bytes();
    EXPECT_EQ(bytes, RankCollectives::bytesOf(specs, layout, p, settings));
    EXPECT_LE(bytes, RankCollectives::mostBytesOf(specs, layout, settings));
    EXPECT_EQ(all.times().exchanging.count(), 0);
    runAll(all, layout.first(p), layout.count(p), got);
    EXPECT_EQ(all.bytes(), bytes);
    EXPECT_EQ(all.times().exchanging.count() > 0, bytes > 0);
    EXPECT_GE(all.times().waiting.count(), 0);
  });
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size());
    for (size_t k = 0; k < got[i].size(); ++k)
      EXPECT_EQ(got[i][k], expected[i][k]) << "replica " << i / kRuns << ", run " << i % kRuns << ", result " << k;
  }
}

TEST(RankCollectives, have_the_bits_of_one_process) {
  for (const auto &[replicas, layouts] : {std::pair{4, std::vector<std::vector<int>>{{4}, {2, 2}, {1, 1, 1, 1}}},
                                          {6, {{6}, {3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}, {1, 3, 2}}}})
    for (const std::vector<int> &counts : layouts)
      for (const auto &[size, stride] : {std::pair{replicas, 1}, {2, 1}, {2, replicas / 2}, {replicas / 2, 2}}) {
        ProgramOf program;
        addAll(program, size, stride);
        expectBitsOfOneProcess(counts, program, settingsFor());
      }
}

// In shared memory: all groups, or those of one of two hosts, or none because it is switched off.
TEST(RankCollectives, have_the_bits_of_one_process_on_one_host) {
  for (const std::vector<int> &counts : std::vector<std::vector<int>>{{2, 2}, {1, 1, 1, 1}, {1, 2, 1}})
    for (const auto &[size, stride] : {std::pair{4, 1}, {2, 1}, {2, 2}}) {
      ProgramOf program;
      addAll(program, size, stride);
      for (const size_t onHost : {kOneHost, size_t{2}}) expectBitsOfOneProcess(counts, program, settingsFor(), onHost);
      exchange::ExchangeSettings off = settingsFor();
      off.sharesMemory = false;
      expectBitsOfOneProcess(counts, program, off, kOneHost);
    }
}

TEST(RankCollectives, groups_of_several_kinds_share_memory) {
  ProgramOf program;
  for (const auto &[size, stride] : {std::pair{2, 3}, {6, 1}, {3, 2}, {2, 1}}) addAll(program, size, stride);
  for (const std::vector<int> &counts : {std::vector<int>{3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}})
    for (const size_t onHost : {kOneHost, size_t{2}}) expectBitsOfOneProcess(counts, program, settingsFor(), onHost);
}

// Groups of several kinds under way at the same time, whose received terms have the least memory.
TEST(RankCollectives, start_operations_of_different_groups_in_any_order) {
  ProgramOf program;
  for (const auto &[size, stride] : {std::pair{2, 3}, {6, 1}, {3, 2}, {2, 1}}) addAll(program, size, stride);
  exchange::ExchangeSettings settings = settingsFor();
  settings.receiveBytes = 0;
  settings.cost = {1e9, 1, 1e9};  // all at once, and not by halves
  for (const std::vector<int> &counts : {std::vector<int>{3, 3}, {2, 2, 2}})
    expectBitsOfOneProcess(counts, program, settings);
}

// ---- what goes wrong --------------------------------------------------------------------------

CollectiveSpec sumOf(int replicas, int64_t elements = 100) {
  return {CollectiveKind::Reduce, Join::Add, DataType::FLOAT, replicas, 1, {elements}, {elements}};
}

// Every replica comes to the collective that `comesTo` gives it, or fails; by replica, why its run ended.
std::vector<std::string> problems(const std::vector<int> &counts, const std::vector<CollectiveSpec> &specs, int timeout,
                                  const std::function<int(int replica)> &comesTo, size_t onHost = 1) {
  const exchange::ReplicaLayout layout = layoutOf(counts, onHost);
  test::FakeRanks ranks(layout.processes(), 6);
  std::vector<std::string> texts(static_cast<size_t>(layout.replicas()));
  onAll(layout, [&](int p) {
    RankCollectives all(ranks.transport(p), layout, settingsFor(timeout));
    for (int r = layout.first(p); r < layout.first(p) + layout.count(p); ++r)
      for (const CollectiveSpec &spec : specs) all.handle(r, spec);
    all.connect();
    for (int run = 0; run < 2; ++run)  // later runs of a job that failed fail too
      runReplicas(all, layout.first(p), layout.count(p), [&](int r) {
        std::string &text = texts[static_cast<size_t>(r)];
        text.clear();
        const int which = run == 0 ? comesTo(r) : 0;
        if (which < 0) return all.fail(nullptr);
        std::vector<float> x(100);
        void *at = x.data();
        executable::CollectiveHandle &handle = all.handle(r, specs[static_cast<size_t>(which)]);
        if (handle.publish(&at, &at) && handle.wait()) {
          std::atomic<bool> failed{false};
          executable::RunContext context(failed, r, &all);
          handle.work({nullptr, nullptr, nullptr, context});
          return handle.end();
        }
        text = all.problem();
        all.fail(nullptr);
      });
  });
  return texts;
}

TEST(RankCollectives, wait_for_a_late_replica) {
  const auto texts = problems({2, 2}, {sumOf(4)}, 60'000, [](int r) {
    if (r == 3) std::this_thread::sleep_for(milliseconds(100));
    return 0;
  });
  EXPECT_THAT(texts, Each(""));
}

TEST(RankCollectives, a_replica_that_fails_ends_all_processes) {
  const auto texts = problems({2, 2}, {sumOf(4)}, 60'000, [](int r) { return r == 3 ? -1 : 0; });
  for (const std::string &text : texts)
    EXPECT_THAT(text, AnyOf(HasSubstr("process 1 on host 'host1' (replicas 2 to 3): a replica failed"),
                            "another replica failed"));
  EXPECT_THAT(texts[0], HasSubstr("process 1"));
}

TEST(RankCollectives, replicas_of_a_process_that_part_end_all_processes) {
  const std::vector<CollectiveSpec> specs{sumOf(4), sumOf(4)};
  const auto texts = problems({2, 2}, specs, 60'000, [](int r) { return r == 1 ? 1 : 0; });
  EXPECT_THAT(texts[3], AllOf(HasSubstr("process 0 on host 'host0' (replicas 0 to 1)"),
                              HasSubstr("came to different collectives")));
}

TEST(RankCollectives, processes_that_part_are_named_after_the_timeout) {
  const std::vector<CollectiveSpec> specs{sumOf(4), sumOf(4)};
  const auto texts = problems({2, 2}, specs, 300, [](int r) { return r < 2 ? 0 : 1; });
  for (const std::string &text : texts)
    EXPECT_THAT(text, AnyOf(AllOf(HasSubstr("all-reduce"), HasSubstr("no message came for 0.3 s, waiting for process")),
                            "another replica failed"));
}

TEST(RankCollectives, wait_for_a_late_replica_in_shared_memory) {
  const auto isLate = [](int r) {
    if (r == 3) std::this_thread::sleep_for(milliseconds(100));
    return 0;
  };
  EXPECT_THAT(problems({2, 2}, {sumOf(4)}, 60'000, isLate, kOneHost), Each(""));
}

TEST(RankCollectives, a_replica_that_fails_ends_all_processes_that_share_memory) {
  for (const std::vector<int> &counts : {std::vector<int>{2, 2}, {1, 2, 1}}) {
    const auto texts = problems(
        {counts}, {sumOf(4)}, 60'000, [](int r) { return r == 3 ? -1 : 0; }, kOneHost);
    const std::string why = counts.size() == 2 ? "process 1 on host 'host0' (replicas 2 to 3): a replica failed"
                                               : "process 2 on host 'host0' (replica 3): a replica failed";
    for (const std::string &text : texts)
      EXPECT_THAT(text, AnyOf("exchange of replicas: " + why, "another replica failed"));
    EXPECT_EQ(texts[0], "exchange of replicas: " + why);
  }
}

// Process 1 fails in its second run, while process 0 is in its first one, whose operands are all there.
TEST(RankCollectives, a_failure_does_not_end_runs_whose_operands_are_there) {
  const exchange::ReplicaLayout layout = layoutOf({1, 1}, kOneHost);
  const CollectiveSpec spec = sumOf(2);
  test::FakeRanks ranks(2, 10);
  std::atomic<bool> hasFailed{false};
  onAll(layout, [&](int p) {
    RankCollectives all(ranks.transport(p), layout, settingsFor());
    executable::CollectiveHandle &handle = all.handle(p, spec);
    all.connect();
    const auto isComplete = [&](bool waitsForFailure) {
      std::vector<float> x(100, static_cast<float>(p + 1));
      void *at = x.data();
      if (!handle.publish(&at, &at)) return false;
      while (waitsForFailure && !hasFailed.load()) std::this_thread::yield();
      if (!handle.wait()) return false;
      std::atomic<bool> failed{false};
      executable::RunContext context(failed, p, &all);
      handle.work({nullptr, nullptr, nullptr, context});
      handle.end();
      EXPECT_THAT(x, Each(3));
      return true;
    };
    runReplicas(all, p, 1, [&](int) { EXPECT_TRUE(isComplete(p == 0)); });
    runReplicas(all, p, 1, [&](int) {
      if (p == 1) {
        all.fail(nullptr);
        hasFailed.store(true);
      } else {
        EXPECT_FALSE(isComplete(false));
        EXPECT_THAT(all.problem(), HasSubstr("process 1 on host 'host0' (replica 1): a replica failed"));
      }
    });
  });
}

TEST(RankCollectives, processes_that_part_in_shared_memory_are_named) {
  const std::vector<CollectiveSpec> specs{sumOf(4), sumOf(4)};
  const auto texts = problems(
      {2, 2}, specs, 60'000, [](int r) { return r < 2 ? 0 : 1; }, kOneHost);
  for (const std::string &text : texts)
    EXPECT_THAT(text, AnyOf(AllOf(HasSubstr("all-reduce"), HasSubstr("on host 'host0' (replicas"),
                                  HasSubstr("came to another collective")),
                            "another replica failed"));
}

TEST(RankCollectives, a_process_that_does_not_come_to_shared_memory_is_named_after_the_timeout) {
  const auto texts = problems(
      {1, 1}, {sumOf(2)}, 300,
      [&](int r) {
        if (r == 0) return 0;
        std::this_thread::sleep_for(milliseconds(600));
        return 0;
      },
      kOneHost);
  for (const std::string &text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("exchange of replicas: process 0 on host 'host0' (replica 0): all-reduce 0"),
                            HasSubstr("no message came for 0.3 s, waiting for process 1 on host 'host0' (replica 1). "
                                      "Look for a process that stopped")));
}

TEST(RankCollectives, different_programs_are_refused) {
  for (const size_t onHost : {size_t{1}, kOneHost}) {
    const exchange::ReplicaLayout layout = layoutOf({1, 1, 1}, onHost);
    test::FakeRanks ranks(3, 7);
    onAll(layout, [&](int p) {
      RankCollectives all(ranks.transport(p), layout, settingsFor());
      const CollectiveSpec spec = sumOf(3, p == 1 ? 99 : 100);
      if (p != 1 || onHost == 1) all.handle(p, spec);
      try {
        all.connect();
        ADD_FAILURE() << "connected";
      } catch (const runtime_error &e) {
        EXPECT_THAT(e.what(), HasSubstr("the collectives of " + layout.describe(1) + " differ"));
      }
    });
  }
}

// A process that has no member of any group that reaches others knows all collectives too.
TEST(RankCollectives, a_process_may_have_whole_groups_alone) {
  ProgramOf program;
  addAll(program, 2, 1);
  expectBitsOfOneProcess({2, 1, 1}, program, settingsFor());
}

TEST(RankCollectives, collectives_are_known_before_the_connection) {
  const exchange::ReplicaLayout layout = layoutOf({2});
  test::FakeRanks ranks(1, 8);
  RankCollectives all(ranks.transport(0), layout, settingsFor());
  const CollectiveSpec first = sumOf(2), late = sumOf(2);
  all.handle(0, first);
  all.connect();
  all.connect();
  EXPECT_EQ(&all.handle(0, first), &all.handle(0, first));
  EXPECT_THROW(all.handle(0, late), internal_error);
}

}  // namespace
}  // namespace popart::runtime
