// Lanes: what of a cycle runs side by side, what before and behind, and what a schedule with wrong lanes is told.
#include "schedule/lanes.hpp"

#include <gtest/gtest.h>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/message_of.hpp"

namespace popart::schedule {
namespace {

double workOf(const Op &op) { return op.has(Trait::View) ? 0 : 1; }

// The order of the main graph: names of outputs, "|" where a lane begins and where the section ends.
std::string textOf(const Ir &ir, const Schedule &found) {
  verify(found, ir);
  const Graph &main = ir.getMainGraph();
  std::string text;
  const std::vector<OpIndex> &order = found.of(main);
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    for (const Section &s : found.sectionsOf(main)) {
      bool begins = s.begin == i;
      for (const Lane &lane : s.lanes) begins |= lane.end == i;
      if (begins) text += "| ";
    }
    const Op &op = main.op(order[static_cast<size_t>(i)]);
    text += (op.hasOutput(0) ? op.outId(0) : op.def().type()) + " ";
  }
  return text;
}
std::string lanesOf(const Ir &ir, const WorkOf &work = workOf) { return textOf(ir, findLanes(ir, schedule(ir), work)); }
std::string lanesOf(const std::string &body) {
  return lanesOf(*parseIr("main {\n  stream %x : float32[4]\n  variable %w : float32[4] = 1\n" + body + "}\n"));
}

TEST(Lanes, stages_of_a_cycle_stand_side_by_side) {
  EXPECT_EQ(lanesOf(R"(  %a = HostLoad() {stream = "x"} <hints = s["lane", "1"]>
  %b = Gelu(%a) <hints = s["lane", "1"]>
  HostStore(%b) {stream = "b"} <hints = s["lane", "1"]>
  %c = HostLoad() {stream = "x"} <hints = s["lane", "0"]>
  %d = Gelu(%c) <hints = s["lane", "0"]>
  %e = Relu(%d) <hints = s["lane", "0"]>
)"),
            "a c | b | d e | HostStore ");
}

TEST(Lanes, cycles_are_sections_of_their_own) {
  EXPECT_EQ(lanesOf(R"(  %a = Gelu(%w) <hints = s["cycle", "1", "lane", "1"]>
  %b = Relu(%w) <hints = s["cycle", "1", "lane", "0"]>
  %c = Gelu(%b) <hints = s["cycle", "2", "lane", "1"]>
  %d = Relu(%w) <hints = s["cycle", "2", "lane", "0"]>
)"),
            "| a | b | | c | d ");
}

TEST(Lanes, one_stage_is_no_section) {
  EXPECT_EQ(lanesOf(R"(  %a = Gelu(%w) <hints = s["lane", "1"]>
  %b = Relu(%w)
)"),
            "a b ");
}

TEST(Lanes, ops_of_no_stage_go_where_their_readers_are) {
  EXPECT_EQ(lanesOf(R"(  %row = Relu(%w)
  %both = Gelu(%w)
  %a = Add(%row, %both) <hints = s["lane", "1"]>
  %b = Relu(%both) <hints = s["lane", "0"]>
  %after = Relu(%b)
  %joined = Add(%a, %after)
)"),
            "both | row a | b after | joined ");
}

TEST(Lanes, an_update_in_place_waits_for_readers_in_other_lanes) {
  const std::string begin = R"(  const %n : int64[] = 1
  %ring = Init() {shape = [2, 4], dtype = 1, init_type = 1}
  %old = Gather(%ring, %n) {axis = 0}
  %a = Gelu(%old) <hints = s["lane", "2"]>
)",
                    end = R"(  %b = Relu(%w) <hints = s["lane", "0"]>
  %row = Reshape(%b) {shape = [1, 4]}
  %next = DynamicUpdate(%ring, %n, %row) {axes = [0], sizes = [1]}
)";
  EXPECT_EQ(lanesOf(begin + end), "ring old | a | b row next ") << "the row is read before";
  const std::string inLane = R"(  %c = ReduceSum(%ring) {axes = [0], keepdims = 0} <hints = s["lane", "1"]>
)";
  EXPECT_EQ(lanesOf(begin + inLane + end), "ring | old a | c | b row | next ");
}

