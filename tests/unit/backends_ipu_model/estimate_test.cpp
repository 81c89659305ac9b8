// Estimates of steps against arithmetic by hand: kernels of a given cost, loops, branches, lanes and transfers.
#include "backends/ipu_model/estimate.hpp"

#include <gtest/gtest.h>

#include <popart/graph.hpp>
#include <popart/ir.hpp>

namespace popart {
namespace {

using executable::Executable;
using executable::Kernel;
using executable::Program;
using executable::Step;
using ipu_model::Estimate;
using ipu_model::Machine;

constexpr Machine kMachine = {"test", 10, 1e9, 2, 4, 1024, "made up"};
constexpr int64_t kTiles = 5;  // 10 operations and 20 bytes in a cycle

// Operations are those of a product of 4 x 8 and 8 x 16: 1,024, so 102.4 cycles.
constexpr double kProductCycles = 2 * 4 * 8 * 16 / 10.0;

class OfBytes final : public Kernel {
 public:
  explicit OfBytes(double bytes) : bytes_(bytes) {}
  std::string name() const override { return "of bytes"; }
  double bytes() const override { return bytes_; }

 private:
  double bytes_;
};

Step product(double bytes) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
  stream %a : float32[4, 8]
  stream %b : float32[8, 16]
  %c : float32[4, 16] = MatMul(%a, %b)
  return %c
})");
  Step step;
  step.kernel =
      executable::withCost(std::make_unique<OfBytes>(bytes), executable::requestOf(*ir->getMainGraph().ops().front()));
  return step;
}

Step around(Step::Kind kind, std::vector<std::vector<Step>> programs) {
  Step step;
  step.kind = kind;
  for (std::vector<Step> &steps : programs) {
    step.programs.push_back(std::make_shared<Program>(Program{std::move(steps)}));
    step.threads.push_back(1);
  }
  return step;
}

Estimate estimateOf(std::vector<Step> steps, std::vector<executable::Buffer> buffers = {}) {
  Executable executable;
  executable.main.steps = std::move(steps);
  executable.buffers = std::move(buffers);
  Estimate estimate = ipu_model::estimate(executable, kMachine, kTiles);
  double sum = 0;
  for (const ipu_model::StepCycles &step : estimate.steps) sum += step.calls * step.total();
  EXPECT_NEAR(sum, estimate.cycles, 1e-9 * sum) << "the steps with their calls add up to the run";
  return estimate;
}

TEST(IpuEstimate, a_kernel_takes_the_longer_of_operations_and_bytes_and_a_synchronisation) {
  const Estimate estimate = estimateOf({product(100), product(4000)});
  ASSERT_EQ(estimate.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(estimate.steps[0].compute, kProductCycles);
  EXPECT_DOUBLE_EQ(estimate.steps[0].memory, 5);
  EXPECT_DOUBLE_EQ(estimate.steps[0].total(), 100 + kProductCycles);
  EXPECT_DOUBLE_EQ(estimate.steps[1].total(), 100 + 200);
}

TEST(IpuEstimate, a_loop_takes_its_body_and_its_copies_times_its_iterations) {
  Step loop = around(Step::Kind::Loop, {{product(4000)}});
  loop.tripCount = 3;
  loop.carried = {{0, 1, 40}};
  loop.initial = {{0, 1, 60}};
  const Estimate estimate = estimateOf({loop});
  ASSERT_EQ(estimate.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(estimate.steps[0].total(), 2 * (60 + 3 * 40) / 20.0);
  EXPECT_DOUBLE_EQ(estimate.steps[1].calls, 3);
  EXPECT_DOUBLE_EQ(estimate.cycles, 18 + 3 * 300);
  EXPECT_EQ(estimate.openLoops, 0);
}

TEST(IpuEstimate, a_loop_whose_length_data_decide_counts_once_and_is_counted) {
  const Estimate estimate = estimateOf({around(Step::Kind::Loop, {{product(4000)}})});
  EXPECT_DOUBLE_EQ(estimate.cycles, 300);
  EXPECT_EQ(estimate.openLoops, 1);
}

TEST(IpuEstimate, of_branches_the_longer_one_counts) {
  for (const bool first : {true, false}) {
    std::vector<Step> longer = {product(4000), product(4000)}, shorter = {product(4000)};
    const Estimate estimate =
        estimateOf({around(Step::Kind::If, {first ? longer : shorter, first ? shorter : longer})});
    EXPECT_DOUBLE_EQ(estimate.cycles, 600);
    std::vector<double> calls;
    for (const auto &step : estimate.steps) calls.push_back(step.calls);
    EXPECT_EQ(calls, (first ? std::vector<double>{1, 1, 1, 0} : std::vector<double>{1, 0, 1, 1}));
  }
}

TEST(IpuEstimate, lanes_share_the_tiles) {
  const Estimate estimate = estimateOf({around(Step::Kind::Lanes, {{product(4000)}, {product(4000)}})});
  EXPECT_DOUBLE_EQ(estimate.cycles, 600);
}

TEST(IpuEstimate, values_of_the_host_cross_the_link) {
  Step load;
  load.kind = Step::Kind::HostLoad;
  load.out = {0};
  executable::Buffer value;
  value.bytes = 150;
  const Estimate estimate = estimateOf({load}, {value});
  EXPECT_DOUBLE_EQ(estimate.steps[0].link, 10);
  EXPECT_DOUBLE_EQ(estimate.steps[0].linkBytes, 150);
  EXPECT_DOUBLE_EQ(estimate.cycles, 110);
}

TEST(IpuMachine, versions_are_found_by_name) {
  ASSERT_NE(ipu_model::findMachine("ipu2"), nullptr);
  EXPECT_EQ(ipu_model::findMachine("ipu2")->tiles, 1472);
  EXPECT_EQ(ipu_model::findMachine("ipu9"), nullptr);
}

// The published figures of whole IPUs, to 2 percent: they are rounded.
TEST(IpuMachine, a_tile_is_its_share_of_the_published_ipu) {
  struct Published {
    const char *version;
    double flops, bytesPerSecond, memory;
  };
  for (const Published &whole :
       {Published{"ipu1", 31.1e12, 45e12, 304.0 * (1 << 20)}, Published{"ipu2", 62.5e12, 47.5e12, 900e6}}) {
    const Machine &machine = *ipu_model::findMachine(whole.version);
    const double tilesPerSecond = machine.tiles * machine.hertz;
    EXPECT_NEAR(machine.flopsPerCycle * tilesPerSecond / whole.flops, 1, 0.02);
    EXPECT_NEAR(machine.bytesPerCycle * tilesPerSecond / whole.bytesPerSecond, 1, 0.02);
    EXPECT_NEAR(static_cast<double>(machine.bytesPerTile) * machine.tiles / whole.memory, 1, 0.05);
  }
}

}  // namespace
}  // namespace popart
