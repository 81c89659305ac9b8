// A process that runs replicas 2 and 3 of 4 computes what they compute when all run here: seeds, groups, parts,
// variables by group and memory follow their numbers in the whole program.
#include <future>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include <popart/error.hpp>
#include <popart/interrupt.hpp>

#include "../support/message_of.hpp"
#include "../support/other_replicas.hpp"
#include "api/compile_options.hpp"
#include "executable/executable.hpp"
#include "runtime/rank_collectives.hpp"
#include "session/compiled_program.hpp"
#include "support/fake_ranks.hpp"

namespace popart::session {
namespace {

using executable::LocalReplicas;

// A weight that replicas have in one memory and update where they meet.
constexpr std::string_view kUpdate = R"(main {
  stream %in : float32[30000]
  variable %w : float32[30000] = 0.5
  const %rate : float32[] = 0.1
  %x = HostLoad() {stream = "in"}
  %y = Mul(%x, %w)
  HostStore(%y) {stream = "y"}
  %sum = ReplicatedAllReduce(%y) {group_size = 4, op = "Add", stride = 1}
  %step = Mul(%sum, %rate)
  %new = Sub(%w, %step)
  VariableAssign(%w, %new)
})";
constexpr int64_t kWeightBytes = 30000 * 4;

// Two layers, each updated with its momentum; sums in two kinds of groups.
constexpr std::string_view kTraining = R"(main {
  stream %in : float32[30000]
  variable %v : float32[30000] = 0.25
  variable %w : float32[30000] = 0.5
  variable %m : float32[30000] = 0
  const %rate : float32[] = 0.1
  const %keep : float32[] = 0.9
  %x = HostLoad() {stream = "in"}
  %hidden = Mul(%x, %v)
  %y = Mul(%hidden, %w)
  HostStore(%y) {stream = "y"}
  %dw = Mul(%y, %hidden)
  %dwSum = ReplicatedAllReduce(%dw) {group_size = 4, op = "Add", stride = 1}
  %dv = Mul(%y, %w)
  %pairs = ReplicatedAllReduce(%dv) {group_size = 2, op = "Add", stride = 2}
  %dvSum = ReplicatedAllReduce(%pairs) {group_size = 4, op = "Max", stride = 1}
  %kept = Mul(%m, %keep)
  %momentum = Add(%kept, %dwSum)
  VariableAssign(%m, %momentum)
  %step = Mul(%momentum, %rate)
  %newW = Sub(%w, %step)
  VariableAssign(%w, %newW)
  %stepV = Mul(%dvSum, %rate)
  %newV = Sub(%v, %stepV)
  VariableAssign(%v, %newV)
  HostStore(%newW) {stream = "w"}
  HostStore(%newV) {stream = "v"}
})";

// Values by group and by replica, seeds, and collectives over all, over pairs in different processes and over pairs in
// one.
constexpr std::string_view kGroups = R"(main {
  stream %in : float32[30000]
  variable %shared : float32[3] <replicas = [1, 2, 2, 0]> = as float32[2, 3] [1, 2, 3, 4, 5, 6]
  variable %own : float32[3] <replicas = [1, 1, 1, 0]> = as float32[4, 3] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
  variable %seed : uint32[2] = [7, 9]
  %x = HostLoad() {stream = "in"}
  %mine = ReplicaRandomSeed(%seed)
  HostStore(%mine) {stream = "seed"}
  %both = Add(%shared, %own)
  HostStore(%both) {stream = "variables"}
  %across = ReplicatedAllReduce(%both) {group_size = 2, op = "Add", stride = 2}
  HostStore(%across) {stream = "across"}
  %pair = ReplicatedAllReduce(%both) {group_size = 2, op = "Mul", stride = 1}
  HostStore(%pair) {stream = "pair"}
  %part = ReplicatedReduceScatter(%x) {group_size = 4, op = "Add", stride = 1}
  HostStore(%part) {stream = "part"}
  %whole = ReplicatedAllGather(%both) {group_size = 4, op = "Local", stride = 1}
  HostStore(%whole) {stream = "whole"}
})";