TEST(Lanes, what_a_stage_has_in_common_with_another_is_made_before) {
  EXPECT_EQ(lanesOf(R"(  %common = Relu(%w) <hints = s["lane", "1"]>
  %a = Gelu(%common) <hints = s["lane", "1"]>
  %b = Gelu(%common) <hints = s["lane", "0"]>
  %c = Relu(%b) <hints = s["lane", "0"]>
)"),
            "common | a | b c ");
}

TEST(Lanes, the_cheaper_end_of_a_dependence_leaves_its_lane) {
  const std::string text = R"(main {
  variable %w : float32[4] = 1
  %a = Gelu(%w) <hints = s["lane", "1"]>
  %b = Relu(%w) <hints = s["lane", "0"]>
  %c = Add(%a, %b) <hints = s["lane", "0"]>
}
)";
  const auto ir = parseIr(text);
  EXPECT_EQ(lanesOf(*ir, [](const Op &op) { return op.is(Role::Add) ? 9 : 1; }), "a b c ") << "one lane is left";
  EXPECT_EQ(lanesOf(*ir, [](const Op &op) { return op.is(Role::Add) ? 1 : 9; }), "| a | b | c ");
}

TEST(Lanes, a_constraint_between_stages_asks_for_memory_alone) {
  EXPECT_EQ(lanesOf(R"(  #1 %a = Gelu(%w) <hints = s["lane", "1"]>
  #2 %b = Relu(%w) <hints = s["lane", "0"]>
  order #1, #2
)"),
            "| a | b ");
}

TEST(Lanes, remote_memory_and_collectives_stay_outside) {
  EXPECT_EQ(lanesOf(R"(  variable %r : float32[4] <remote = 1> = 1
  %v = RemoteLoad() {remote_buffer = "r"} <hints = s["lane", "1"]>
  %a = Gelu(%v) <hints = s["lane", "1"]>
  %s = ReplicatedAllReduce(%a) {group_size = 2, stride = 1} <hints = s["lane", "1"]>
  %b = Relu(%w) <hints = s["lane", "0"]>
)"),
            "v | a | b | s ");
}

// A graph that a loop of the same name runs.
std::string bodyOf(const std::string &name) {
  const std::string at = "%" + name + "/";
  return "graph @" + name + " {\n  input " + at + "i : int64[]\n  input " + at + "go : bool[]\n  input " + at +
         "s : float32[4]\n  " + at + "next = Gelu(" + at + "s)\n  return " + at + "go, " + at + "next\n}\n";
}
// `body`, in which %a to %d can be made by loops.
std::unique_ptr<Ir> withLoops(const std::string &body, const std::string &others = "") {
  std::string text = "main {\n  variable %w : float32[4] = 1\n" + body + "}\n" + others;
  for (const std::string name : {"a", "b", "c", "d"})
    if (text.find("@" + name + ",") != std::string::npos) text += bodyOf(name);
  return parseIr(text);
}
std::string loop(const std::string &name, const std::string &first) {
  return "  %" + name + " = Loop(_, _, %" + first + ") {body = @" + name + ", trip_count = 2}\n";
}
const Choose kAll = [](const Graph &, std::vector<OpIndex> &, Section &) { return true; };

TEST(LoopLanes, loops_that_do_not_depend_on_one_another_stand_side_by_side) {
  const auto ir = withLoops("  %p = Relu(%w)\n" + loop("a", "p") + "  %q = Relu(%a)\n  %r = Tanh(%w)\n" +
                            loop("b", "r") + "  %s = Add(%q, %b)\n");
  EXPECT_EQ(textOf(*ir, findLoopLanes(*ir, schedule(*ir), workOf, kAll)), "p r | a | b | q s ");
}

TEST(LoopLanes, each_depth_is_a_section) {
  const auto ir = withLoops(loop("a", "w") + loop("c", "a") + loop("b", "w") + loop("d", "b"));
  EXPECT_EQ(textOf(*ir, findLoopLanes(*ir, schedule(*ir), workOf, kAll)), "| a | b | | c | d ");
}

