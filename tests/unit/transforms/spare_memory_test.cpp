// What a program could do without.
#include "transforms/spare_memory.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include <popart/graph.hpp>

namespace popart::transforms {
namespace {

// Two layers; the backward pass reads %h1, a view of it, and %y1, here the result of an Identity.
constexpr std::string_view kProgram = R"(main {
  stream %x : float32[4, 8]
  variable %w : float32[8, 8] = 0.5
  variable %momentum : float32[8, 8] = 0
  %h1 = MatMul(%x, %w)
  %y1 = Gelu(%h1)
  %m1 = Neg(%y1)
  %y2 = Exp(%m1)
  %v1 = Reshape(%h1) {shape = [32]}
  %b1 = Exp(%y2)
  %b2 = Exp(%v1)
  %b3 = Exp(%h1)
})";

const SpareMemory *find(const std::vector<SpareMemory> &list, const TensorId &id) {
  for (const SpareMemory &m : list)
    if (std::ranges::count(m.repeated, id) || std::ranges::count(m.moved, id)) return &m;
  return nullptr;
}

struct Listed {
  std::unique_ptr<Ir> ir = parseIr(std::string(kProgram));
  SpareMemoryOptions options;
  OffChip offChip;
  Listed() { options.firstGradient = ir->getMainGraph().getTensor("b1")->getProducer()->place(); }
  std::vector<SpareMemory> list() { return listSpareMemory(*ir, offChip, options); }
};

TEST(SpareMemory, views_count_to_what_they_show) {
  Listed program;
  const auto list = program.list();
  const SpareMemory *h1 = find(list, "h1");
  ASSERT_TRUE(h1);
  EXPECT_EQ(h1->bytes, 4 * 8 * 4);
  EXPECT_EQ(h1->repeated, std::vector<TensorId>{"h1"});
  EXPECT_EQ(h1->moved, (std::vector<TensorId>{"v1", "h1"}));
  EXPECT_EQ(h1->again.flops, 2 * 4 * 8 * 8);
}

TEST(SpareMemory, what_leads_there_and_is_not_kept_costs_as_well) {
  Listed program;
  const auto list = program.list();
  EXPECT_FALSE(find(list, "y1"));
  EXPECT_FALSE(find(list, "m1"));
  const SpareMemory *y2 = find(list, "y2");
  ASSERT_TRUE(y2);
  const Graph &main = program.ir->getMainGraph();
  Cost sum;
  for (const char *id : {"y1", "m1", "y2"}) sum += costOf(*main.getTensor(id)->getProducer());
  EXPECT_EQ(y2->again.flops, sum.flops);
}

TEST(SpareMemory, results_of_the_last_op_are_read_at_once) {
  Listed program;
  program.options.loss = "y2";
  EXPECT_FALSE(find(program.list(), "y2"));
}

TEST(SpareMemory, anchors_and_what_a_rule_speaks_of_stay) {
  Listed program;
  program.options.anchors = {"y2"};
  program.offChip.byTensor = {{"w", false}};
  const auto list = program.list();
  EXPECT_FALSE(find(list, "y2"));
  EXPECT_FALSE(find(list, "w"));
  EXPECT_TRUE(find(list, "h1"));
}

TEST(SpareMemory, variables_cost_a_load_for_each_phase) {
  Listed program;
  const auto list = program.list();
  const SpareMemory *w = find(list, "w");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->variable, OffChip::Held::Weight);
  EXPECT_EQ(w->bytesPerMicroBatch, 8 * 8 * 4);
  EXPECT_EQ(w->bytesPerUpdate, 0);
  EXPECT_FALSE(find(list, "momentum"));  // nothing uses it
}

TEST(SpareMemory, constants_of_products_alone_could_be_variables) {
  const auto ir = parseIr(R"(main {
  stream %x : float32[4, 8]
  const %w : float32[8, 8] = 0.5
  const %t : float32[8, 8] = 0.5
  const %b : float32[8] = 0.5
  %turned = Transpose(%t) {perm = [1, 0]}
  %h = MatMul(%x, %w)
  %g = MatMul(%h, %turned)
  %y = Add(%g, %b)
  return %y
})");
  SpareMemoryOptions options;
  EXPECT_TRUE(listSpareMemory(*ir, {}, options).empty());
  options.constants = {"w", "t", "b", "gone"};
  const auto list = listSpareMemory(*ir, {}, options);
  ASSERT_EQ(list.size(), 2u);
  for (const SpareMemory &m : list) EXPECT_TRUE(m.isConstant && m.bytesPerMicroBatch == 8 * 8 * 4);
}

}  // namespace
}  // namespace popart::transforms
