// Lowered programs as values: their text compiles to the same executable, bodies have one caller, layouts are checked,
// equal requests share a kernel, schedules and memory plans hold what they promise.
#include "lower/program.hpp"

#include <gtest/gtest.h>

#include "../support/executable_text.hpp"
#include "../support/message_of.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"

namespace popart {
namespace {

lower::LowerOptions cpuOptions(int threads = 2) {
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &ref::backend()};
  options.evaluate = ref::evaluate;
  options.threads = threads;
  return options;
}

// A training step with a packed weight, a convolution, a loop, a branch and a chain of batched products.
constexpr std::string_view kProgram = R"(main {
  stream %images : float32[2, 3, 8, 8]
  stream %q : float32[2, 4, 6, 8]
  variable %kernel : float32[16, 3, 3, 3] = 0.25
  variable %w : float32[64, 32] = 0.5
  variable %rows : float32[4, 64] = 2
  const %trip : int64[] = 3
  const %go : bool[] = 1
  const %rate : float32[] = 0.1
  %x = HostLoad() {stream = "images"}
  %c = Conv(%x, %kernel) {pads = [1, 1, 1, 1]}
  %r = Relu(%c)
  HostStore(%r) {stream = "r"}
  %y = MatMul(%rows, %w)
  %g = Gelu(%y)
  HostStore(%g) {stream = "g"}
  %t = Transpose(%rows) {perm = [1, 0]}
  %dw = MatMul(%t, %g)
  %step = Mul(%dw, %rate)
  %new = SubLhsInplace(%w, %step)
  %q1 = HostLoad() {stream = "q"}
  %k1 = Transpose(%q1) {perm = [0, 1, 3, 2]}
  %s = MatMul(%q1, %k1)
  %p = Softmax(%s) {axis = -1}
  %o = MatMul(%p, %q1)
  HostStore(%o) {stream = "o"}
  %s2 = MatMul(%o, %k1)
  %p2 = LogSoftmax(%s2) {axis = -1}
  %o2 = MatMul(%p2, %q1)
  HostStore(%o2) {stream = "o2"}
  %looped = Loop(%trip, %go, %g) {body = @body, carried = 1}
  HostStore(%looped) {stream = "looped"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[4, 32]
  %body/next = Tanh(%body/v)
  return %body/cond, %body/next
}
)";

TEST(Program, text_compiles_to_the_same_executable) {
  const lower::LowerOptions options = cpuOptions();
  const auto ir = parseIr(kProgram);
  const lower::Backends backends = lower::remember(options);
  const lower::Program program = pipeline::lowerProgram(*ir, options, backends);
  const std::string text = lower::print(program);
  EXPECT_TRUE(text.starts_with("program for cpu, ref\n"));
  EXPECT_NE(text.find("<layout = \"packed"), std::string::npos);
  EXPECT_NE(text.find("DepthFirst("), std::string::npos);
  EXPECT_NE(text.find("FusedAttention("), std::string::npos);
  const lower::Program again = lower::parseProgram(text);
  EXPECT_EQ(again.backends, program.backends);
  EXPECT_EQ(lower::print(again), text);
  const auto first = lower::compile(program, options, backends), second = lower::compile(again, options);
  EXPECT_EQ(test::textWithoutNumbers(*first), test::textWithoutNumbers(*second));
}

TEST(Program, is_lowered_the_same_way_twice) {
  const lower::LowerOptions options = cpuOptions();
  const auto ir = parseIr(kProgram);
  const auto once = pipeline::lowerProgram(*ir, options, lower::remember(options)),
             twice = pipeline::lowerProgram(*ir, options, lower::remember(options));
  EXPECT_EQ(lower::print(once), lower::print(twice));
}

TEST(Program, text_of_something_else_is_refused) {
  EXPECT_NE(test::messageOf([] { lower::parseProgram("main {\n}\n"); }).find("expected 'program for"),
            std::string::npos);
  EXPECT_NE(test::messageOf([] { lower::parseProgram("program for cpu\nmain {\n  ^\n}\n"); }).find("line 3"),
            std::string::npos);
}