TEST(LoopLanes, loops_one_after_the_other_are_no_section) {
  const auto ir = withLoops(loop("a", "w") + "  %p = Relu(%a)\n" + loop("b", "p"));
  EXPECT_EQ(textOf(*ir, findLoopLanes(*ir, schedule(*ir), workOf, kAll)), "a p b ");
}

TEST(LoopLanes, a_section_that_is_not_chosen_leaves_the_order_as_it_was) {
  const auto ir = withLoops(loop("a", "w") + "  %q = Relu(%a)\n" + loop("b", "w") + loop("c", "b") + loop("d", "a"));
  EXPECT_EQ(textOf(*ir, findLoopLanes(*ir, schedule(*ir), workOf,
                                      [](const Graph &, std::vector<OpIndex> &, Section &) { return false; })),
            "a q b c d ");
  const Choose second = [chosen = false](const Graph &, std::vector<OpIndex> &, Section &) mutable {
    return std::exchange(chosen, true);
  };
  EXPECT_EQ(textOf(*ir, findLoopLanes(*ir, schedule(*ir), workOf, second)), "a q b | c | d ");
}

TEST(LoopLanes, bodies_have_sections_where_they_run_in_no_lane) {
  const std::string two =
      "graph @two {\n  input %two/i : int64[]\n  input %two/go : bool[]\n  input %two/s : float32[4]\n" +
      loop("a", "two/s") + loop("b", "two/s") + "  %two/next = Add(%a, %b)\n  return %two/go, %two/next\n}\n";
  const auto graphsOf = [&](const std::string &main) {
    const auto ir = withLoops(main, two);
    const Schedule found = findLoopLanes(*ir, schedule(*ir), workOf, kAll);
    verify(found, *ir);
    std::string graphs;
    for (const auto &[id, sections] : found.sections) graphs += ir->getGraph(id).getGraphString() + " ";
    return graphs;
  };
  EXPECT_EQ(graphsOf(loop("two", "w")), "subgraph 'two' ");
  EXPECT_EQ(graphsOf(loop("two", "w") + loop("c", "w")), "the main graph ");
}

std::unique_ptr<Ir> threeStages() {
  return parseIr(R"(main {
  variable %w : float32[4] = 1
  %a = Gelu(%w) <hints = s["lane", "2"]>
  %b = Relu(%w) <hints = s["lane", "1"]>
  %c = Tanh(%w) <hints = s["lane", "0"]>
}
)");
}

TEST(Lanes, joined_lanes_are_printed) {
  const auto ir = threeStages();
  Schedule found = findLanes(*ir, schedule(*ir), workOf);
  std::vector<Section> &sections = found.sections.begin()->second;
  sections[0] = joinLanes(found.orders.begin()->second, sections[0], {{{0, 2}, 3}, {{1}, 1}});
  verify(found, *ir);
  EXPECT_EQ(print(found, *ir),
            "the main graph:\n"
            "  at the same time, lane 2, 0 on 3 threads:\n    Gelu.100\n    Tanh.102\n"
            "  and lane 1 on 1 thread:\n    Relu.101\n");
}

TEST(Lanes, a_schedule_with_wrong_lanes_is_refused) {
  const auto ir = parseIr(R"(main {
  variable %w : float32[4] = 1
  %a = Gelu(%w)
  %b = Relu(%a)
  HostStore(%b) {stream = "b"}
}
)");
  const GraphId main = ir->getMainGraph().id;
  const auto refusal = [&](std::vector<Section> sections) {
    Schedule wrong = schedule(*ir);
    wrong.sections[main] = std::move(sections);
    return test::messageOf([&] { verify(wrong, *ir); });
  };
  EXPECT_NE(refusal({{0, {{"1", 1}, {"0", 2}}}}).find("in lane 0 reads 'a', which lane 1"), std::string::npos);
  EXPECT_NE(refusal({{1, {{"1", 2}, {"0", 3}}}}).find("cannot run in a lane"), std::string::npos);
  EXPECT_NE(refusal({{0, {{"1", 1}, {"0", 9}}}}).find("does not fit"), std::string::npos);
  EXPECT_NE(refusal({{0, {{"1", 2}}}}).find("does not fit"), std::string::npos);
}

}  // namespace
}  // namespace popart::schedule
