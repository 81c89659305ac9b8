// Memory of lanes: blocks, what may be overwritten, and a check that finds what the plan of a wrong schedule shares.
#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "../support/message_of.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "lower/kernels.hpp"
#include "memory/plan.hpp"
#include "memory/storages.hpp"
#include "pipeline/passes.hpp"
#include "schedule/lanes.hpp"

namespace popart::memory {
namespace {

bool overlap(const Storage &a, const Storage &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(LaneTimes, say_what_runs_at_the_same_time) {
  LaneTimes lanes;
  lanes.beginSection(3), lanes.endLane(5), lanes.endLane(9);
  lanes.beginSection(12), lanes.endLane(12), lanes.endLane(13);
  EXPECT_EQ(lanes.at(2).section, -1);
  EXPECT_EQ(lanes.at(3), (LaneTimes::Where{0, 0}));
  EXPECT_EQ(lanes.at(6), (LaneTimes::Where{0, 1}));
  EXPECT_EQ(lanes.at(10).section, -1);
  EXPECT_EQ(lanes.at(13), (LaneTimes::Where{1, 1}));
  EXPECT_TRUE(lanes.areConcurrent(4, 9));
  EXPECT_FALSE(lanes.areConcurrent(3, 5));
  EXPECT_FALSE(lanes.areConcurrent(4, 12));
  EXPECT_FALSE(lanes.areConcurrent(1, 2));
}

TEST(Storages, lanes_share_memory_within_themselves) {
  Storages s;
  const auto add = [&](int first, int last) {
    const int n = s.add(Place::Arena, 64, -1, "value");
    s.define(n, first), s.use(n, last);
    return n;
  };
  LaneTimes lanes;
  lanes.beginSection(2), lanes.endLane(5), lanes.endLane(9);
  const int a = add(2, 3), b = add(4, 5), other = add(7, 8), given = add(1, 2), taken = add(8, 10);
  const Storages::Placed plan = s.place(lanes);
  EXPECT_EQ(plan.storages[a].offset, plan.storages[b].offset) << "one after the other in their lane";
  for (const int x : {a, b, given, taken}) EXPECT_FALSE(overlap(plan.storages[x], plan.storages[other]));
  for (const int x : {a, b, taken}) EXPECT_FALSE(overlap(plan.storages[x], plan.storages[given]));
  for (const int x : {a, b}) EXPECT_FALSE(overlap(plan.storages[x], plan.storages[taken]));
  EXPECT_EQ(plan.arenaBytes, 4 * 64);
}

struct Planned {
  std::shared_ptr<const Ir> ir;
  schedule::Schedule order;
  lower::Kernels kernels;

  explicit Planned(std::string_view text) {
    lower::LowerOptions options;
    options.backends = {&cpu::backend(), &ref::backend()};
    options.fuse = false;
    const lower::Backends backends = lower::remember(options);
    ir = pipeline::lowerProgram(*parseIr(text), options, backends).ir;
    order = schedule::schedule(*ir);
    kernels = lower::chooseKernels(*ir, order, backends);
  }
  schedule::Schedule withLanes() const {
    return schedule::findLanes(*ir, order, [](const Op &op) { return op.has(Trait::View) ? 0 : 1; });
  }
  MemoryPlan plan(const schedule::Schedule &of) const {
    return planMemory(
        *ir, of, [&](const Op &op) { return kernels.find(op); }, 1);
  }
};

constexpr const char *kChains = R"(main {
  stream %x : float32[64]
  %in = HostLoad() {stream = "x"}
  %a = Gelu(%in) <hints = s["lane", "1"]>
  %b = Erf(%a) <hints = s["lane", "1"]>
  %c = Gelu(%b) <hints = s["lane", "1"]>
  %d = Erf(%in) <hints = s["lane", "0"]>
  %e = Gelu(%d) <hints = s["lane", "0"]>
  HostStore(%c) {stream = "c"}
  HostStore(%e) {stream = "e"}
}
)";

TEST(LanePlan, a_plan_for_one_thread_is_refused_for_lanes) {
  const Planned chains(kChains);
  const schedule::Schedule lanes = chains.withLanes();
  ASSERT_EQ(lanes.sections.size(), 1U);
  EXPECT_NO_THROW(verifyLanes(chains.plan(lanes), *chains.ir, lanes));
  const std::string message = test::messageOf([&] { verifyLanes(chains.plan(chains.order), *chains.ir, lanes); });
  EXPECT_NE(message.find("memory plan: lane"), std::string::npos) << message;
  EXPECT_NE(message.find("in the same memory"), std::string::npos) << message;
}

TEST(LanePlan, an_operand_of_two_lanes_is_not_overwritten) {
  const Planned chains(kChains);
  const schedule::Schedule lanes = chains.withLanes();
  const MemoryPlan plan = chains.plan(lanes);
  const Graph &main = chains.ir->getMainGraph();
  const auto storage = [&](const char *id) { return plan.storages[static_cast<size_t>(plan.of(main, main.find(id)))]; };
  for (const char *made : {"a", "b", "c", "d", "e"}) EXPECT_FALSE(overlap(storage("in"), storage(made))) << made;
  for (const char *one : {"a", "b", "c"})
    for (const char *other : {"d", "e"}) EXPECT_FALSE(overlap(storage(one), storage(other))) << one << other;
  verify(plan);
}

// A kernel whose tasks share memory.
struct SharingKernel final : executable::Kernel {
  std::string name() const override { return "sharing"; }
  int64_t sharedBytes() const override { return 1000; }
};

TEST(LanePlan, memory_that_tasks_share_is_no_other_value_at_the_time) {
  const Planned chains(kChains);
  const Graph &main = chains.ir->getMainGraph();
  const SharingKernel kernel;
  for (const schedule::Schedule &order : {chains.order, chains.withLanes()}) {
    const MemoryPlan plan = planMemory(
        *chains.ir, order, [&](const Op &) { return &kernel; }, 1);
    verify(plan);
    verifyLanes(plan, *chains.ir, order);
    EXPECT_EQ(plan.sharedOf.size(), 5U);
    const auto storage = [&](const char *id) { return plan.storages[plan.of(main, main.find(id))]; };
    const auto sharedOf = [&](const char *id) {
      return plan.storages[plan.sharedOf.at(main.tensor(main.find(id)).getProducer())];
    };
    for (const auto &[made, read] : {std::pair{"a", "in"}, {"b", "a"}, {"c", "b"}, {"d", "in"}, {"e", "d"}}) {
      EXPECT_EQ(sharedOf(made).bytes, 1000);
      EXPECT_FALSE(overlap(sharedOf(made), storage(made))) << made;
      EXPECT_FALSE(overlap(sharedOf(made), storage(read))) << made;
    }
    EXPECT_TRUE(overlap(sharedOf("a"), sharedOf("b"))) << "one after the other";
    const bool isOrdered = order.sections.empty();
    EXPECT_EQ(overlap(sharedOf("a"), sharedOf("d")), isOrdered);
    EXPECT_LT(plan.arenaBytes, isOrdered ? 2000 : 4000);
    EXPECT_EQ(plan.arenaBytes, plan.largestLiveSetBytes);
  }
}

// A kernel with scratch memory.
struct ScratchKernel final : executable::Kernel {
  explicit ScratchKernel(int64_t bytes) : bytes(bytes) {}
  std::string name() const override { return "scratch"; }
  int tasks() const override { return 3; }
  int64_t scratchBytes() const override { return bytes; }
  int64_t bytes;
};

TEST(LanePlan, large_scratch_memory_is_in_the_arena_but_not_in_lanes) {
  const Planned chains(kChains);
  const Graph &main = chains.ir->getMainGraph();
  const auto planFor = [&](const schedule::Schedule &order, int64_t bytes, int threads) {
    const ScratchKernel kernel(bytes);
    MemoryPlan plan = planMemory(
        *chains.ir, order, [&](const Op &) { return &kernel; }, threads);
    verify(plan);
    verifyLanes(plan, *chains.ir, order);
    return plan;
  };
  constexpr int64_t kLarge = (1 << 20) + 1, kStride = kLarge + 63;
  EXPECT_TRUE(planFor(chains.order, 1000, 8).scratchOf.empty());
  EXPECT_TRUE(planFor(chains.withLanes(), kLarge, 8).scratchOf.empty());
  for (const int threads : {1, 2, 8}) {
    const MemoryPlan plan = planFor(chains.order, kLarge, threads);
    ASSERT_EQ(plan.scratchOf.size(), 5U);
    const auto storage = [&](const char *id) { return plan.storages[plan.of(main, main.find(id))]; };
    const auto scratchOf = [&](const char *id) {
      return plan.storages[plan.scratchOf.at(main.tensor(main.find(id)).getProducer())];
    };
    EXPECT_EQ(scratchOf("b").bytes, std::min(threads, 3) * kStride) << "a part for each thread that has a task";
    EXPECT_FALSE(overlap(scratchOf("b"), storage("a")));
    EXPECT_FALSE(overlap(scratchOf("b"), storage("b")));
    EXPECT_TRUE(overlap(scratchOf("a"), scratchOf("b"))) << "one after the other";
    EXPECT_EQ(plan.arenaBytes, plan.largestLiveSetBytes);
    const MemoryPlan values = planFor(chains.order, 0, threads);
    EXPECT_EQ(plan.arenaBytes - plan.scratchBytes, values.arenaBytes);
    EXPECT_EQ(values.scratchBytes, 0);
  }
}

// A loop whose lanes hand a value on: one reads the carry, the other makes the next one.
constexpr const char *kLoop = R"(main {
  stream %x : float32[64]
  variable %acc : float32[64] = 0
  %in = HostLoad() {stream = "x"}
  %last, %sum = Loop(_, _, %in, %acc) {body = @body, carried = 2, trip_count = 3}
  VariableAssign(%acc, %sum)
  HostStore(%last) {stream = "last"}
}

graph @body {
  input %i : int64[]
  input %go : bool[]
  input %carry : float32[64]
  input %sum : float32[64]
  const %w0 : float32[64] = 2
  %used = Gelu(%carry) <hints = s["lane", "1"]>
  %next = Add(%sum, %used) <hints = s["lane", "1"]>
  %made = Erf(%w0) <hints = s["lane", "0"]>
  return %go, %made, %next
}
)";

TEST(LanePlan, a_carry_is_copied_where_another_lane_reads_it) {
  const Planned loop(kLoop);
  const auto copies = [&](const schedule::Schedule &order) {
    const MemoryPlan plan = loop.plan(order);
    verifyLanes(plan, *loop.ir, order);
    return plan.carried.begin()->second.size();
  };
  EXPECT_EQ(copies(loop.order), 0U);
  const schedule::Schedule lanes = loop.withLanes();
  ASSERT_EQ(lanes.sections.size(), 1U);
  EXPECT_EQ(copies(lanes), 1U) << "the sum belongs to one lane";
  EXPECT_NE(test::messageOf([&] { verifyLanes(loop.plan(loop.order), *loop.ir, lanes); }).find("lane 0 writes"),
            std::string::npos);
}

}  // namespace
}  // namespace popart::memory
