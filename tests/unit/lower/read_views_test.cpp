// Element-wise ops that read slices and transposes of their operands in place: the reference's numbers to the bit, no
// copies, and the same bits with every number of threads.
#include <gtest/gtest.h>

#include <map>

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
  std::vector<std::string> kernels;
};

Result run(const std::string &text, bool onCpu, int threads) {
  const auto ir = parseIr(text);
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  if (onCpu) options.backends.insert(options.backends.begin(), &cpu::backend());
  options.threads = threads;
  const auto executable = pipeline::lower(*ir, options);
  runtime::Engine engine(executable, test::host(), {threads, runtime::WakePolicy::Always});
  test::RandomStreams streams(*executable);
  engine.run(streams);
  Result result{streams.outputs, {}};
  for (const auto &step : executable->main.steps)
    if (step.kernel) result.kernels.push_back(step.kernel->name());
  return result;
}

// The kernels of the program, one name each.
std::vector<std::string> kernelsOf(const std::string &body, const std::string &shape) {
  const std::string text = "main {\n  stream %in : float32[" + shape + "]\n  const %k : float32[] = [0.5]\n" +
                           "  %x = HostLoad() {stream = \"in\"}\n" + body + "  HostStore(%y) {stream = \"out\"}\n}";
  const Result want = run(text, false, 1);
  Result got;
  for (const int threads : {1, 2, 3, 8}) {
    got = run(text, true, threads);
    EXPECT_EQ(got.values, want.values) << threads << " threads:\n" << text;
  }
  return got.kernels;
}

using Names = std::vector<std::string>;

TEST(ReadViews, halves_of_one_tensor) {
  const std::string body = R"(
  %a = Slice(%x) {starts = [0], ends = [150], axes = [1]}
  %b = Slice(%x) {starts = [150], ends = [300], axes = [1]}
  %y = Add(%a, %b)
)";
  EXPECT_EQ(kernelsOf(body, "70,300"), Names{"elementwise"});
}

TEST(ReadViews, short_rows_of_a_half_that_is_read_whole_as_well) {
  const std::string body = R"(
  %a = Slice(%x) {starts = [20], ends = [40], axes = [1]}
  %s = Mul(%a, %k)
  %e = Abs(%s)
  %b = Slice(%x) {starts = [0], ends = [20], axes = [1]}
  %y = Add(%e, %b)
)";
  EXPECT_EQ(kernelsOf(body, "70,40"), Names{"elementwise of 3"});
}

TEST(ReadViews, dimensions_that_change_places) {
  EXPECT_EQ(kernelsOf("  %a = Transpose(%x) {perm = [0, 2, 1, 3]}\n  %y = Mul(%a, %k)\n", "2,9,7,120"),
            Names{"elementwise"});
  EXPECT_EQ(kernelsOf("  %a = Transpose(%x) {perm = [1, 0]}\n  %y = Mul(%a, %k)\n", "90,70"),
            (Names{"transpose", "elementwise"}))
      << "columns are better transposed block by block";
}

TEST(ReadViews, every_second_element) {
  for (const char *step : {"2", "3", "4"})
    EXPECT_EQ(
        kernelsOf(std::string("  %a = Slice(%x) {starts = [1, 0], ends = [50, 400], axes = [0, 1], steps = [1, ") +
                      step + "]}\n  %y = Mul(%a, %k)\n",
                  "50,399"),
        Names{"elementwise"});
  EXPECT_EQ(kernelsOf("  %a = Slice(%x) {starts = [300], ends = [0], axes = [1], steps = [-1]}\n  %y = Mul(%a, %k)\n",
                      "50,399"),
            (Names{"strided copy", "elementwise"}));
}

TEST(ReadViews, views_with_several_readers_are_made_once) {
  const std::string body = R"(
  %a = Slice(%x) {starts = [0], ends = [150], axes = [1]}
  %s = ReduceMax(%a) {axes = [1], keepdims = 1}
  %y = Add(%a, %s)
)";
  const Names kernels = kernelsOf(body, "70,300");
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "copy"), 1);
}

}  // namespace
}  // namespace popart
