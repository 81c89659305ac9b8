// Products whose element-wise readers take pieces of them, as one kernel: the bits of product and readers apart, for
// every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <popart/ir.hpp>

#include "../support/random_streams.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

struct Result {
  std::map<std::string, std::vector<float>> values;
  int gates = 0;  // kernels of products with gates
};

int gatesIn(const executable::Program &program) {
  int count = 0;
  for (const executable::Step &step : program.steps) {
    count += step.kernel && step.kernel->name().ends_with("gates");
    for (const auto &inner : step.programs) count += gatesIn(*inner);
  }
  return count;
}

Result run(const std::string &text, bool fuses, int threads) {
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &ref::backend()};
  options.threads = threads;
  options.fuse = fuses;
  const auto executable = pipeline::lower(*parseIr(text), options);
  test::RandomStreams streams(*executable);
  runtime::Engine(executable, test::host(), {threads, runtime::WakePolicy::Always}).run(streams);
  return {streams.outputs, gatesIn(executable->main)};
}

void expectGates(const std::string &text, int count) {
  const Result expected = run(text, false, 1);
  EXPECT_EQ(expected.gates, 0);
  for (const int threads : {1, 2, 3, 8}) {
    const Result got = run(text, true, threads);
    EXPECT_EQ(got.gates, count) << text;
    ASSERT_EQ(got.values.size(), expected.values.size());
    for (const auto &[id, values] : expected.values)
      EXPECT_EQ(std::memcmp(values.data(), got.values.at(id).data(), values.size() * sizeof(float)), 0)
          << id << ", " << threads << " threads:\n"
          << text;
  }
}

// Four pieces of `units` columns of a product and of what is added to it, as in an LSTM; two results.
std::string cell(int64_t rows, int64_t depth, int64_t units) {
  std::string text = fmt::format(
      "main {{\n  variable %w : float32[{1}, {3}] = 0.01\n  stream %in : float32[{0}, {1}]\n"
      "  stream %other : float32[{0}, {3}]\n  stream %state : float32[{0}, {2}]\n  %h = HostLoad() {{stream = "
      "\"in\"}}\n"
      "  %x = HostLoad() {{stream = \"other\"}}\n  %c = HostLoad() {{stream = \"state\"}}\n  %q = MatMul(%h, %w)\n"
      "  %s = Add(%x, %q)\n",
      rows, depth, units, 4 * units);
  for (int i = 0; i < 4; ++i)
    text += fmt::format("  %s{0} = Slice(%s) {{starts = [{1}], ends = [{2}], axes = [1]}}\n", i, i * units,
                        (i + 1) * units);
  return text + R"(  %i = Sigmoid(%s0)
  %o = Sigmoid(%s1)
  %f = Sigmoid(%s2)
  %g = Tanh(%s3)
  %fc = Mul(%f, %c)
  %ig = Mul(%i, %g)
  %c1 = Add(%fc, %ig)
  %t = Tanh(%c1)
  %y = Mul(%o, %t)
  HostStore(%y) {stream = "y"}
  HostStore(%c1) {stream = "c"}
})";
}

TEST(GatedProduct, cells_of_all_sizes) {
  for (const int64_t rows : {1, 5, 16, 37, 64})
    for (const int64_t units : {16, 20, 64, 100, 129}) expectGates(cell(rows, 33, units), 1);
  expectGates(cell(8, 700, 96), 1);  // k in several passes
}

TEST(GatedProduct, many_rows_are_stored) { expectGates(cell(65, 33, 64), 0); }

// Pieces that begin anywhere, overlap and leave columns out; operands by row, by column and one number.
std::string pieces(const char *first, const char *second) {
  return fmt::format(R"(main {{
  variable %w : float32[31, 100] = 0.02
  stream %in : float32[3, 4, 31]
  stream %row : float32[40]
  stream %column : float32[3, 4, 1]
  stream %number : float32[]
  %h = HostLoad() {{stream = "in"}}
  %r = HostLoad() {{stream = "row"}}
  %k = HostLoad() {{stream = "column"}}
  %n = HostLoad() {{stream = "number"}}
  %q = MatMul(%h, %w)
  %a = Slice(%q) {{{}, axes = [2]}}
  %b = Slice(%q) {{{}, axes = [2]}}
  %a1 = Add(%a, %r)
  %b1 = Mul(%b, %k)
  %ab = Mul(%a1, %b1)
  %y = Add(%ab, %n)
  HostStore(%y) {{stream = "y"}}
}})",
                     first, second);
}

TEST(GatedProduct, pieces_anywhere) {
  expectGates(pieces("starts = [3], ends = [43]", "starts = [60], ends = [100]"), 1);
  expectGates(pieces("starts = [0], ends = [40]", "starts = [17], ends = [57]"), 1);
}

// The state of a cell is read as a whole while parts of the next one are written.
TEST(GatedProduct, states_in_a_loop) {
  expectGates(R"(main {
  variable %w : float32[48, 96] = 0.02
  stream %in : float32[6, 5, 96]
  const %zero : float32[5, 48] = 0
  %x = HostLoad() {stream = "in"}
  %h, _, _, %all = Loop(_, _, %zero, %x, %w) {body = @step, carried = 3, trip_count = 6}
  HostStore(%h) {stream = "h"}
  HostStore(%all) {stream = "all"}
}

graph @step {
  input %step/i : int64[]
  input %step/cond : bool[]
  input %step/h : float32[5, 48]
  input %step/x : float32[6, 5, 96]
  input %step/w : float32[48, 96]
  %step/row = Gather(%step/x, %step/i) {axis = 0}
  %step/q = MatMul(%step/h, %step/w)
  %step/s = Add(%step/q, %step/row)
  %step/s0 = Slice(%step/s) {starts = [0], ends = [48], axes = [1]}
  %step/s1 = Slice(%step/s) {starts = [48], ends = [96], axes = [1]}
  %step/z = Sigmoid(%step/s0)
  %step/n = Tanh(%step/s1)
  %step/d = Sub(%step/h, %step/n)
  %step/zd = Mul(%step/z, %step/d)
  %step/h1 = Add(%step/n, %step/zd)
  return %step/cond, %step/h1, %step/x, %step/w, %step/h1
})",
              1);
}

// A product that something else reads too is stored.
TEST(GatedProduct, product_of_two_readers) {
  expectGates(R"(main {
  variable %w : float32[16, 64] = 0.02
  stream %in : float32[4, 16]
  %h = HostLoad() {stream = "in"}
  %q = MatMul(%h, %w)
  %a = Slice(%q) {starts = [0], ends = [32], axes = [1]}
  %b = Slice(%q) {starts = [32], ends = [64], axes = [1]}
  %y = Mul(%a, %b)
  HostStore(%y) {stream = "y"}
  HostStore(%q) {stream = "q"}
})",
              0);
}

}  // namespace
}  // namespace popart
