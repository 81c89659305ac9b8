// The program of one micro-batch as the body of a loop: what moves, what stays, what leaves the body, and the numbers.
#include "transforms/accumulation_loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../support/program.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using test::countOps;
using test::opTypes;
using testing::ElementsAre;

// acc += x w + 1 for each micro-batch; afterwards w -= acc. The product is stored each time, as its last value and as
// the sum of its values; so is w, which belongs to the outer part.
constexpr const char *kMicroBatch = R"(main {
  stream %x : float32[2]
  variable %acc : float32[2] = [0, 0]
  variable %w : float32[2] = [1, 2]
  const %one : float32[] = 1
  %loaded : float32[2] = HostLoad(%x) {stream = "x"}
  %product : float32[2] = Mul(%loaded, %w)
  %gradient : float32[2] = Add(%product, %one)
  %acc1 : float32[2] = Accumulate(%acc, %gradient) {accumulation_type = "Add"}
  HostStore(%product) {period = 1, return = "all", stream = "each"}
  HostStore(%product) {period = 1, return = "final", stream = "last"}
  HostStore(%product) {period = 1, return = "sum", stream = "sum"}
  %less : float32[2] = Sub(%w, %acc1) <context = "accumulate_outer">
  %w1 : float32[2] = CopyVarUpdate(%w, %less) <context = "accumulate_outer">
  HostStore(%w1) {period = 1, return = "all", stream = "w"} <context = "accumulate_outer">
})";

// Gives another micro-batch at each load, keeps all that is stored.
struct Batches final : runtime::StreamSource {
  explicit Batches(const executable::Executable &e) : executable(e) {}
  const void *input(int, int64_t) override { return values[static_cast<size_t>(loads++)].data(); }
  void *output(int stream, int64_t bytes) override {
    auto &list = stored[executable.outputs[static_cast<size_t>(stream)].id];
    list.emplace_back(static_cast<size_t>(bytes) / sizeof(float));
    return list.back().data();
  }
  const executable::Executable &executable;
  std::vector<std::vector<float>> values = {{1, 10}, {2, 20}, {3, 30}};
  std::map<std::string, std::vector<std::vector<float>>> stored;
  int loads = 0;
};

std::unique_ptr<Ir> looped(int64_t count) {
  std::unique_ptr<Ir> ir = parseIr(kMicroBatch);
  transforms::addAccumulationLoop(*ir, count);
  verify(*ir);
  return ir;
}

const Graph &bodyOf(const Ir &ir) {
  const Op *loop = ir.opsOfType("Loop").at(0);
  return *loop->getCalledGraphs().at(0);
}

TEST(AccumulationLoop, a_count_of_one_changes_nothing) {
  const std::unique_ptr<Ir> before = parseIr(kMicroBatch), after = looped(1);
  EXPECT_TRUE(structurallyEqual(*before, *after)) << print(*after);
}

TEST(AccumulationLoop, updates_stay_and_the_rest_moves_into_the_body) {
  const std::unique_ptr<Ir> ir = looped(3);
  const Graph &main = ir->getMainGraph(), &body = bodyOf(*ir);
  ASSERT_EQ(ir->opsOfType("Loop").size(), 1u);
  EXPECT_EQ(ir->opsOfType("Loop")[0]->attrInt("trip_count"), 3);
  EXPECT_EQ(countOps(main, "Sub"), 1);
  EXPECT_EQ(countOps(main, "CopyVarUpdate"), 1);
  EXPECT_EQ(countOps(main, "HostLoad") + countOps(main, "Mul") + countOps(main, "Accumulate"), 0);
  EXPECT_EQ(countOps(body, "HostLoad"), 1);
  EXPECT_EQ(countOps(body, "Accumulate"), 1);
  EXPECT_EQ(opTypes(main).front(), "Loop");
}

TEST(AccumulationLoop, stores_of_every_value_move_and_others_follow_the_loop) {
  const std::unique_ptr<Ir> ir = looped(3);
  std::vector<std::string> inside, outside;
  for (const Op *op : bodyOf(*ir).ops())
    if (op->is("HostStore")) inside.push_back(op->attrString("stream"));
  for (const Op *op : ir->getMainGraph().getOpSchedule())
    if (op->is("HostStore")) outside.push_back(op->attrString("stream"));
  EXPECT_THAT(inside, ElementsAre("each"));
  // A value of the outer part that each micro-batch returns is stored as often.
  std::sort(outside.begin(), outside.end());
  EXPECT_THAT(outside, ElementsAre("last", "sum", "w", "w", "w"));
}

TEST(AccumulationLoop, constants_are_copied_and_variables_the_body_writes_go_by_reference) {
  const std::unique_ptr<Ir> ir = looped(3);
  const Graph &body = bodyOf(*ir);
  EXPECT_EQ(body.tensorsOfType(TensorType::Const).size(), 1u);
  const Op *loop = ir->opsOfType("Loop")[0];
  const std::vector<int64_t> modified = loop->attrInts("modified");
  ASSERT_EQ(modified.size(), 1u);
  EXPECT_EQ(loop->inId(static_cast<InIndex>(modified[0])), "acc");
}

TEST(AccumulationLoop, gives_the_numbers_of_the_micro_batches_one_by_one) {
  const std::unique_ptr<Ir> ir = looped(3);
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  options.fuse = false;
  const auto executable = pipeline::lower(*ir, options);
  runtime::Engine engine(executable, test::host());
  Batches batches(*executable);
  engine.run(batches);
  using Lists = std::vector<std::vector<float>>;
  EXPECT_EQ(batches.loads, 3);
  EXPECT_EQ(batches.stored["each"], (Lists{{1, 20}, {2, 40}, {3, 60}}));
  EXPECT_EQ(batches.stored["last"], (Lists{{3, 60}}));
  EXPECT_EQ(batches.stored["sum"], (Lists{{6, 120}}));
  // acc = (1 + 2 + 3 + 3, 20 + 40 + 60 + 3)
  EXPECT_EQ(batches.stored["w"], (Lists(3, {1 - 9, 2 - 123})));
}

}  // namespace
}  // namespace popart
