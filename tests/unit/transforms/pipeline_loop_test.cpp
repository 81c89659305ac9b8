// Pipelines: which loops become one, what stands in which stage, and what is refused.
#include "transforms/pipeline_loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "transforms/body_stages.hpp"
#include "transforms/counted_loop.hpp"

namespace popart {
namespace {

std::unique_ptr<Ir> loopOf(int64_t count, const std::string &body) {
  return parseIr(
      "main {\n  stream %x : float32[2]\n  variable %acc : float32[2] = 0\n  Loop(_, _, %x, %acc) {body = @body, "
      "carried = 0, modified = [3], trip_count = " +
      std::to_string(count) +
      "}\n}\n\ngraph @body {\n  input %iteration : int64[]\n  input %condition : bool[]\n  input %x : "
      "float32[2]\n  input %acc : float32[2] <by_reference = 1>\n" +
      body + "  return %condition\n}\n");
}

std::map<TensorId, int64_t> stagesOf(const std::string &body) {
  const std::unique_ptr<Ir> ir = loopOf(9, body);
  const Op &loop = *ir->opsOfType("Loop").front();
  const std::vector<int64_t> stages = transforms::stagesOfBody(loop);
  std::map<TensorId, int64_t> byOutput;
  for (const Op *op : transforms::bodyOf(loop).ops())
    if (op->hasOutput(0)) byOutput[op->outId(0)] = stages[op->index().value];
  return byOutput;
}

constexpr const char *kTwoStages = R"(  %a = Gelu(%x) <stage = 0>
  %b = Relu(%a) <stage = 1>
  HostStore(%b) {stream = "b"}
)";

TEST(PipelineLoop, fewer_iterations_than_stages_are_refused) {
  const std::unique_ptr<Ir> ir = loopOf(1, kTwoStages);
  EXPECT_THAT(
      [&] { transforms::pipelineLoops(*ir); },
      testing::ThrowsMessage<error>(testing::HasSubstr("too few micro-batches for 2 stages: got 1, expected 2")));
}

TEST(PipelineLoop, as_many_iterations_as_stages_will_do) {
  const std::unique_ptr<Ir> ir = loopOf(2, kTwoStages);
  EXPECT_EQ(transforms::pipelineLoops(*ir), 1);
  verify(*ir);
  EXPECT_EQ(ir->opsOfType("Loop").front()->attrInt("trip_count"), 1);
  EXPECT_EQ(transforms::pipelineLoops(*ir), 0);  // what it makes is no loop of stages
}

TEST(PipelineLoop, ops_without_a_stage_run_where_they_are_read) {
  const auto stages = stagesOf(R"(  %early = Gelu(%x)
  %a = Gelu(%x) <stage = 0>
  %late = Relu(%early)
  %b = Add(%a, %late) <stage = 2>
  %c = Relu(%b)
  HostStore(%c) {stream = "c"}
)");
  EXPECT_EQ(stages, (std::map<TensorId, int64_t>{{"early", 2}, {"a", 0}, {"late", 2}, {"b", 2}, {"c", 2}}));
}

TEST(PipelineLoop, memory_that_lasts_is_changed_in_one_stage) {
  const auto stages = stagesOf(R"(  %old = Gelu(%acc) <stage = 0>
  %a = Gelu(%x) <stage = 0>
  %acc1 = Accumulate(%acc, %a) {accumulation_type = "Add"} <stage = 1>
  %next = Gelu(%acc1) <stage = 2>
  %sum = Add(%next, %old) <stage = 2>
  HostStore(%sum) {stream = "sum"}
)");
  EXPECT_EQ(stages, (std::map<TensorId, int64_t>{{"old", 1}, {"a", 0}, {"acc1", 1}, {"next", 2}, {"sum", 2}}));
}

TEST(PipelineLoop, stages_never_fall) {
  const auto stages = stagesOf(R"(  %a = Gelu(%x) <stage = 2>
  %b = Relu(%a) <stage = 0>
  HostStore(%b) {stream = "b"}
)");
  EXPECT_EQ(stages, (std::map<TensorId, int64_t>{{"a", 2}, {"b", 2}}));
}

}  // namespace
}  // namespace popart
