// Loops read and write rows of stacks where they lie: no step copies them, and the numbers are those of the reference.
#include <cmath>

#include <gtest/gtest.h>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "../support/steps.hpp"
#include "lower/program.hpp"

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

// Three iterations stack v·w[i]; three more read the stack from its end, w[2 - i] with it.
constexpr std::string_view kThereAndBack = R"(main {
  stream %in : float32[8, 16]
  variable %w : float32[3, 16, 16] = 0.01
  const %zero : uint32[1] = 0
  %x = HostLoad() {stream = "in"}
  %y, %count, %stack = Loop(_, _, %x, %zero, %w) {body = @there, carried = 2, trip_count = 3}
  %z = Loop(_, _, %y, %stack, %w) {body = @back, carried = 1, trip_count = 3}
  HostStore(%z) {stream = "z"}
  HostStore(%stack) {stream = "stack"}
}

graph @there {
  input %there/i : int64[]
  input %there/cond : bool[]
  input %there/v : float32[8, 16]
  input %there/n : uint32[1]
  input %there/w : float32[3, 16, 16]
  const %there/one : uint32[1] = 1
  %there/slice = DynamicSlice(%there/w, %there/n) {axes = [0], sizes = [1]}
  %there/own = Reshape(%there/slice) {shape = [16, 16]}
  %there/p = MatMul(%there/v, %there/own)
  %there/h = Tanh(%there/p)
  %there/next = Add(%there/h, %there/v)
  %there/n1 = Add(%there/n, %there/one)
  return %there/cond, %there/next, %there/n1, %there/h
}

graph @back {
  input %back/i : int64[]
  input %back/cond : bool[]
  input %back/v : float32[8, 16]
  input %back/stack : float32[3, 8, 16]
  input %back/w : float32[3, 16, 16]
  const %back/last : int64[] = 2
  %back/at = Sub(%back/last, %back/i)
  %back/h = Gather(%back/stack, %back/at) {axis = 0}
  %back/own = Gather(%back/w, %back/at) {axis = 0}
  %back/p = MatMul(%back/v, %back/own)
  %back/next = Mul(%back/p, %back/h)
  return %back/cond, %back/next
}
)";

TEST(LoopRows, rows_are_read_and_written_in_their_stacks) {
  const auto ir = parseIr(kThereAndBack);
  ProgramRun run(*ir, kCpu, 2), reference(*ir);
  const Executable &e = run.executable();
  const auto loops = loopsOf(e.main);
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_TRUE(loops[0]->scans.empty());
  EXPECT_EQ(loops[0]->rows.size(), 2u);  // of w and of what is stacked
  EXPECT_EQ(loops[1]->rows.size(), 2u);
  for (const Step *loop : loops) {
    EXPECT_EQ(kernels(*loop->programs[0], "gather"), 0);
    EXPECT_EQ(kernels(*loop->programs[0], "slice"), 0);
  }
  for (const auto row : loops[1]->rows) {
    const Buffer &buffer = e.buffers[static_cast<size_t>(row)];
    EXPECT_EQ(buffer.place, Buffer::Place::Row);
    EXPECT_EQ(buffer.offset, 2 * buffer.bytes);
    EXPECT_EQ(buffer.stride, -buffer.bytes);
  }
  for (ProgramRun *p : {&run, &reference}) {
    p->write("w", numbers(3 * 16 * 16, 5));
    p->feed("in", numbers(8 * 16, 6));
    p->run();
    p->run();
  }
  for (const char *name : {"z", "stack"}) {
    const auto got = run.anchor(name), expected = reference.anchor(name);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-5f * (1 + std::abs(expected[i]))) << name << " " << i;
  }
}

// Two iterations, each of which stacks what three iterations of an inner loop stacked. The inner loop adds a row of its
// stack, which is a row of the outer loop's.
constexpr std::string_view kNested = R"(main {
  stream %in : float32[16]
  variable %s : float32[2, 3, 16] = 0.5
  %x = HostLoad() {stream = "in"}
  %y, %stack = Loop(_, _, %x, %s) {body = @outer, carried = 1, trip_count = 2}
  HostStore(%y) {stream = "y"}
  HostStore(%stack) {stream = "stack"}
}

