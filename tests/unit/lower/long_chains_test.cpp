// Passes that follow values through programs of any length: chains of ten thousands of ops take no stack, and the time
// grows as the programs do.
#include <gtest/gtest.h>

#include <ctime>

#include <fmt/format.h>

#include <popart/ir.hpp>

#include "backends/cpu/cpu.hpp"
#include "lower/fuse_attention.hpp"
#include "lower/loop_sums.hpp"

namespace popart {
namespace {

constexpr int kLong = 20'000;

int count(const Graph &graph, Role role) {
  int found = 0;
  for (const Op *op : graph.ops()) found += op->is(role);
  return found;
}

// Sums of products over the rows of two stacks, read from the last one on; `links` additions lie between the iteration
// and the row that is read. Every second sum has rows of its own, which the loop has to stack.
std::string sumsInALoop(int sums, int links) {
  std::string declared, given, results, inputs, body, returned;
  for (int s = 0; s < sums; ++s) {
    results += fmt::format("%w{}, ", s);
    given += ", %zeros";
    inputs += fmt::format("  input %body/w{} : float32[4, 4]\n", s);
    body += fmt::format("  %body/t{0} = Transpose(%body/x) {{perm = [1, 0]}}\n", s);
    if (s % 2 == 1) body += fmt::format("  %body/h{0} = Tanh(%body/g)\n", s);
    body += fmt::format("  %body/p{0} = MatMul(%body/t{0}, {1})\n  %body/n{0} = Add(%body/w{0}, %body/p{0})\n", s,
                        s % 2 == 1 ? fmt::format("%body/h{}", s) : "%body/g");
    returned += fmt::format(", %body/n{}", s);
    declared += fmt::format("  HostStore(%w{0}) {{stream = \"w{0}\"}}\n", s);
  }
  for (int i = 0; i < links; ++i)
    body = fmt::format("  %body/at{} = Add(%body/at{}, %body/none)\n", links - i, links - i - 1) + body;
  const std::string at = fmt::format("%body/at{}", links);
  const auto place = body.find("  %body/t0 ");
  body.insert(place, fmt::format("  %body/x = Gather(%body/xs, {0}) {{axis = 0}}\n"
                                 "  %body/g = Gather(%body/gs, {0}) {{axis = 0}}\n",
                                 at));
  return fmt::format(
      "main {{\n  stream %xs : float32[3, 2, 4]\n  stream %gs : float32[3, 2, 4]\n"
      "  const %zeros : float32[4, 4] = 0\n"
      "  {0}%a, %b = Loop(_, _{1}, %xs, %gs) {{body = @body, carried = {2}, trip_count = 3}}\n{3}}}\n\n"
      "graph @body {{\n  input %body/i : int64[]\n  input %body/cond : bool[]\n{4}"
      "  input %body/xs : float32[3, 2, 4]\n  input %body/gs : float32[3, 2, 4]\n"
      "  const %body/two : int64[] = 2\n  const %body/none : int64[] = 0\n"
      "  %body/at0 = Sub(%body/two, %body/i)\n{5}  return %body/cond{6}, %body/xs, %body/gs\n}}\n",
      results, given, sums + 2, declared, inputs, body, returned);
}

TEST(LongChains, rows_of_stacks_are_found_after_them) {
  const auto ir = parseIr(sumsInALoop(2, kLong));
  lower::multiplyAfterLoops(*ir);
  EXPECT_EQ(count(ir->getGraph("body"), Role::MatMul), 0);
  EXPECT_EQ(count(ir->getMainGraph(), Role::MatMul), 2);
}

TEST(LongChains, time_grows_with_the_number_of_sums) {
  const auto seconds = [](int sums) {
    const auto ir = parseIr(sumsInALoop(sums, 0));
    const std::clock_t start = std::clock();
    lower::multiplyAfterLoops(*ir);
    const double elapsed = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(count(ir->getGraph("body"), Role::MatMul), 0);
    EXPECT_EQ(count(ir->getMainGraph(), Role::MatMul), sums);
    return elapsed;
  };
  seconds(50);
  EXPECT_LT(seconds(1600), 24 * std::max(seconds(200), 0.002));
}

TEST(LongChains, loops_that_read_stacks_of_each_other) {
  std::string main, graphs;
  for (int l = 1; l <= 200; ++l) {
    main += fmt::format("  %a{0}, %s{0} = Loop(_, _, %s{1}) {{body = @b{0}, carried = 1, trip_count = 3}}\n", l, l - 1);
    graphs += fmt::format(
        "\ngraph @b{0} {{\n  input %b{0}/i : int64[]\n  input %b{0}/cond : bool[]\n  input %b{0}/s : int64[3]\n"
        "  %b{0}/at = Gather(%b{0}/s, %b{0}/i) {{axis = 0}}\n  return %b{0}/cond, %b{0}/s, %b{0}/at\n}}\n",
        l);
  }
  const auto ir = parseIr(
      fmt::format("main {{\n  stream %s0 : int64[3]\n{}  HostStore(%s200) {{stream = \"s\"}}\n}}\n{}", main, graphs));
  const std::clock_t start = std::clock();
  lower::addRowsInLoops(*ir);
  lower::multiplyAfterLoops(*ir);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
}

// A chain that leads from the probabilities to their product.
template <class Link>
void expectNoAttention(const Link &link) {
  std::string chain, last = "p";
  for (int i = 0; i < kLong; ++i) {
    const std::string next = "c" + std::to_string(i);
    chain += fmt::format("  %{} = {}\n", next, link(last, i));
    last = next;
  }
  const auto ir = parseIr(
      fmt::format("main {{\n  stream %q : float32[4, 4]\n  stream %k : float32[4, 4]\n  %s = MatMul(%q, %k)\n"
                  "  %p = Softmax(%s) {{axis = 1}}\n{}  %y = MatMul(%{}, %k)\n  HostStore(%y) {{stream = \"y\"}}\n}}\n",
                  chain, last));
  lower::fuseAttention(*ir, cpu::backend());
  EXPECT_EQ(count(ir->getMainGraph(), Role::MatMul), 2);
}

TEST(LongChains, casts_after_a_softmax_are_no_attention) {
  expectNoAttention(
      [](const std::string &x, int i) { return fmt::format("Cast(%{}) {{to = {}}}", x, i % 2 == 0 ? 10 : 1); });
}

TEST(LongChains, views_after_a_softmax_are_no_attention) {
  expectNoAttention([](const std::string &x, int i) {
    return fmt::format("Reshape(%{}) {{shape = [{}, 4]}}", x, i % 2 == 0 ? "1, 4" : "4");
  });
}

}  // namespace
}  // namespace popart