// Values of the host for replicas from `first` on, in their order; keeps all results.
class Streams final : public runtime::StreamSource {
 public:
  Streams(const executable::Executable &executable, const LocalReplicas &local)
      : executable_(executable), local_(local) {}
  const void *input(int, int64_t bytes) override {
    if (fails) throw runtime_error("no data");
    const int64_t call = calls_++, replica = local_.first + call % local_.count, run = call / local_.count;
    in_.resize(static_cast<size_t>(bytes) / sizeof(float));
    for (size_t i = 0; i < in_.size(); ++i)
      in_[i] = 1.0f / static_cast<float>(1 + replica + 3 * run + 7 * static_cast<int64_t>(i));
    return in_.data();
  }
  void *output(int stream, int64_t bytes) override {
    return results[executable_.outputs.at(static_cast<size_t>(stream)).id]
        .emplace_back(static_cast<size_t>(bytes))
        .data();
  }
  std::map<std::string, std::vector<test::Bytes>> results;  // replicas in order, run by run
  bool fails = false;

 private:
  const executable::Executable &executable_;
  const LocalReplicas local_;
  int64_t calls_ = 0;
  std::vector<float> in_;
};

CompileOptions optionsFor(int replicas, const LocalReplicas &local, executable::Collectives *communicator) {
  CompileOptions options = compileOptionsFor(DeviceType::Cpu, 2, replicas);
  options.firstLocal = static_cast<int>(local.first);
  options.locals = static_cast<int>(local.count);
  options.communicator = communicator;
  return options;
}

// A loaded program.
struct Process {
  Process(std::string_view text, const LocalReplicas &local, executable::Collectives *communicator)
      : ir(parseIr(text)), program("p") {
    program.compile(*ir, optionsFor(4, local, communicator));
    program.load(*DeviceManager::createDeviceManager().createCpuDevice());
    streams = std::make_unique<Streams>(*program.executable(), local);
  }
  void run() {
    program.run([&]() -> runtime::StreamSource & { return *streams; });
  }
  void write(const char *variable, const std::vector<float> &values) {
    program.writeVariable(program.findVariable(variable), values.data());
  }
  std::unique_ptr<Ir> ir;
  CompiledProgram program;
  std::unique_ptr<Streams> streams;
};

constexpr int kRuns = 3;
void runWithWrites(Process &process) {
  for (int i = 0; i < kRuns; ++i) {
    if (i == 1 && process.program.findVariable("shared") >= 0) process.write("shared", {-1, -2, -3, -4, -5, -6});
    process.run();
  }
}

// What the four replicas publish when all of them run here.
struct All {
  explicit All(std::string_view text) : process(text, {0, 4}, &collectives) { runWithWrites(process); }
  test::NotingCollectives collectives{4};
  Process process;
};

// The replicas of a process have the results that they have when all run in one.
void expectResultsOf(const All &all, const Process &process, const LocalReplicas &local, size_t results) {
  ASSERT_EQ(process.streams->results.size(), results);
  for (const auto &[id, values] : process.streams->results) {
    const auto &expected = all.process.streams->results.at(id);
    ASSERT_EQ(values.size(), static_cast<size_t>(kRuns * local.count)) << id;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t replica = static_cast<size_t>(local.first) + i % static_cast<size_t>(local.count);
      EXPECT_EQ(values[i], expected[i / static_cast<size_t>(local.count) * 4 + replica])
          << id << " of replica " << replica;
    }
  }
}

// Runs `text` in parts of the four replicas and as a whole.
void expectEqualResults(std::string_view text, size_t results, std::initializer_list<const char *> differing) {
  const All all(text);
  for (const LocalReplicas local : {LocalReplicas{2, 2}, LocalReplicas{0, 2}, LocalReplicas{3, 1}}) {
    test::PartCollectives others(4, local, all.collectives.published());
    Process process(text, local, &others);
    runWithWrites(process);
    expectResultsOf(all, process, local, results);
  }
  for (const char *id : differing) {
    const auto &values = all.process.streams->results.at(id);
    EXPECT_NE(values[2], values[0]) << id;
    EXPECT_NE(values[3], values[2]) << id;
  }
}