graph @outer {
  input %outer/i : int64[]
  input %outer/cond : bool[]
  input %outer/v : float32[16]
  input %outer/s : float32[2, 3, 16]
  %outer/own = Gather(%outer/s, %outer/i) {axis = 0}
  %outer/y, %outer/stack = Loop(_, _, %outer/v, %outer/own) {body = @inner, carried = 1, trip_count = 3}
  return %outer/cond, %outer/y, %outer/stack
}

graph @inner {
  input %inner/i : int64[]
  input %inner/cond : bool[]
  input %inner/v : float32[16]
  input %inner/own : float32[3, 16]
  %inner/row = Gather(%inner/own, %inner/i) {axis = 0}
  %inner/t = Tanh(%inner/v)
  %inner/next = Add(%inner/t, %inner/row)
  return %inner/cond, %inner/next, %inner/t
}
)";

TEST(LoopRows, rows_of_rows_move_with_both_loops) {
  const auto ir = parseIr(kNested);
  ProgramRun run(*ir, kCpu), reference(*ir);
  const auto outer = loopsOf(run.executable().main);
  ASSERT_EQ(outer.size(), 1u);
  const auto inner = loopsOf(*outer[0]->programs[0]);
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_EQ(outer[0]->rows.size(), 2u);
  EXPECT_EQ(inner[0]->rows.size(), 2u);
  EXPECT_TRUE(outer[0]->scans.empty());
  EXPECT_TRUE(inner[0]->scans.empty());
  // By hand: the plan is the same for all backends.
  const std::vector<float> s = numbers(2 * 3 * 16, 3), x = numbers(16, 4);
  std::vector<float> v = x, stack;
  for (int i = 0; i < 6; ++i) {
    for (float &e : v) stack.push_back(e = std::tanh(e));
    for (size_t e = 0; e < 16; ++e) v[e] += s[static_cast<size_t>(i) * 16 + e];
  }
  for (ProgramRun *p : {&run, &reference}) {
    p->write("s", s);
    p->feed("in", x);
    for (int repetition = 0; repetition < 2; ++repetition) p->run();
    const auto y = p->anchor("y"), stacked = p->anchor("stack");
    ASSERT_EQ(stacked.size(), stack.size());
    for (size_t e = 0; e < stack.size(); ++e) EXPECT_NEAR(stacked[e], stack[e], 1e-5f) << e;
    for (size_t e = 0; e < 16; ++e) EXPECT_NEAR(y[e], v[e], 1e-5f) << e;
  }
}

// What a loop stacks must lie in memory of its own: a carried value, a constant and the loop's own stack are copied.
TEST(LoopRows, values_that_outlive_the_iteration_are_copied) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[16]
  variable %w : float32[16] = 0.5
  %x = HostLoad() {stream = "in"}
  %y, %before, %same, %fixed, %short = Loop(_, _, %x, %w) {body = @body, carried = 1, trip_count = 3}
  HostStore(%y) {stream = "y"}
  HostStore(%before) {stream = "before"}
  HostStore(%same) {stream = "same"}
  HostStore(%fixed) {stream = "fixed"}
  HostStore(%short) {stream = "short"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[16]
  input %body/w : float32[16]
  const %body/c : float32[16] = 3
  %body/next = Add(%body/v, %body/w)
  %body/sum = ReduceSum(%body/next) {axes = [0], keepdims = 0, noop_with_empty_axes = 0}
  return %body/cond, %body/next, %body/v, %body/w, %body/c, %body/sum
}
)");
  ProgramRun run(*ir, kCpu);
  const auto loops = loopsOf(run.executable().main);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0]->scans.size(), 4u);
  run.write("w", std::vector<float>(16, 2.0f));
  run.feed("in", std::vector<float>(16, 1.0f));
  run.run();
  std::vector<float> before;
  for (const float v : {1.0f, 3.0f, 5.0f}) before.insert(before.end(), 16, v);
  EXPECT_EQ(run.anchor("before"), before);
  EXPECT_EQ(run.anchor("same"), std::vector<float>(48, 2.0f));
  EXPECT_EQ(run.anchor("fixed"), std::vector<float>(48, 3.0f));
  EXPECT_EQ(run.anchor("short"), (std::vector<float>{48.0f, 80.0f, 112.0f}));
  EXPECT_EQ(run.anchor("y"), std::vector<float>(16, 7.0f));
}

