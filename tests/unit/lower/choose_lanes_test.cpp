// The choice between stages at the same time and one after the other: by cost, forced, and under a memory limit.
#include "lower/choose_lanes.hpp"

#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "../support/steps.hpp"
#include "executable/cost.hpp"
#include "pipeline/passes.hpp"

namespace popart {
namespace {

using lower::LaneRule;

// Stages of `sizes` elements. Kernels of the reference backend have one task, so that other threads cannot help.
std::string stagesOf(const std::vector<int64_t> &sizes) {
  std::string text = "main {\n";
  for (size_t s = 0; s < sizes.size(); ++s) {
    const std::string n = std::to_string(s), type = " : float32[" + std::to_string(sizes[s]) + "]";
    text += "  variable %w" + n + type + " = 1\n  %a" + n + " = Erf(%w" + n + ") <hints = s[\"lane\", \"" + n +
            "\"]>\n  HostStore(%a" + n + ") {stream = \"a" + n + "\"}\n";
  }
  return text + "}\n";
}

lower::Compiled compiled(const std::vector<int64_t> &sizes, LaneRule rule, int threads, int64_t mostBytes = 0) {
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  options.fuse = false;
  options.lanes = rule;
  options.threads = threads;
  options.maxMemoryBytes = mostBytes;
  const lower::Backends backends = lower::remember(options);
  return lower::compileInSteps(pipeline::lowerProgram(*parseIr(stagesOf(sizes)), options, backends), options, backends);
}

// "0 (1), 1, 2 (3)": names of lanes and their threads.
std::string lanesOf(const lower::Compiled &program) {
  std::string text;
  for (const auto &[graph, sections] : program.schedule.sections)
    for (const schedule::Section &section : sections)
      for (const schedule::Lane &lane : section.lanes)
        text += (text.empty() ? "" : " | ") + lane.name + " (" + std::to_string(lane.threads) + ")";
  return text;
}

constexpr int64_t kLarge = 1 << 20, kTiny = 64;

TEST(ChooseLanes, where_stages_are_faster_side_by_side) {
  EXPECT_EQ(lanesOf(compiled({kLarge, kLarge}, LaneRule::Auto, 2)), "0 (1) | 1 (1)");
  EXPECT_EQ(lanesOf(compiled({kLarge, kTiny}, LaneRule::Auto, 2)), "") << "the other stage takes no time";
  EXPECT_EQ(lanesOf(compiled({kTiny, kTiny}, LaneRule::Auto, 2)), "") << "waking takes longer";
}

TEST(ChooseLanes, forced_rules_act) {
  EXPECT_EQ(lanesOf(compiled({kLarge, kLarge}, LaneRule::Never, 2)), "");
  EXPECT_EQ(lanesOf(compiled({kTiny, kTiny}, LaneRule::Always, 2)), "0 (1) | 1 (1)");
  EXPECT_EQ(lanesOf(compiled({kLarge, kLarge}, LaneRule::Always, 1)), "") << "one thread";
}

TEST(ChooseLanes, stages_share_threads_that_are_too_few) {
  EXPECT_EQ(lanesOf(compiled({2 * kLarge, kLarge, kLarge}, LaneRule::Auto, 2)), "0 (1) | 1, 2 (1)");
  EXPECT_EQ(lanesOf(compiled({kLarge, 3 * kLarge, kLarge, kLarge}, LaneRule::Auto, 2)), "1 (1) | 0, 2, 3 (1)");
}

TEST(ChooseLanes, all_threads_have_a_lane) {
  const lower::Compiled program = compiled({kLarge, 3 * kLarge, kLarge}, LaneRule::Auto, 8);
  int threads = 0;
  for (const schedule::Lane &lane : program.schedule.sections.begin()->second.front().lanes) threads += lane.threads;
  EXPECT_EQ(threads, 8);
}

TEST(ChooseLanes, a_memory_limit_comes_first) {
  const std::vector<int64_t> sizes{kLarge, kLarge};
  const int64_t inOrder = compiled(sizes, LaneRule::Never, 2).executable->memory.total(),
                together = compiled(sizes, LaneRule::Auto, 2).executable->memory.total();
  ASSERT_LT(inOrder, together);
  const lower::Compiled limited = compiled(sizes, LaneRule::Auto, 2, inOrder);
  EXPECT_EQ(lanesOf(limited), "");
  EXPECT_EQ(limited.executable->memory.total(), inOrder);
  EXPECT_THROW(compiled(sizes, LaneRule::Always, 2, inOrder), memory_allocation_err);
}

// Two loops of products with square matrices of `size` rows; or one that goes on from the other.
std::string loopsOf(int64_t size, bool areIndependent) {
  const std::string n = std::to_string(size), row = "float32[1, " + n + "]", matrix = "float32[" + n + ", " + n + "]";
  std::string text = "main {\n  variable %x : " + row + " = 1\n  variable %w : " + matrix + " = 0.01\n";
  text += "  %a, %wa = Loop(_, _, %x, %w) {body = @a, carried = 2, trip_count = 64}\n  %b, %wb = Loop(_, _, " +
          std::string(areIndependent ? "%x" : "%a") + ", %w) {body = @b, carried = 2, trip_count = 64}\n" +
          "  HostStore(%a) {stream = \"a\"}\n  HostStore(%b) {stream = \"b\"}\n}\n";
  for (const std::string name : {"a", "b"}) {
    const std::string at = "%" + name + "/";
    text += "graph @" + name + " {\n  input " + at + "i : int64[]\n  input " + at + "go : bool[]\n  input " + at +
            "s : " + row + "\n  input " + at + "w : " + matrix + "\n  " + at + "p = MatMul(" + at + "s, " + at +
            "w)\n  " + at + "next = Tanh(" + at + "p)\n  return " + at + "go, " + at + "next, " + at + "w\n}\n";
  }
  return text;
}

TEST(ChooseLanes, loops_of_small_steps_run_side_by_side) {
  const auto lanes = [](int64_t size, bool areIndependent, LaneRule rule, int threads) {
    lower::LowerOptions options;
    options.backends = test::kCpu;
    options.lanes = rule;
    options.threads = threads;
    const lower::Backends backends = lower::remember(options);
    const lower::Compiled program = lower::compileInSteps(
        pipeline::lowerProgram(*parseIr(loopsOf(size, areIndependent)), options, backends), options, backends);
    size_t count = 0;
    for (const auto &[graph, sections] : program.schedule.sections)
      for (const schedule::Section &section : sections) count += section.lanes.size();
    return count;
  };
  EXPECT_EQ(lanes(128, true, LaneRule::Auto, 2), 2u);
  EXPECT_EQ(lanes(128, true, LaneRule::Auto, 8), 2u);
  EXPECT_EQ(lanes(128, true, LaneRule::Auto, 1), 0u);
  EXPECT_EQ(lanes(128, true, LaneRule::Never, 2), 0u);
  EXPECT_EQ(lanes(128, false, LaneRule::Always, 2), 0u);
  EXPECT_EQ(lanes(4096, true, LaneRule::Auto, 2), 0u) << "all threads share the weights of a step";
  EXPECT_EQ(lanes(4096, true, LaneRule::Always, 2), 2u);
}

TEST(ChooseLanes, predicted_runs_take_as_long_as_the_slowest_lane) {
  const auto never = compiled({kLarge, kLarge}, LaneRule::Never, 2).executable,
             always = compiled({kLarge, kLarge}, LaneRule::Always, 2).executable;
  EXPECT_LT(executable::predictedRunNanoseconds(*always, 2), executable::predictedRunNanoseconds(*never, 2));
}

}  // namespace
}  // namespace popart