TEST(Program, unknown_layouts_and_shared_bodies_are_refused) {
  const auto message = [](std::string_view text) {
    return test::messageOf([&] { lower::parseProgram("program for cpu\n" + std::string(text)); });
  };
  EXPECT_NE(message("main {\n  variable %w : float32[2, 2] <layout = \"sideways\"> = 1\n}\n").find("unknown name"),
            std::string::npos);
  EXPECT_NE(message("main {\n  variable %w : float32[2] <layout = \"packed16\"> = 1\n}\n").find("does not describe"),
            std::string::npos);
  const std::string_view twice = R"(main {
  stream %x : float32[2]
  const %trip : int64[] = 3
  const %go : bool[] = 1
  %a = HostLoad() {stream = "x"}
  %b = Loop(%trip, %go, %a) {body = @body, carried = 1}
  %c = Loop(%trip, %go, %b) {body = @body, carried = 1}
  HostStore(%c) {stream = "c"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[2]
  %body/next = Tanh(%body/v)
  return %body/cond, %body/next
}
)";
  EXPECT_NE(message(twice).find("two callers"), std::string::npos);
}

TEST(KernelCache, a_subgraph_called_many_times_makes_its_kernels_once) {
  std::string text = "main {\n  stream %in : float32[8, 16]\n  %x0 = HostLoad() {stream = \"in\"}\n";
  constexpr int kCalls = 96;
  for (int i = 0; i < kCalls; ++i)
    text += "  %x" + std::to_string(i + 1) + " = Call(%x" + std::to_string(i) + ") {callee = @f, modified = []}\n";
  text += "  HostStore(%x" + std::to_string(kCalls) + ") {stream = \"out\"}\n}\n";
  text +=
      "\ngraph @f {\n  input %f/x : float32[8, 16]\n  const %f/w : float32[16, 16] = 0.5\n"
      "  %f/y = MatMul(%f/x, %f/w)\n  %f/z = Softmax(%f/y) {axis = -1}\n  return %f/z\n}\n";
  const lower::LowerOptions options = cpuOptions();
  const auto ir = parseIr(text);
  const lower::Backends backends = lower::remember(options);
  const auto executable = lower::compile(pipeline::lowerProgram(*ir, options, backends), options, backends);
  std::set<const executable::Kernel *> kernels;
  for (const auto &step : executable->main.steps)
    if (step.kernel) kernels.insert(step.kernel.get());
  EXPECT_EQ(kernels.size(), 2u);
  EXPECT_LT(backends.front()->made(), 12);
}

TEST(KernelCache, operands_that_are_one_tensor_make_another_kernel) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[8]
  stream %other : float32[8]
  %x = HostLoad() {stream = "in"}
  %y = HostLoad() {stream = "other"}
  %a = Add(%x, %x)
  %b = Add(%x, %y)
  HostStore(%a) {stream = "a"}
  HostStore(%b) {stream = "b"}
})");
  lower::LowerOptions options = cpuOptions();
  const lower::Backends backends = lower::remember(options);
  const auto executable = lower::compile(pipeline::lowerProgram(*ir, options, backends), options, backends);
  std::set<const executable::Kernel *> kernels;
  for (const auto &step : executable->main.steps)
    if (step.kernel) kernels.insert(step.kernel.get());
  EXPECT_EQ(kernels.size(), 2u);
}

TEST(Schedule, covers_the_program_and_finds_what_is_wrong) {
  const auto ir = parseIr(kProgram);
  schedule::Schedule schedule = schedule::schedule(*ir);
  schedule::verify(schedule, *ir);
  EXPECT_NE(schedule::print(schedule, *ir).find("subgraph 'body':\n  Tanh."), std::string::npos);
  auto &order = schedule.orders.at("");
  std::swap(order.front(), order.back());
  EXPECT_THROW(schedule::verify(schedule, *ir), internal_error);
  order.pop_back();
  EXPECT_THROW(schedule::verify(schedule, *ir), internal_error);
}

TEST(MemoryPlan, a_clash_in_the_arena_is_found) {
  memory::MemoryPlan plan;
  plan.arenaBytes = 256;
  plan.storages = {{memory::Place::Arena, 128, 0, 0, 3, "a"}, {memory::Place::Arena, 128, 128, 2, 4, "b"}};
  memory::verify(plan);
  plan.storages[1].offset = 64;
  EXPECT_THROW(memory::verify(plan), internal_error);
  plan.storages[1].first = 4;
  memory::verify(plan);
  plan.storages[1].offset = 192;
  EXPECT_THROW(memory::verify(plan), internal_error);
}

}  // namespace
}  // namespace popart