// s' = tanh(s w), a row of 16 numbers; `last` and the states of all iterations.
struct States {
  std::vector<float> last, all;
};
States statesOf(std::vector<float> s, const std::vector<float> &w, int iterations) {
  States states;
  for (int i = 0; i < iterations; ++i) {
    std::vector<float> next(16);
    for (size_t c = 0; c < 16; ++c) {
      double sum = 0;
      for (size_t r = 0; r < 16; ++r) sum += double{s[r]} * double{w[r * 16 + c]};
      next[c] = static_cast<float>(std::tanh(sum));
    }
    s = next;
    states.all.insert(states.all.end(), s.begin(), s.end());
  }
  states.last = s;
  return states;
}

void expectNear(const std::vector<float> &got, const std::vector<float> &expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5f) << i;
}

std::string program(const std::string &loop, const std::string &stores, const std::string &body,
                    const std::string &inputs = "") {
  return R"(main {
  stream %in : float32[1, 16]
  stream %count : int64[]
  variable %w : float32[16, 16] = 0.01
  %x = HostLoad() {stream = "in"}
  %n = HostLoad() {stream = "count"}
)" + loop +
         stores +
         R"(}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/s : float32[1, 16]
  input %body/w : float32[16, 16]
)" + inputs +
         R"(  %body/p = MatMul(%body/s, %body/w)
  %body/next = Tanh(%body/p)
)" + body +
         "}\n";
}
constexpr std::string_view kStore = "  HostStore(%y) {stream = \"y\"}\n",
                           kStack = "  HostStore(%stack) {stream = \"stack\"}\n";

// A state that is stacked is read in the stack by the next iteration: no copy but that of the result, and none of that
// when nobody reads it. The loop may end before its bound, or not run at all.
TEST(LoopRows, states_are_read_where_they_are_stacked) {
  for (const bool isRead : {false, true}) {
    const auto ir =
        parseIr(program("  %y, %same, %stack = Loop(%n, _, %x, %w) {body = @body, carried = 2, trip_count = 5}\n",
                        (isRead ? std::string(kStore) : "") + std::string(kStack),
                        "  return %body/cond, %body/next, %body/w, %body/next\n"));
    ProgramRun run(*ir, kCpu, 2);
    const auto loops = loopsOf(run.executable().main);
    ASSERT_EQ(loops.size(), 1u);
    EXPECT_TRUE(loops[0]->scans.empty());
    EXPECT_TRUE(loops[0]->carried.empty());
    EXPECT_EQ(loops[0]->results.size(), isRead ? 1u : 0u);
    const std::vector<float> w = numbers(16 * 16, 5), x = numbers(16, 6);
    run.write("w", w);
    run.feed("in", x);
    for (const int64_t count : {5, 2, 0, 1}) {
      run.feed<int64_t>("count", {count});
      run.run();
      const States states = statesOf(x, w, static_cast<int>(count));
      if (isRead) expectNear(run.anchor("y"), states.last);
      std::vector<float> stack = run.anchor("stack");
      stack.resize(states.all.size());
      expectNear(stack, states.all);
    }
  }
}

// The memory of such a state is the variable that it begins with, whose new value is what the loop ends with.
TEST(LoopRows, variables_go_on_with_states_that_are_read_in_stacks) {
  const auto ir = parseIr(program(R"(  variable %v : float32[1, 16] = 0
  %y, %same, %stack = Loop(_, _, %v, %w) {body = @body, carried = 2, trip_count = 3}
  VariableAssign(%v, %y)
)",
                                  std::string(kStack), "  return %body/cond, %body/next, %body/w, %body/next\n"));
  const std::vector<float> w = numbers(16 * 16, 5), x = numbers(16, 6);
  ProgramRun run(*ir, kCpu);
  run.write("w", w);
  run.write("v", x);
  run.feed("in", x);
  run.feed<int64_t>("count", {0});
  run.run();
  run.run();
  EXPECT_EQ(loopsOf(run.executable().main)[0]->results.size(), 1u);
  expectNear(run.variable("v"), statesOf(x, w, 6).last);
  expectNear(run.anchor("stack"), statesOf(statesOf(x, w, 3).last, w, 3).all);
}