TEST(LocalReplicas, have_the_results_of_their_numbers) {
  expectEqualResults(kGroups, 6, {"seed", "variables", "part"});
}

TEST(LocalReplicas, update_shared_variables_with_those_of_other_processes) { expectEqualResults(kUpdate, 1, {"y"}); }

// Each process on a thread of its own, over a network that delays and reorders.
void expectEqualOverRanks(std::string_view text, size_t results, const std::vector<int> &counts) {
  const All all(text);
  const std::vector<std::string> hosts(counts.size(), "host");
  const exchange::ReplicaLayout layout(counts, hosts);
  test::FakeRanks ranks(layout.processes(), 3);
  std::vector<std::thread> processes;
  for (int p = 0; p < layout.processes(); ++p)
    processes.emplace_back([&, p] {
      exchange::ExchangeSettings settings;
      settings.spin = false;
      settings.timeout = std::chrono::milliseconds(60'000);
      runtime::RankCollectives collectives(ranks.transport(p), layout, settings);
      const LocalReplicas local{layout.first(p), layout.count(p)};
      Process process(text, local, &collectives);
      runWithWrites(process);
      EXPECT_GT(collectives.bytes(), 0);
      expectResultsOf(all, process, local, results);
    });
  for (std::thread &t : processes) t.join();
}

TEST(LocalReplicas, have_equal_results_in_one_process_and_in_several) {
  for (const std::vector<int> &counts : {std::vector<int>{2, 2}, {1, 1, 1, 1}, {3, 1}}) {
    expectEqualOverRanks(kGroups, 6, counts);
    expectEqualOverRanks(kUpdate, 1, counts);
    expectEqualOverRanks(kTraining, 3, counts);
  }
}

TEST(LocalReplicas, a_failure_ends_the_runs_of_other_processes) {
  const exchange::ReplicaLayout layout(std::vector<int>{2, 2}, std::vector<std::string>{"left", "right"});
  test::FakeRanks ranks(2, 4);
  std::vector<std::string> messages(2);
  std::latch firstRuns(2);  // a failure of process 1 also ends a first run of process 0 that still waits for values
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p)
    processes.emplace_back([&, p] {
      runtime::RankCollectives collectives(ranks.transport(p), layout, {});
      Process process(kUpdate, {layout.first(p), layout.count(p)}, &collectives);
      process.run();
      firstRuns.arrive_and_wait();
      process.streams->fails = p == 1;
      messages[static_cast<size_t>(p)] = test::messageOf([&] { process.run(); });
    });
  for (std::thread &t : processes) t.join();
  EXPECT_EQ(messages[1], "no data");
  EXPECT_NE(messages[0].find("process 1 on host 'right' (replicas 2 to 3): no data"), std::string::npos) << messages[0];
}

struct Stopped {};

TEST(LocalReplicas, a_wait_for_other_processes_can_be_interrupted) {
  const exchange::ReplicaLayout layout(std::vector<int>{2, 2}, std::vector<std::string>{"left", "right"});
  test::FakeRanks ranks(2, 5);
  std::promise<void> ended;
  std::string message;
  std::thread other([&] {
    runtime::RankCollectives collectives(ranks.transport(1), layout, {});
    Process process(kUpdate, {2, 2}, &collectives);
    ended.get_future().wait();
    message = test::messageOf([&] { process.run(); });
  });
  {
    runtime::RankCollectives collectives(ranks.transport(0), layout, {});
    Process process(kUpdate, {0, 2}, &collectives);
    setInterruptCheck([] { throw Stopped(); });
    EXPECT_THROW(process.run(), Stopped);
    setInterruptCheck(nullptr);
    ended.set_value();
    other.join();
  }
  EXPECT_NE(message.find("process 0 on host 'left' (replicas 0 to 1)"), std::string::npos) << message;
}

