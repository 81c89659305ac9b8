// Loops on the fast path: a body sees packed weights, a carry may be the variable it begins with, updates inside a body
// are written into the carry, and the numbers are those of the same program without loops.
#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "../support/steps.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"

namespace popart {
namespace {

using executable::Buffer;
using executable::Executable;
using executable::Step;
using test::kCpu;
using test::kernels;
using test::loopsOf;
using test::numbers;
using test::ProgramRun;

const Step &loopOf(const Executable &e) { return *loopsOf(e.main).at(0); }

// v = tanh(v w)
constexpr std::string_view kBody = R"(graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[8, 32]
  input %body/w : float32[32, 32]
  %body/p = MatMul(%body/v, %body/w)
  %body/next = Tanh(%body/p)
  return %body/cond, %body/next
}
)";

// Three times the body; w is a variable that the body only reads.
constexpr std::string_view kSharedWeight = R"(main {
  stream %in : float32[8, 32]
  variable %w : float32[32, 32] = 0.01
  const %trip : int64[] = 3
  const %go : bool[] = 1
  %x = HostLoad() {stream = "in"}
  %y = Loop(%trip, %go, %x, %w) {body = @body, carried = 1}
  HostStore(%y) {stream = "y"}
}
)";

TEST(Loops, a_weight_that_the_body_reads_stays_packed) {
  const auto ir = parseIr(std::string(kSharedWeight) + std::string(kBody));
  ProgramRun run(*ir, kCpu);
  const Executable &e = run.executable();
  ASSERT_EQ(e.variables.size(), 1u);
  EXPECT_TRUE(cpu::asMatrixPanels(e.variables[0].layout));
  EXPECT_EQ(kernels(*loopOf(e).programs[0], "matmul packed"), 1);
  EXPECT_EQ(kernels(*loopOf(e).programs[0], "reorder"), 0);
  ProgramRun reference(*ir);
  const std::vector<float> weights = numbers(32 * 32, 5), input = numbers(8 * 32, 6);
  std::vector<std::vector<float>> results;
  for (ProgramRun *p : {&run, &reference}) {
    p->write("w", weights);
    p->feed("in", input);
    p->run();
    results.push_back(p->anchor("y"));
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-5f);
}

// Eight times the body; the weight is put together before the loop, from two stored halves.
constexpr std::string_view kComputedWeight = R"(main {
  stream %in : float32[8, 32]
  variable %a : float32[32, 16] = 0.01
  variable %b : float32[32, 16] = 0.01
  const %trip : int64[] = 8
  const %go : bool[] = 1
  %x = HostLoad() {stream = "in"}
  %w = Concat(%a, %b) {axis = 1}
  %y = Loop(%trip, %go, %x, %w) {body = @body, carried = 1}
  HostStore(%y) {stream = "y"}
}
)";

TEST(Loops, a_weight_that_is_computed_before_is_packed_once) {
  const auto ir = parseIr(std::string(kComputedWeight) + std::string(kBody));
  ProgramRun run(*ir, kCpu);
  const Executable &e = run.executable();
  EXPECT_EQ(kernels(*loopOf(e).programs[0], "matmul packed"), 1);
  EXPECT_EQ(kernels(*loopOf(e).programs[0], "reorder"), 0);
  EXPECT_EQ(kernels(e.main, "reorder"), 1);
  ProgramRun reference(*ir);
  const std::vector<float> a = numbers(32 * 16, 5), b = numbers(32 * 16, 7), input = numbers(8 * 32, 6);
  std::vector<std::vector<float>> results;
  for (ProgramRun *p : {&run, &reference}) {
    p->write("a", a);
    p->write("b", b);
    p->feed("in", input);
    p->run();
    results.push_back(p->anchor("y"));
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-5f);
}

// Four micro-batches: the accumulator adds up their weight gradients, then the weight is updated.
constexpr std::string_view kAccumulation = R"(main {
  stream %in : float32[8, 64]
  stream %dy : float32[8, 48]
  variable %w : float32[64, 48] = 0.25
  variable %sum : float32[64, 48] = 0
  const %trip : int64[] = 4
  const %go : bool[] = 1
  const %rate : float32[] = 0.125
  const %zero : float32[] = 0
  %total = Loop(%trip, %go, %sum, %w) {body = @body, carried = 1}
  %scaled = Mul(%total, %rate)
  %new = Sub(%w, %scaled)
  %cleared = Mul(%total, %zero)
  VariableAssign(%w, %new)
  VariableAssign(%sum, %cleared)
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/sum : float32[64, 48]
  input %body/w : float32[64, 48]
  %body/x = HostLoad() {stream = "in"}
  %body/g = HostLoad() {stream = "dy"}
  %body/y = MatMul(%body/x, %body/w)
  HostStore(%body/y) {stream = "y"}
  %body/t = Transpose(%body/x) {perm = [1, 0]}
  %body/dw = MatMul(%body/t, %body/g)
  %body/next = Add(%body/sum, %body/dw)
  return %body/cond, %body/next
}
)";

