// Branches of If on the fast path: they read packed weights where they lie, as long as all readers agree, and the
// numbers are those of plain weights.
#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "../support/steps.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/ref/ref.hpp"

namespace popart {
namespace {

using executable::Executable;
using executable::Step;
using test::kCpu;
using test::numbers;
using test::ProgramRun;

// z = x w, then y = tanh(z) w or, in the other branch, what `other` makes of z and w as %else/r.
std::string program(const std::string &other, const std::string &atTheEnd = "") {
  return R"(main {
  stream %in : float32[8, 24]
  stream %which : bool[]
  variable %w : float32[24, 24] = 0.01
  %x = HostLoad() {stream = "in"}
  %c = HostLoad() {stream = "which"}
  %z = MatMul(%x, %w)
  %y = If(%c, %z, %w, %z, %w) {then_branch = @then, else_branch = @else}
  HostStore(%y) {stream = "y"}
)" + atTheEnd +
         R"(}

graph @then {
  input %then/z : float32[8, 24]
  input %then/w : float32[24, 24]
  %then/t = Tanh(%then/z)
  %then/r = MatMul(%then/t, %then/w)
  return %then/r
}

graph @else {
  input %else/z : float32[8, 24]
  input %else/w : float32[24, 24]
)" + other +
         R"(  return %else/r
}
)";
}

const std::string kProduct = "  %else/r = MatMul(%else/z, %else/w)\n";
const std::string kRows =
    "  const %else/i : int64[8] = 3\n  %else/g = Gather(%else/w, %else/i) {axis = 0}\n"
    "  %else/r = Add(%else/z, %else/g)\n";
const std::string kReadByHost = "  HostStore(%w) {stream = \"w\"}\n";  // needs plain memory

std::vector<float> result(ProgramRun &run, bool which) {
  run.write("w", numbers(24 * 24, 5));
  run.feed("in", numbers(8 * 24, 6));
  run.feed<uint8_t>("which", {static_cast<uint8_t>(which)});
  run.run();
  return run.anchor("y");
}

void expectNumbersOfPlainWeights(const std::string &other, ProgramRun &run) {
  const auto plain = parseIr(program(other, kReadByHost));
  ProgramRun kept(*plain, kCpu), meaning(*plain);
  ASSERT_EQ(kept.executable().variables[0].layout, nullptr);
  for (bool which : {false, true}) {
    const std::vector<float> got = result(run, which), expected = result(meaning, which);
    EXPECT_EQ(got, result(kept, which));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4f);
  }
}

TEST(Branches, a_weight_that_both_multiply_by_stays_packed) {
  const auto ir = parseIr(program(kProduct));
  ProgramRun run(*ir, kCpu);
  const Executable &e = run.executable();
  EXPECT_TRUE(cpu::asMatrixPanels(e.variables[0].layout));
  int branches = 0;
  for (const Step &step : e.main.steps)
    for (const auto &branch : step.programs)
      for (const Step &s : branch->steps)
        if (s.kernel && s.kernel->name().find("matmul") != std::string::npos) {
          EXPECT_EQ(s.kernel->name(), "matmul packed");
          ++branches;
        }
  EXPECT_EQ(branches, 2);
  expectNumbersOfPlainWeights(kProduct, run);
}

TEST(Branches, that_disagree_leave_the_weight_plain) {
  const auto ir = parseIr(program(kRows));
  ProgramRun run(*ir, kCpu);
  EXPECT_EQ(run.executable().variables[0].layout, nullptr) << executable::print(run.executable());
  expectNumbersOfPlainWeights(kRows, run);
}

TEST(Branches, read_convolution_weights_as_they_lie) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[2, 16, 8, 8]
  stream %which : bool[]
  variable %k : float32[16, 16, 3, 3] = 0.01
  %x = HostLoad() {stream = "in"}
  %c = HostLoad() {stream = "which"}
  %y = If(%c, %x, %k, %x) {then_branch = @then, else_branch = @else}
  HostStore(%y) {stream = "y"}
}

graph @then {
  input %then/x : float32[2, 16, 8, 8]
  input %then/k : float32[16, 16, 3, 3]
  %then/r = Conv(%then/x, %then/k) {pads = [1, 1, 1, 1]}
  return %then/r
}

graph @else {
  input %else/x : float32[2, 16, 8, 8]
  %else/r = Tanh(%else/x)
  return %else/r
}
)");
  ProgramRun run(*ir, kCpu), reference(*ir);
  EXPECT_TRUE(cpu::asConvPanels(run.executable().variables[0].layout));
  for (bool which : {false, true}) {
    std::vector<std::vector<float>> results;
    for (ProgramRun *p : {&run, &reference}) {
      p->write("k", numbers(16 * 16 * 9, 9));
      p->feed("in", numbers(2 * 16 * 64, 2));
      p->feed<uint8_t>("which", {static_cast<uint8_t>(which)});
      p->run();
      results.push_back(p->anchor("y"));
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-4f);
  }
}

}  // namespace
}  // namespace popart
