// Loops that follow one another are cut into chunks, and the numbers stay the same to the bit.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "../support/executable_text.hpp"
#include "../support/program.hpp"
#include "../support/steps.hpp"

namespace popart {
namespace {

using lower::LaneRule;
using test::kCpu;
using test::numbers;
using test::ProgramRun;

// Loop `name` of `trips` iterations over `rows` rows of `size` numbers: state = tanh(state r + row), stacked.
// `position` computes which row an iteration reads.
std::string bodyOf(const std::string &name, int64_t trips, int64_t rows, int64_t size,
                   const std::string &position = "") {
  return fmt::format(R"(
graph @{0} {{
  input %{0}/i : int64[]
  input %{0}/cond : bool[]
  input %{0}/v : float32[{2}, {3}]
  input %{0}/s : float32[{1}, {2}, {3}]
  input %{0}/r : float32[{3}, {3}]
{4}  %{0}/row = Gather(%{0}/s, %{0}/{5}) {{axis = 0}}
  %{0}/p = MatMul(%{0}/v, %{0}/r)
  %{0}/sum = Add(%{0}/p, %{0}/row)
  %{0}/h = Tanh(%{0}/sum)
  return %{0}/cond, %{0}/h, %{0}/h
}}
)",
                     name, trips, rows, size, position, position.empty() ? "i" : "at");
}

std::string backwards(const std::string &name, int64_t trips) {
  return fmt::format("  const %{0}/last : int64[] = {1}\n  %{0}/at = Sub(%{0}/last, %{0}/i)\n", name, trips - 1);
}

// What stands between two loops: the stack as a matrix, a product, a bias, the stack's shape again, and more rows.
std::string between(const std::string &from, const std::string &to, const std::string &more, int64_t trips,
                    int64_t rows, int64_t size) {
  return fmt::format(R"(  %{0}_m = Reshape(%{0}) {{shape = [{2}, {4}]}}
  %{0}_p = MatMul(%{0}_m, %w)
  %{0}_b = Add(%{0}_p, %bias)
  %{0}_r = Reshape(%{0}_b) {{shape = [{3}, {5}, {4}]}}
  %{1} = Add(%{0}_r, %{6})
)",
                     from, to, trips * rows, trips, size, rows, more);
}

struct Case {
  int64_t trips, rows;
  int loops = 2;
  int64_t size = 16;
  bool readsWhole = false;      // stacks are results of the program, too
  bool readsBackwards = false;  // each loop but the first begins at the end
  bool addsInput = false;       // what a loop reads is added to what it stacks, for the next one
  bool readsState = false;      // each loop begins with the state in which the one before ended
};

std::string programOf(const Case &c) {
  std::string text = fmt::format(R"(main {{
  stream %in : float32[{0}, {1}, {2}]
  variable %w : float32[{2}, {2}] = 0.5
  variable %bias : float32[{2}] = 0.5
  variable %r : float32[{2}, {2}] = 0.5
  const %zero : float32[{1}, {2}] = 0
  const %none : float32[] = 0
  %s0 = HostLoad() {{stream = "in"}}
)",
                                 c.trips, c.rows, c.size);
  std::string bodies;
  for (int l = 0; l < c.loops; ++l) {
    const std::string name = fmt::format("l{}", l), stack = fmt::format("y{}", l);
    text += fmt::format("  %f{0}, %y{0} = Loop(_, _, %{1}, %s{0}, %r) {{body = @{2}, carried = 1, trip_count = {3}}}\n",
                        l, c.readsState && l > 0 ? fmt::format("f{}", l - 1) : "zero", name, c.trips);
    text += fmt::format("  HostStore(%f{0}) {{stream = \"f{0}\"}}\n", l);
    if (c.readsWhole || l + 1 == c.loops) text += fmt::format("  HostStore(%y{0}) {{stream = \"y{0}\"}}\n", l);
    if (l + 1 < c.loops)
      text += between(stack, fmt::format("s{}", l + 1), c.addsInput ? fmt::format("s{}", l) : "none", c.trips, c.rows,
                      c.size);
    bodies += bodyOf(name, c.trips, c.rows, c.size, c.readsBackwards && l > 0 ? backwards(name, c.trips) : "");
  }
  return text + "}\n" + bodies;
}