// A carry that takes over the state before goes through it while it is a row.
TEST(LoopRows, states_of_two_iterations_before_are_also_carried) {
  const auto ir = parseIr(program(
      "  %y, %same, %before, %stack = Loop(_, _, %x, %w, %x) {body = @body, carried = 3, trip_count = 4}\n",
      std::string(kStack) + "  HostStore(%before) {stream = \"before\"}\n",
      "  return %body/cond, %body/next, %body/w, %body/s, %body/next\n", "  input %body/before : float32[1, 16]\n"));
  const std::vector<float> w = numbers(16 * 16, 5), x = numbers(16, 6);
  ProgramRun run(*ir, kCpu);
  run.write("w", w);
  run.feed("in", x);
  run.feed<int64_t>("count", {0});
  run.run();
  EXPECT_TRUE(loopsOf(run.executable().main)[0]->results.empty());
  expectNear(run.anchor("before"), statesOf(x, w, 3).last);
  expectNear(run.anchor("stack"), statesOf(x, w, 4).all);
}

// An inner loop that goes on from the state may write its memory.
TEST(LoopRows, states_that_an_inner_loop_goes_on_from) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[1, 16]
  variable %w : float32[16, 16] = 0.01
  %x = HostLoad() {stream = "in"}
  %y, %same, %stack = Loop(_, _, %x, %w) {body = @outer, carried = 2, trip_count = 3}
  HostStore(%y) {stream = "y"}
  HostStore(%stack) {stream = "stack"}
}

graph @outer {
  input %outer/i : int64[]
  input %outer/cond : bool[]
  input %outer/s : float32[1, 16]
  input %outer/w : float32[16, 16]
  %inner, %unchanged, %rows = Loop(_, _, %outer/s, %outer/w) {body = @body, carried = 2, trip_count = 2}
  %p = MatMul(%inner, %outer/w)
  %next = Tanh(%p)
  return %outer/cond, %next, %outer/w, %next
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/s : float32[1, 16]
  input %body/w : float32[16, 16]
  %body/p = MatMul(%body/s, %body/w)
  %body/next = Tanh(%body/p)
  return %body/cond, %body/next, %body/w, %body/next
}
)");
  const std::vector<float> w = numbers(16 * 16, 5), x = numbers(16, 6);
  ProgramRun run(*ir, kCpu);
  run.write("w", w);
  run.feed("in", x);
  run.run();
  run.run();
  const States states = statesOf(x, w, 9);
  expectNear(run.anchor("y"), states.last);
  std::vector<float> stack;
  for (const int i : {2, 5, 8}) stack.insert(stack.end(), &states.all[i * 16], &states.all[i * 16] + 16);
  expectNear(run.anchor("stack"), stack);
}

// A stored program is checked again: rows behind the end of their stack, or of one that changes, are refused.
TEST(LoopRows, the_plan_refuses_rows_outside_of_their_stack) {
  auto compile = [](const std::string &first, const std::string &next) {
    const lower::Program program = lower::parseProgram(R"(program for cpu, ref
main {
  variable %s : float32[4, 16] = 0.5
  const %init : float32[1, 16] = 0
  %y, %s1 = Loop(_, _, %init, %s) {body = @body, carried = 2, trip_count = 3}
  HostStore(%y) {stream = "y"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[1, 16]
  input %body/s : float32[4, 16]
  const %body/go : bool[] = 1
  %body/row = LoopRow(%body/s, %body/i) {step = -1, first = )" +
                                                       first + R"(}
  %body/next = Add(%body/v, %body/row)
  %body/changed = Tanh(%body/s)
  return %body/go, %body/next, )" + next + R"(
}
)");
    lower::LowerOptions options;
    options.backends = kCpu;
    lower::compile(program, options);
  };
  EXPECT_NO_THROW(compile("3", "%body/s"));
  EXPECT_THROW(compile("4", "%body/s"), internal_error);
  EXPECT_THROW(compile("1", "%body/s"), internal_error);
  EXPECT_THROW(compile("3", "%body/changed"), internal_error);
}

}  // namespace
}  // namespace popart
