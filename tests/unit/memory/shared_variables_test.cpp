// Variables that replicas have in one memory: those that nothing writes but updates of collectives, in place, and that
// nothing uses while these are under way.
#include <gtest/gtest.h>

#include "../support/message_of.hpp"
#include "backends/collectives/collectives.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "executable/executable.hpp"
#include "lower/program.hpp"
#include "memory/plan.hpp"

namespace popart::memory {
namespace {

using executable::Sharers;

struct Planned {
  explicit Planned(const std::string &ops) {
    program = lower::parseProgram(R"(program for cpu, collectives, ref
main {
  stream %x : float32[256, 128]
  variable %w : float32[256, 128] = 0.5
  variable %v : float32[256, 128] = 0.25
  const %rate : float32[] = 0.1
  %g = HostLoad() {stream = "x"}
)" + ops + R"(}

graph @descent {
  input %sum : float32[256, 128]
  input %old : float32[256, 128]
  input %by : float32[]
  %step = Mul(%sum, %by)
  %new = Sub(%old, %step)
  return %new
}
)");
    lower::LowerOptions options;
    options.replicas = 4;
    options.backends = {&cpu::backend(), &collectives::backend(), &ref::backend()};
    compiled = lower::compileInSteps(program, options, lower::remember(options));
  }
  Sharers sharersOf(const char *variable) const {
    const Graph &main = program.ir->getMainGraph();
    return compiled.plan.storages[static_cast<size_t>(compiled.plan.of(main, main.find(variable)))].sharers;
  }

  lower::Program program;
  lower::Compiled compiled;
};

constexpr const char *kUpdate =
    "%new = CollectiveUpdate(%g, %w, %rate) {body = @descent, replaces = [1], "
    "group_size = 2, stride = 2}\n";

TEST(SharedVariables, what_is_updated_where_replicas_meet) {
  const Planned planned(std::string(kUpdate) + "VariableAssign(%w, %new)\n");
  EXPECT_EQ(planned.sharersOf("w"), (Sharers{2, 2}));
  EXPECT_EQ(planned.sharersOf("v"), Sharers{});
  EXPECT_NE(print(planned.compiled.plan).find("w, new shared by 2 replicas, stride 2\n"), std::string::npos)
      << print(planned.compiled.plan);
  // Each pair of four replicas has the weight once; the other variable is there four times.
  const executable::Executable &e = *planned.compiled.executable;
  constexpr int64_t kBytes = 256 * 128 * 4;
  EXPECT_EQ(ownVariableBytes(e, 1, 0), 2 * kBytes);
  EXPECT_EQ(ownVariableBytes(e, 2, 0), kBytes);
  EXPECT_EQ(totalBytes(e, {0, 4}),
            e.memory.constantBytes + 4 * (e.memory.arenaBytes + e.memory.scratchBytes) + 6 * kBytes);
  EXPECT_EQ(4 * e.memory.total(), totalBytes(e, {0, 4}));  // the share of each
}

// Published, with `between` before the replicas wait.
std::string inTwoPhases(const std::string &between) {
  return "%gp, %wp = CollectivePublish(%g, %w) {channel = 0, group_size = 2}\n" + between +
         "%new = CollectiveUpdate(%gp, %wp, %rate) {body = @descent, replaces = [1], group_size = 2, channel = 0}\n"
         "VariableAssign(%w, %new)\n";
}

TEST(SharedVariables, nothing_reads_them_between_publishing_and_waiting) {
  EXPECT_EQ(Planned(inTwoPhases("")).sharersOf("w"), (Sharers{2, 1}));
  EXPECT_EQ(Planned(inTwoPhases("%y = Exp(%w)\nHostStore(%y) {stream = \"y\"}\n")).sharersOf("w"), Sharers{});
}

TEST(SharedVariables, what_something_else_writes_is_each_replicas_own) {
  // The new value goes to another variable, or is changed by each replica for itself.
  EXPECT_EQ(Planned(std::string(kUpdate) + "VariableAssign(%v, %new)\n").sharersOf("w"), Sharers{});
  const Planned changed(std::string(kUpdate) + "%more = Exp(%new)\nVariableAssign(%w, %more)\n");
  EXPECT_EQ(changed.sharersOf("w"), Sharers{});
}

TEST(SharedVariables, a_plan_that_shares_others_is_refused) {
  const Planned planned(std::string(kUpdate) + "VariableAssign(%w, %new)\n");
  MemoryPlan plan = planned.compiled.plan;
  const Graph &main = planned.program.ir->getMainGraph();
  EXPECT_NO_THROW(verifySharedVariables(plan, *planned.program.ir, planned.compiled.schedule));
  plan.storages[static_cast<size_t>(plan.of(main, main.find("v")))].sharers = {2, 1};
  const std::string message =
      test::messageOf([&] { verifySharedVariables(plan, *planned.program.ir, planned.compiled.schedule); });
  EXPECT_NE(message.find("'v' is shared by 2 replicas"), std::string::npos) << message;
}

TEST(SharedVariables, a_program_must_publish_what_is_met_for) {
  const std::string other =
      "%gp, %wp = CollectivePublish(%g, %w) {channel = 1, group_size = 2}\n"
      "%new = CollectiveUpdate(%gp, %wp, %rate) {body = @descent, replaces = [1], "
      "group_size = 2, channel = 0}\nVariableAssign(%w, %new)\n";
  const std::string message = test::messageOf([&] { Planned{other}; });
  EXPECT_NE(message.find("is not the tensor that channel 0 publishes"), std::string::npos) << message;
}

}  // namespace
}  // namespace popart::memory