TEST(Loops, an_accumulator_is_its_variable) {
  const auto ir = parseIr(kAccumulation);
  ProgramRun run(*ir, kCpu);
  const Executable &e = run.executable();
  const Step &loop = loopOf(e);
  EXPECT_TRUE(loop.initial.empty());
  EXPECT_TRUE(loop.carried.empty());
  for (const Step &step : e.main.steps) EXPECT_NE(step.kind, Step::Kind::Copy) << step.name;
  // The product writes the accumulator's panels: gradient and sum in one kernel.
  EXPECT_EQ(kernels(*loop.programs[0], "update"), 1);
  bool writesVariable = false;
  for (const Step &step : loop.programs[0]->steps)
    for (int b : step.out)
      writesVariable |= b >= 0 && e.buffers[static_cast<size_t>(b)].place == Buffer::Place::Variable;
  EXPECT_TRUE(writesVariable);
  constexpr int64_t kAccumulatorBytes = 64 * 48 * sizeof(float);
  EXPECT_LT(e.memory.arenaBytes, kAccumulatorBytes);
}

TEST(Loops, accumulation_gives_the_numbers_of_the_reference) {
  const auto ir = parseIr(kAccumulation);
  ProgramRun run(*ir, kCpu, 2), reference(*ir);
  const std::vector<float> input = numbers(8 * 64, 3), gradient = numbers(8 * 48, 4);
  for (ProgramRun *p : {&run, &reference}) {
    p->feed("in", input);
    p->feed("dy", gradient);
    for (int i = 0; i < 3; ++i) p->run();
  }
  const auto w = run.variable("w"), expected = reference.variable("w");
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], expected[i], 1e-4f);
  for (float v : run.variable("sum")) EXPECT_EQ(v, 0.0f);
}

TEST(Loops, convolution_weights_are_reordered_outside_the_body_or_never) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[2, 16, 8, 8]
  variable %k : float32[16, 16, 3, 3] = 0.01
  const %trip : int64[] = 3
  const %go : bool[] = 1
  %x = HostLoad() {stream = "in"}
  %y = Loop(%trip, %go, %x, %k) {body = @body, carried = 1}
  HostStore(%y) {stream = "y"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[2, 16, 8, 8]
  input %body/k : float32[16, 16, 3, 3]
  %body/c = Conv(%body/v, %body/k) {pads = [1, 1, 1, 1]}
  %body/next = Tanh(%body/c)
  return %body/cond, %body/next
}
)");
  ProgramRun run(*ir, kCpu), reference(*ir);
  const Executable &e = run.executable();
  EXPECT_TRUE(cpu::asConvPanels(e.variables[0].layout));
  for (const Step &step : loopOf(e).programs[0]->steps) EXPECT_EQ(step.name.find("Reorder"), std::string::npos);
  const std::vector<float> input = numbers(2 * 16 * 64, 2), weights = numbers(16 * 16 * 9, 9);
  for (ProgramRun *p : {&run, &reference}) {
    p->write("k", weights);
    p->feed("in", input);
    p->run();
  }
  const auto got = run.anchor("y"), expected = reference.anchor("y");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4f);
}

TEST(Loops, the_trip_count_may_be_of_32_bits) {
  const auto ir = parseIr(R"(main {
  const %trip : int32[] = 3
  const %go : bool[] = 1
  const %one : float32[1] = 1
  %y = Loop(%trip, %go, %one) {body = @double, carried = 1}
  HostStore(%y) {stream = "y"}
}

graph @double {
  input %double/i : int64[]
  input %double/cond : bool[]
  input %double/v : float32[1]
  %double/next = Add(%double/v, %double/v)
  return %double/cond, %double/next
}
)");
  ProgramRun run(*ir);
  run.run();
  EXPECT_EQ(run.anchor("y"), std::vector<float>{8});
}

// A variable that is not assigned keeps its value although a carry begins with it; one value may begin two carries; an
// old value that is read after the loop stays.
TEST(Loops, carries_do_not_take_memory_that_is_still_needed) {
  const auto ir = parseIr(R"(main {
  variable %kept : float32[4] = [1, 2, 3, 4]
  variable %read : float32[4] = [5, 6, 7, 8]
  const %trip : int64[] = 3
  const %go : bool[] = 1
  const %one : float32[] = 1
  %a, %b = Loop(%trip, %go, %kept, %kept) {body = @two, carried = 2}
  %c = Loop(%trip, %go, %read) {body = @double, carried = 1}
  %late = Add(%read, %one)
  HostStore(%a) {stream = "a"}
  HostStore(%b) {stream = "b"}
  HostStore(%late) {stream = "late"}
  VariableAssign(%read, %c)
}

graph @double {
  input %double/i : int64[]
  input %double/cond : bool[]
  input %double/v : float32[4]
  %double/next = Add(%double/v, %double/v)
  return %double/cond, %double/next
}

graph @two {
  input %two/i : int64[]
  input %two/cond : bool[]
  input %two/v : float32[4]
  input %two/u : float32[4]
  %two/sum = Add(%two/v, %two/u)
  %two/difference = Sub(%two/v, %two/u)
  return %two/cond, %two/sum, %two/difference
}
)");
  for (bool fast : {false, true}) {
    ProgramRun run(*ir, fast ? kCpu : std::vector<const executable::Backend *>{&ref::backend()});
    SCOPED_TRACE(executable::print(run.executable()));
    run.run();
    run.run();
    EXPECT_EQ(run.variable("kept"), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(run.anchor("a"), (std::vector<float>{4, 8, 12, 16}));
    EXPECT_EQ(run.anchor("b"), (std::vector<float>{0, 0, 0, 0}));
    EXPECT_EQ(run.variable("read"), (std::vector<float>{320, 384, 448, 512}));
    EXPECT_EQ(run.anchor("late"), (std::vector<float>{41, 49, 57, 65}));
  }
}

}  // namespace
}  // namespace popart
