// Order of ops: data, constraints, program order, and the order that in-place writes need.
#include "schedule/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <popart/ir.hpp>

namespace popart::schedule {
namespace {

std::vector<std::string> namesInOrder(const Ir &ir) {
  std::vector<std::string> names;
  for (OpIndex o : orderOps(ir.getMainGraph())) names.push_back(ir.getMainGraph().op(o).name());
  return names;
}

using Names = std::vector<std::string>;

TEST(Order, smallest_key_first_among_ready_nodes) {
  EXPECT_EQ(order(4, {{2, 0}}, {0, 1, 2, 3}), (std::vector<int>{1, 2, 0, 3}));
  EXPECT_EQ(order(3, {}, {5, 5, 1}), (std::vector<int>{2, 0, 1}));
}

TEST(Order, a_cycle_gives_fewer_nodes) { EXPECT_EQ(order(3, {{0, 1}, {1, 0}}, {0, 1, 2}), std::vector<int>{2}); }

TEST(Schedule, data_before_program_order) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[2]\n  %b = Neg(%a) <name = \"b\">\n  %a = Relu(%x) <name = \"a\">\n  return %b\n}");
  EXPECT_EQ(namesInOrder(*ir), (Names{"a", "b"}));
}

TEST(Schedule, program_order_where_data_leaves_a_choice) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[2]\n  %a = Neg(%x) <name = \"a\">\n  %b = Relu(%x) <name = \"b\">\n  %c = Exp(%x) "
      "<name = \"c\">\n}");
  EXPECT_EQ(namesInOrder(*ir), (Names{"a", "b", "c"}));
  ir->opsOfType("Exp")[0]->settings.sequence = 0;
  EXPECT_EQ(namesInOrder(*ir), (Names{"a", "c", "b"}));
}

TEST(Schedule, constraints_are_kept) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[2]\n  #1 %a = Neg(%x) <name = \"a\">\n  #2 %b = Relu(%x) <name = \"b\">\n  order "
      "#2, #1\n}");
  EXPECT_EQ(namesInOrder(*ir), (Names{"b", "a"}));
}

TEST(Schedule, accesses_to_a_remote_variable_keep_their_order_through_calls) {
  const auto ir = parseIr(R"(main {
  stream %x : float32[2]
  variable %r : float32[2] <remote = 1> = 0
  variable %other : float32[2] <remote = 1> = 0
  %h = HostLoad() {stream = "x"} <name = "h">
  %e = Exp(%h) <name = "e">
  Call(%e) {callee = @store} <name = "call">
  %l = RemoteLoad() {remote_buffer = "r"} <name = "l">
  %o = RemoteLoad() {remote_buffer = "other"} <name = "o">
}
graph @store {
  input %value : float32[2]
  RemoteStore(%value) {remote_buffer = "r"}
}
)");
  ir->opsOfType("Exp")[0]->settings.sequence = 100;  // the call waits for it
  EXPECT_EQ(namesInOrder(*ir), (Names{"h", "o", "e", "call", "l"}));
}

TEST(Schedule, a_write_stays_between_the_readers_before_and_after_it) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[2]\n  variable %w : float32[2] = 0\n  %slow = Neg(%x) <name = \"slow\">\n"
      "  %before = Add(%w, %slow) <name = \"before\">\n  %v = AddLhsInplace(%w, %x) <name = \"write\">\n"
      "  %after = Neg(%w) <name = \"after\">\n}");
  EXPECT_EQ(namesInOrder(*ir), (Names{"slow", "before", "write", "after"}));
}

TEST(Schedule, a_write_through_a_view_counts_as_a_write_to_the_variable) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[4]\n  variable %w : float32[2, 2] = 0\n"
      "  %r = ReshapeInplace(%w) {shape = [4]} <name = \"view\">\n  %late = Neg(%x) <name = \"late\">\n"
      "  %before = Neg(%w) <name = \"before\">\n  %v = AddLhsInplace(%r, %late) <name = \"write\">\n  %after = Exp(%w) "
      "<name = \"after\">\n}");
  const Names names = namesInOrder(*ir);
  auto at = [&](const char *n) { return std::find(names.begin(), names.end(), n) - names.begin(); };
  EXPECT_LT(at("before"), at("write"));
  EXPECT_LT(at("write"), at("after"));
}

TEST(Schedule, a_cycle_is_an_error_that_names_ops) {
  const auto ir = parseIr(
      "main {\n  input %x : float32[2]\n  %a = Neg(%x) <name = \"first\">\n  %b = Relu(%a) <name = \"second\">\n}");
  ir->getMainGraph().addConstraint(ir->opsOfType("Relu")[0]->index(), ir->opsOfType("Neg")[0]->index());
  try {
    orderOps(ir->getMainGraph());
    FAIL() << "no error";
  } catch (const error &e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("first"));
    EXPECT_THAT(e.what(), testing::HasSubstr("cycle"));
  }
}

}  // namespace
}  // namespace popart::schedule