struct Outcome {
  size_t loops;
  std::vector<std::vector<float>> values;
};

Outcome outcomeOf(const Case &c, LaneRule rule, int threads) {
  ProgramRun run(*parseIr(programOf(c)), kCpu, threads, rule);
  run.write("w", numbers(c.size * c.size, 2));
  run.write("bias", numbers(c.size, 3));
  run.write("r", numbers(c.size * c.size, 4));
  run.feed("in", numbers(c.trips * c.rows * c.size, 5));
  run.run();
  run.run();
  Outcome outcome{test::countSteps(run.executable().main, executable::Step::Kind::Loop), {}};
  for (int l = 0; l < c.loops; ++l) {
    outcome.values.push_back(run.anchor(fmt::format("f{}", l)));
    if (c.readsWhole || l + 1 == c.loops) outcome.values.push_back(run.anchor(fmt::format("y{}", l)));
  }
  return outcome;
}

bool sameBits(const Outcome &a, const Outcome &b) {
  if (a.values.size() != b.values.size()) return false;
  for (size_t i = 0; i < a.values.size(); ++i)
    if (a.values[i].size() != b.values[i].size() ||
        std::memcmp(a.values[i].data(), b.values[i].data(), a.values[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

// The same numbers for every number of threads, in chunks where there are several. How many chunks is a prediction.
void expectChunks(const Case &c, bool isCut = true) {
  const Outcome plain = outcomeOf(c, LaneRule::Never, 1);
  EXPECT_EQ(plain.loops, static_cast<size_t>(c.loops));
  for (const int threads : {1, 2, 3}) {
    const std::string what = fmt::format("{} iterations of {} rows on {} threads", c.trips, c.rows, threads);
    const Outcome cut = outcomeOf(c, LaneRule::Always, threads);
    EXPECT_EQ(cut.loops > plain.loops, isCut && threads > 1) << what;
    EXPECT_EQ(cut.loops % plain.loops, 0u) << what;
    EXPECT_TRUE(sameBits(cut, plain)) << what;
    EXPECT_TRUE(sameBits(outcomeOf(c, LaneRule::Never, threads), plain)) << what;
  }
}

TEST(CutLoops, two_and_three_loops_give_the_same_bits) {
  for (const int loops : {2, 3}) {
    expectChunks({10, 1, loops});
    expectChunks({16, 1, loops});
    expectChunks({16, 8, loops});
    expectChunks({17, 8, loops});  // chunks of 9 and of 8 iterations
    expectChunks({64, 1, loops});
    expectChunks({64, 8, loops});
  }
}

TEST(CutLoops, stacks_that_something_else_reads_are_joined) {
  Case c{16, 8, 3};
  c.readsWhole = true;
  expectChunks(c);
}

TEST(CutLoops, rows_of_what_is_whole_are_cut_out) {
  Case c{16, 8, 3};
  c.addsInput = true;
  expectChunks(c);
  c.trips = 17;
  expectChunks(c);
}

TEST(CutLoops, text_compiles_to_the_same_executable) {
  lower::LowerOptions options;
  options.backends = kCpu;
  options.threads = 2;
  options.lanes = LaneRule::Always;
  const auto ir = parseIr(programOf({64, 8, 3}));
  const lower::Backends backends = lower::remember(options);
  const lower::Program program = pipeline::lowerProgram(*ir, options, backends);
  const lower::Program again = lower::parseProgram(lower::print(program));
  const auto first = lower::compile(program, options, backends), second = lower::compile(again, options);
  EXPECT_EQ(test::textWithoutNumbers(*first), test::textWithoutNumbers(*second));
}

// Loops of several rounds: c reads what both a and b stack, d reads the end of a and the stack of c.
TEST(CutLoops, waves_have_several_first_loops_and_end_where_one_waits) {
  std::string text = R"(main {
  variable %x : float32[16, 8, 16] = 0.5
  variable %r : float32[16, 16] = 0.5
  const %zero : float32[8, 16] = 0
  %fa, %ya = Loop(_, _, %zero, %x, %r) {body = @a, carried = 1, trip_count = 16}
  %fb, %yb = Loop(_, _, %zero, %x, %r) {body = @b, carried = 1, trip_count = 16}
  %both = Add(%ya, %yb)
  %fc, %yc = Loop(_, _, %zero, %both, %r) {body = @c, carried = 1, trip_count = 16}
  %fd, %yd = Loop(_, _, %fa, %yc, %r) {body = @d, carried = 1, trip_count = 16}
  HostStore(%yd) {stream = "yd"}
  HostStore(%fb) {stream = "fb"}
}
)";
  for (const char *name : {"a", "b", "c", "d"}) text += bodyOf(name, 16, 8, 16);
  const auto ir = parseIr(text);
  ProgramRun plain(*ir, kCpu, 2, LaneRule::Never), cut(*ir, kCpu, 2, LaneRule::Always);
  const auto loops = [](const ProgramRun &run) {
    return test::countSteps(run.executable().main, executable::Step::Kind::Loop);
  };
  EXPECT_EQ(loops(plain), 4u);
  EXPECT_EQ(loops(cut) % 3, 1u) << "a, b and c are cut alike, d is not";
  EXPECT_GT(loops(cut), 4u);
  for (ProgramRun *run : {&plain, &cut}) {
    run->write("x", numbers(16 * 8 * 16, 2));
    run->write("r", numbers(16 * 16, 3));
    run->run();
  }
  for (const char *name : {"yd", "fb"}) EXPECT_EQ(plain.anchor(name), cut.anchor(name)) << name;
}

TEST(CutLoops, loops_that_wait_for_the_end_of_others_stay) {
  Case reversed{16, 8}, following{16, 8};
  reversed.readsBackwards = following.readsState = true;
  expectChunks(reversed, false);
  expectChunks(following, false);
}

TEST(CutLoops, products_of_many_rows_do_not_become_some_of_few) {
  expectChunks({20, 1}, false);
  expectChunks({7, 8}, false);  // no two chunks of four iterations
  expectChunks({8, 1});         // few rows either way
}

// What a rule chooses for two loops with a product between them.
std::string chosen(LaneRule rule, int64_t trips, int64_t rows, int64_t size, int threads) {
  Case c{trips, rows};
  c.size = size;
  ProgramRun run(*parseIr(programOf(c)), kCpu, threads, rule);
  const size_t loops = test::countSteps(run.executable().main, executable::Step::Kind::Loop);
  return loops > 2 ? "chunks" : "whole";
}

TEST(CutLoops, chunks_are_made_where_they_are_faster) {
  EXPECT_EQ(chosen(LaneRule::Auto, 64, 2, 128, 2), "chunks");
  EXPECT_EQ(chosen(LaneRule::Auto, 64, 2, 128, 1), "whole");
  EXPECT_EQ(chosen(LaneRule::Auto, 16, 1, 16, 2), "whole") << "waking takes longer";
  EXPECT_EQ(chosen(LaneRule::Auto, 64, 256, 256, 2), "whole") << "each loop keeps all threads busy";
  EXPECT_EQ(chosen(LaneRule::Always, 16, 1, 16, 2), "chunks");
  EXPECT_EQ(chosen(LaneRule::Never, 64, 2, 128, 2), "whole");
}

}  // namespace
}  // namespace popart
