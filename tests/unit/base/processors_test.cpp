// Cores and CPU quotas as files of made-up machines state them.
#include "base/threads/processors.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "../support/temporary_folder.hpp"

namespace popart {
namespace {

namespace fs = std::filesystem;

// A folder with the files of a machine, removed at the end.
class Machine {
 public:
  explicit Machine(const std::map<std::string, std::string> &files) {
    for (const auto &[name, text] : files) {
      const fs::path path = folder_.path().string() + name;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
  }

  ProcessorLimits limits(int processors = 64) const {
    std::vector<int> numbers(static_cast<size_t>(processors));
    std::iota(numbers.begin(), numbers.end(), 0);
    return readProcessorLimits(numbers, folder_.path());
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(Processors, without_files_every_processor_is_a_core_without_limit) {
  const ProcessorLimits limits = Machine({}).limits(6);
  EXPECT_EQ(limits.cores.size(), 6u);
  EXPECT_FALSE(limits.quota.has_value());
  EXPECT_EQ(limits.threads(), 6);
}

TEST(Processors, hyper_threads_of_a_core_count_once) {
  std::map<std::string, std::string> files;
  for (int cpu = 0; cpu < 8; ++cpu)
    files["/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list"] =
        std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n";
  const Machine machine(files);
  EXPECT_EQ(machine.limits(8).threads(), 4);
  EXPECT_EQ(machine.limits(8).cores[1], (std::vector<int>{1, 5}));
  EXPECT_EQ(machine.limits(3).threads(), 3);
}

TEST(Processors, quota_of_a_group_of_version_2) {
  const Machine machine(
      {{"/proc/self/cgroup", "0::/work/job\n"}, {"/sys/fs/cgroup/work/job/cpu.max", "150000 100000\n"}});
  EXPECT_DOUBLE_EQ(machine.limits().quota.value(), 1.5);
  EXPECT_EQ(machine.limits().threads(), 2);
}

TEST(Processors, the_least_quota_of_the_groups_around_counts) {
  const Machine machine({{"/proc/self/cgroup", "0::/work/job/step\n"},
                         {"/sys/fs/cgroup/work/job/step/cpu.max", "max 100000\n"},
                         {"/sys/fs/cgroup/work/job/cpu.max", "800000 100000\n"},
                         {"/sys/fs/cgroup/work/cpu.max", "400000 200000\n"}});
  EXPECT_EQ(machine.limits().threads(), 2);
}

TEST(Processors, in_a_container_the_mounted_group_counts) {
  const Machine machine(
      {{"/proc/self/cgroup", "0::/system.slice/docker-0123.scope\n"}, {"/sys/fs/cgroup/cpu.max", "300000 100000\n"}});
  EXPECT_EQ(machine.limits().threads(), 3);
}

TEST(Processors, quota_of_a_group_of_version_1) {
  const Machine machine({{"/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n"},
                         {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "250000\n"},
                         {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"}});
  EXPECT_EQ(machine.limits().threads(), 3);
}

TEST(Processors, a_group_without_limit_limits_nothing) {
  EXPECT_EQ(Machine({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "max 100000\n"}}).limits().threads(),
            64);
  EXPECT_EQ(Machine({{"/proc/self/cgroup", "1:cpu:/\n"},
                     {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                     {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})
                .limits()
                .threads(),
            64);
}

TEST(Processors, a_small_quota_still_gives_a_thread) {
  const Machine machine({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "10000 100000\n"}});
  EXPECT_EQ(machine.limits().threads(), 1);
}

TEST(Processors, odd_files_limit_nothing) {
  for (const char *text : {"", "\n", "max", "fast 100000", "100000", "100000 0", "-5 100000"}) {
    const Machine machine(
        {{"/proc/self/cgroup", "0::/\nnonsense\n7:cpu:no/slash\n::\n"}, {"/sys/fs/cgroup/cpu.max", text}});
    EXPECT_EQ(machine.limits().threads(), 64) << text;
  }
}

TEST(Processors, processes_of_a_job_share_them) {
  const ProcessorLimits limits = Machine({}).limits(7);
  std::vector<std::vector<int>> all;
  for (int p = 0; p < 3; ++p) {
    const ProcessorLimits part = limits.part(p, 3);
    EXPECT_EQ(part.threads(), p == 2 ? 3 : 2);
    all.insert(all.end(), part.cores.begin(), part.cores.end());
  }
  EXPECT_EQ(all, limits.cores);
  for (int p = 0; p < 9; ++p) EXPECT_EQ(limits.part(p, 9).threads(), 1);
  EXPECT_EQ(limits.part(0, 1).cores, limits.cores);

  const Machine machine({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}});
  EXPECT_EQ(machine.limits().part(1, 2).threads(), 2);
}

TEST(Processors, this_process_may_compute) {
  EXPECT_GE(processorLimits().threads(), 1);
  EXPECT_LE(processorLimits().threads(), allowedProcessors());
}

}  // namespace
}  // namespace popart