TEST(LocalReplicas, have_a_shared_variable_once_in_each_process) {
  const All all(kUpdate);
  test::PartCollectives others(4, {2, 2}, all.collectives.published());
  Process process(kUpdate, {2, 2}, &others);
  const executable::Executable &e = *process.program.executable();
  int shared = 0;
  for (const auto &v : e.variables) shared += v.sharers == executable::Sharers{4, 1};
  EXPECT_EQ(shared, 1);
  EXPECT_EQ(ownVariableBytes(e, 2, 2) - ownVariableBytes(e, 3, 2), kWeightBytes);
  EXPECT_EQ(e.memory.replicas, 2);
  EXPECT_EQ(e.memory.sharedVariableBytes, kWeightBytes / 2);
  EXPECT_EQ(process.program.deviceBytes(), totalBytes(e, {2, 2}));
  const auto &whole = all.process.program.executable()->memory;
  EXPECT_EQ(whole.sharedVariableBytes, kWeightBytes - kWeightBytes / 4);
}

TEST(LocalReplicas, the_process_with_most_memories_counts) {
  const executable::Sharers four{4, 1}, apart{2, 2};
  EXPECT_EQ(four.shareOf(1200, 8, 8), 300);
  EXPECT_EQ(four.shareOf(1200, 8, 2), 600);
  EXPECT_EQ(four.shareOf(1200, 12, 3), 800);   // replicas 3, 4 and 5 are of two groups
  EXPECT_EQ(apart.shareOf(1200, 8, 2), 1200);  // no two of a group run in one process
  EXPECT_EQ(apart.shareOf(1200, 8, 4), 600);
  EXPECT_EQ(four.owner(5, 3), 4);
  EXPECT_EQ(four.owner(3, 3), 3);
  EXPECT_EQ(apart.owner(7, 4), 5);
  EXPECT_EQ(apart.owner(7, 6), 7);
}

TEST(LocalReplicas, values_of_other_processes_are_not_read) {
  const All all(kGroups);
  test::PartCollectives others(4, {2, 2}, all.collectives.published());
  Process process(kGroups, {2, 2}, &others);
  std::vector<float> values(12);
  const auto refusal = [&](const char *id) {
    return test::messageOf([&] { process.program.readVariable(process.program.findVariable(id), values.data()); });
  };
  for (const char *id : {"own", "shared"})
    EXPECT_NE(refusal(id).find("replica 0 are in another process: here are replicas 2 to 3"), std::string::npos)
        << refusal(id);
}

TEST(LocalReplicas, a_failure_reaches_the_collectives) {
  const All all(kGroups);
  for (const LocalReplicas local : {LocalReplicas{2, 2}, LocalReplicas{1, 1}}) {
    test::PartCollectives others(4, local, all.collectives.published());
    Process process(kGroups, local, &others);
    process.streams->fails = true;
    EXPECT_EQ(test::messageOf([&] { process.run(); }), "no data");
    EXPECT_GT(others.failures.load(), 0);
  }
}

TEST(LocalReplicas, need_collectives_to_others) {
  CompiledProgram program("p");
  program.compile(*parseIr(kGroups), optionsFor(4, {2, 2}, nullptr));
  const std::string message =
      test::messageOf([&] { program.load(*DeviceManager::createDeviceManager().createCpuDevice()); });
  EXPECT_NE(message.find("got 2 of 4 here"), std::string::npos) << message;
}

TEST(LocalReplicas, are_counted_in_the_name_of_a_program_and_their_numbers_are_not) {
  const auto ir = parseIr(kGroups);
  const auto key = [&](int replicas, LocalReplicas local) {
    return describeProgram(*ir, optionsFor(replicas, local, nullptr)).key;
  };
  EXPECT_EQ(key(4, {0, 2}), key(4, {2, 2}));
  EXPECT_NE(key(4, {0, 2}), key(4, {0, 4}));
  EXPECT_NE(key(4, {0, 2}), key(2, {0, 2}));
  EXPECT_NE(key(4, {0, 2}), key(8, {0, 2}));
}

}  // namespace
}  // namespace popart::session
