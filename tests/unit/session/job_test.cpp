// What processes of a job tell each other of their replicas, their variables and their programs, over networks between
// threads.
#include "session/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <thread>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/message_of.hpp"
#include "api/compile_options.hpp"
#include "session/compiled_program.hpp"
#include "support/borrowed_transport.hpp"
#include "support/fake_ranks.hpp"

namespace popart::session {
namespace {

using ::testing::HasSubstr;

// The networks of a job, one for each transport that its processes make.
class Networks {
 public:
  explicit Networks(int processes) : processes_(processes) {}
  Job::MakeTransport of(int process) {
    return [this, process, made = size_t{0}]() mutable {
      return std::make_unique<test::Borrowed>(network(made++).transport(process));
    };
  }

 private:
  test::FakeRanks &network(size_t number) {
    const std::lock_guard guard(lock_);
    while (all_.size() <= number) all_.emplace_back(processes_, static_cast<unsigned>(all_.size()));
    return all_[number];
  }

  const int processes_;
  std::mutex lock_;
  std::deque<test::FakeRanks> all_;
};

// f(process) on a thread for each process.
template <class F>
void onEach(int processes, F f) {
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) threads.emplace_back([&f, p] { f(p); });
  for (std::thread &t : threads) t.join();
}

// f(job) in each process, which have so many replicas.
template <class F>
void inJob(const std::vector<int> &counts, F f) {
  const int processes = static_cast<int>(counts.size()), all = std::accumulate(counts.begin(), counts.end(), 0);
  Networks networks(processes);
  onEach(processes, [&](int p) {
    const int first = std::accumulate(counts.begin(), counts.begin() + p, 0);
    f(std::make_shared<Job>(networks.of(p), JobSettings{all, counts[static_cast<size_t>(p)], first}));
  });
}

std::byte byteOf(size_t value, int64_t at) { return static_cast<std::byte>(value * 37 + static_cast<size_t>(at) * 11); }

TEST(Job, knows_where_all_replicas_are) {
  inJob({1, 3}, [](const std::shared_ptr<Job> &job) {
    EXPECT_EQ(job->layout().replicas(), 4);
    EXPECT_EQ(job->layout().first(1), 1);
    EXPECT_EQ(job->layout().hosts(), 1);
    EXPECT_EQ(job->placement().processesOnHost(), 2);
    EXPECT_EQ(job->placement().sharers, 2);
    EXPECT_EQ(job->placement().sharer, job->process());
  });
}

TEST(Job, processes_are_expected_where_a_job_has_them) {
  const auto same = [](const Placement &expected, const Placement &found) {
    EXPECT_EQ(expected.layout.processes(), found.layout.processes());
    EXPECT_EQ(expected.layout.hosts(), found.layout.hosts());
    for (int p = 0; p < found.layout.processes(); ++p) EXPECT_EQ(expected.layout.first(p), found.layout.first(p));
    EXPECT_EQ(expected.process, found.process);
    EXPECT_EQ(expected.processesOnHost(), found.processesOnHost());
    EXPECT_EQ(expected.sharers, found.sharers);
    EXPECT_EQ(expected.sharer, found.sharer);
  };
  inJob({2, 2, 2}, [&](const std::shared_ptr<Job> &job) {
    same(expectedPlacement({6, 2, job->layout().first(job->process())}), job->placement());
  });
}

TEST(Job, processes_are_expected_on_the_hosts_of_their_launcher) {
  const auto hostsWith = [](const std::map<std::string, std::string> &environment) {
    for (const auto &[name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const Placement expected = expectedPlacement({.replicas = 8, .locals = 2, .firstLocal = 6});
    for (const auto &[name, value] : environment) unsetenv(name.c_str());
    return std::vector<int>{expected.layout.hosts(), expected.processesOnHost(), expected.sharers, expected.sharer};
  };
  const std::vector<int> oneHost{1, 4, 4, 3}, two{2, 2, 2, 1};
  EXPECT_EQ(hostsWith({}), oneHost);
  EXPECT_EQ(hostsWith({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), two);
  EXPECT_EQ(hostsWith({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}), oneHost);  // another job
  EXPECT_EQ(hostsWith({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_NODES", "2"}}), two);
  EXPECT_EQ(hostsWith({{"SLURM_NTASKS", "4"}}), oneHost);
}

TEST(Job, processes_that_disagree_about_the_replicas_are_refused) {
  const auto messageWith = [](std::vector<JobSettings> settings) {
    Networks networks(2);
    std::vector<std::string> messages(2);
    onEach(2, [&](int p) {
      const auto number = static_cast<size_t>(p);
      messages[number] = test::messageOf([&] { Job(networks.of(p), settings[number]); });
    });
    return messages[1];
  };
  EXPECT_EQ(messageWith({{4, 2, 0}, {4, 2, 2}}), "no error");
  EXPECT_THAT(messageWith({{4, 2, 0}, {4, 2, 0}}),
              HasSubstr("got replica 0 as the first one of process 1, expected 2. Start the program with poprun"));
  EXPECT_THAT(messageWith({{6, 2, 0}, {6, 2, 2}}), HasSubstr("got 4 replicas in 2 processes, expected 6."));
  EXPECT_THAT(messageWith({{6, 2, 0}, {4, 2, 2}}),
              HasSubstr("got 6 replicas in all for process 0, expected 4 as for process 1."));
}

TEST(Job, values_of_other_processes_come) {
  for (const std::vector<int> &counts : {std::vector<int>{2, 2}, {1, 3}, {1, 1, 1, 1}})
    inJob(counts, [](const std::shared_ptr<Job> &job) {
      for (const int64_t bytes : {int64_t{0}, int64_t{3}, int64_t{100'000}, int64_t{5} << 20})
        for (const std::vector<int> &replicas : {std::vector<int>{0, 1, 2, 3}, {3}, {0, 2, 1, 0, 0, 3}}) {
          std::vector<std::byte> values(static_cast<size_t>(bytes) * replicas.size());
          const auto each = [&](auto f) {
            for (size_t v = 0; v < replicas.size(); ++v)
              for (int64_t at = 0; at < bytes; at += 1 + bytes / 1000)
                f(values[v * static_cast<size_t>(bytes) + static_cast<size_t>(at)], v, at);
          };
          each([&](std::byte &byte, size_t v, int64_t at) {
            if (job->layout().processOf(replicas[v]) == job->process()) byte = byteOf(v, at);
          });
          job->complete(values.data(), bytes, replicas);
          int wrong = 0;
          each([&](std::byte byte, size_t v, int64_t at) { wrong += byte != byteOf(v, at); });
          EXPECT_EQ(wrong, 0) << bytes << " bytes, " << replicas.size() << " values";
        }
    });
}

TEST(Job, one_process_gives_its_values_to_all) {
  for (const int root : {0, 2})
    inJob({1, 1, 1}, [root](const std::shared_ptr<Job> &job) {
      std::vector<std::vector<std::byte>> values;
      std::vector<exchange::Piece> memory;
      for (const size_t bytes : {size_t{5}, size_t{0}, size_t{20} << 20, size_t{70'001}}) {
        values.emplace_back(bytes, std::byte{static_cast<unsigned char>(job->process())});
        if (job->process() == root)
          for (size_t i = 0; i < bytes; i += 101) values.back()[i] = byteOf(values.size(), static_cast<int64_t>(i));
      }
      for (std::vector<std::byte> &v : values) memory.push_back({v.data(), static_cast<int64_t>(v.size())});
      job->broadcast(memory, root);
      int wrong = 0;
      for (size_t v = 0; v < values.size(); ++v)
        for (size_t i = 0; i < values[v].size(); ++i)
          wrong += values[v][i] != (i % 101 == 0 ? byteOf(v + 1, static_cast<int64_t>(i))
                                                 : std::byte{static_cast<unsigned char>(root)});
      EXPECT_EQ(wrong, 0);
    });
}

TEST(Job, the_process_that_differs_from_most_is_found) {
  inJob({1, 1, 1}, [](const std::shared_ptr<Job> &job) {
    EXPECT_EQ(job->findOdd("same"), -1);
    EXPECT_EQ(job->findOdd(job->process() == 1 ? "other" : "same"), 1);
    EXPECT_EQ(job->findOdd(std::to_string(job->process())), 1);
  });
}

TEST(Job, collectives_hold_more_in_a_job) {
  inJob({1, 1}, [](const std::shared_ptr<Job> &job) {
    lower::CollectiveRules rules;
    rules.reduce.together = INT64_MAX;
    job->placement().adapt(rules);
    EXPECT_EQ(rules.reduce.together, INT64_MAX);
    EXPECT_EQ(rules.scatter.together, int64_t{1} << 20);
    EXPECT_EQ(rules.gather.waiting, int64_t{1} << 20);
    EXPECT_EQ(rules.ahead, int64_t{16} << 20);
  });
}

TEST(Job, its_timeout_is_an_engine_option) {
  EXPECT_EQ(replicasTimeout({}), std::chrono::seconds(1800));
  EXPECT_EQ(replicasTimeout({{"replicas.timeout", "0.25"}}), std::chrono::milliseconds(250));
  for (const char *bad : {"", "soon", "0", "-1", "1e99"})
    EXPECT_THAT(test::messageOf([&] {
                  replicasTimeout({{"replicas.timeout", bad}});
                }),
                HasSubstr("bad replicas.timeout: got '" + std::string(bad) + "', expected a number above 0"));
}

// Values by pairs of neighbours, of replicas two apart, by replica, and of all.
constexpr std::string_view kProgram = R"(main {
  variable %pairs : float32[3] <replicas = [1, 1, 2, 0]> = as float32[2, 3] [1, 2, 3, 4, 5, 6]
  variable %apart : float32[3] <replicas = [1, 2, 2, 0]> = as float32[2, 3] [1, 2, 3, 4, 5, 6]
  variable %own : float32[3] <replicas = [1, 1, 1, 0]> = as float32[4, 3] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
  variable %all : float32[3] = [5, 6, 7]
  %sum = ReplicatedAllReduce(%own) {group_size = 4, op = "Add", stride = 1}
  %new = Add(%all, %sum)
  VariableAssign(%all, %new)
  %pairsNew = Add(%pairs, %sum)
  VariableAssign(%pairs, %pairsNew)
  %apartNew = Add(%apart, %sum)
  VariableAssign(%apart, %apartNew)
})";

class NoStreams final : public runtime::StreamSource {
 public:
  const void *input(int, int64_t) override { return nullptr; }
  void *output(int, int64_t) override { return nullptr; }
};

struct Loaded {
  Loaded(std::string_view text, const std::shared_ptr<Job> &job) : ir(parseIr(text)), program("p") {
    CompileOptions options = compileOptionsFor(DeviceType::Cpu, 1, 4);
    if (job) {
      options.job = job;
      options.firstLocal = job->layout().first(job->process());
      options.locals = job->layout().count(job->process());
    }
    program.compile(*ir, options);
    program.load(*DeviceManager::createDeviceManager().createCpuDevice());
  }
  // All values of a variable: by group, then by replica.
  std::vector<std::vector<float>> read(const char *variable, size_t groups) {
    std::vector<std::vector<float>> values{std::vector<float>(groups * 3), std::vector<float>(12)};
    const int number = program.findVariable(variable);
    EXPECT_GE(number, 0) << variable;
    program.readVariable(number, values[0].data());
    program.readReplicas(number, values[1].data());
    return values;
  }
  std::unique_ptr<Ir> ir;
  CompiledProgram program;
};

TEST(Job, programs_have_the_variables_of_one_process) {
  NoStreams streams;
  const auto connect = [&]() -> runtime::StreamSource & { return streams; };
  Loaded one(kProgram, nullptr);
  for (int i = 0; i < 2; ++i) one.program.run(connect);
  for (const std::vector<int> &counts : {std::vector<int>{2, 2}, {1, 1, 1, 1}, {3, 1}})
    inJob(counts, [&](const std::shared_ptr<Job> &job) {
      Loaded part(kProgram, job);
      for (int loads = 0; loads < 2; ++loads) {
        EXPECT_GT(part.program.exchangeBytes(), 0);
        for (int i = 0; i < 2; ++i) part.program.run(connect);
        if (loads > 0) break;
        part.program.unload();
        part.program.load(*DeviceManager::createDeviceManager().createCpuDevice());
      }
      for (const auto &[variable, groups] :
           {std::pair<const char *, size_t>{"pairs", 2}, {"apart", 2}, {"own", 4}, {"all", 1}})
        EXPECT_EQ(part.read(variable, groups), one.read(variable, groups)) << variable;
    });
}

TEST(Job, processes_with_different_programs_are_refused) {
  inJob({2, 1, 1}, [](const std::shared_ptr<Job> &job) {
    std::string text(kProgram);
    if (job->process() == 1) text.replace(text.find("[5, 6, 7]"), 9, "[5, 6, 8]");
    EXPECT_EQ(test::messageOf([&] { Loaded(text, job); }), "no error");  // variables may begin with other values
    if (job->process() == 1) text.replace(text.find("Add(%all"), 3, "Sub");
    EXPECT_THAT(test::messageOf([&] { Loaded(text, job); }),
                testing::AllOf(HasSubstr("Session 'p': the program of process 1 on host '"),
                               HasSubstr("' (replica 2) differs from that of most processes.")));
  });
}

}  // namespace
}  // namespace popart::session
