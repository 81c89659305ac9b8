// The loops of a step: what moves into a body, what stays, what leaves it; and the values that each return type gives
// the host, with and without loops.
#include "transforms/step_loops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "transforms/return_types.hpp"

namespace popart {
namespace {

using test::countOps;
using test::opTypes;
using testing::ElementsAre;
using transforms::ReturnType;
using Kind = ReturnType::Kind;

// acc += x w + 1 for each micro-batch; afterwards w -= acc. The product is stored, and w, which belongs to the outer
// part.
constexpr const char *kMicroBatch = R"(main {
  stream %x : float32[2]
  variable %acc : float32[2] = [0, 0]
  variable %w : float32[2] = [1, 2]
  const %one : float32[] = 1
  %loaded : float32[2] = HostLoad() {stream = "x"}
  %product : float32[2] = Mul(%loaded, %w)
  %gradient : float32[2] = Add(%product, %one)
  %acc1 : float32[2] = Accumulate(%acc, %gradient) {accumulation_type = "Add"}
  HostStore(%product) {stream = "product"}
  %less : float32[2] = Sub(%w, %acc1) <context = "accumulate_outer">
  %w1 : float32[2] = CopyVarUpdate(%w, %less) <context = "accumulate_outer">
  HostStore(%w) {stream = "w"} <context = "accumulate_outer">
})";

using Value = std::vector<float>;
using Values = std::vector<Value>;

// Gives another micro-batch at each load, keeps all that is stored.
struct Batches final : runtime::StreamSource {
  explicit Batches(const executable::Executable &e) : executable(e) {}
  static Value batch(int i) { return {0.1f + 0.01f * static_cast<float>(i), 0.3f - 0.07f * static_cast<float>(i)}; }
  const void *input(int, int64_t) override { return (loaded = batch(loads++)).data(); }
  void *output(int stream, int64_t bytes) override {
    Values &list = stored[executable.outputs[static_cast<size_t>(stream)].id];
    list.emplace_back(static_cast<size_t>(bytes) / sizeof(float));
    return list.back().data();
  }
  const executable::Executable &executable;
  Value loaded;
  std::map<std::string, Values> stored;
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

TEST(AccumulationLoop, stores_follow_what_makes_the_value) {
  const std::unique_ptr<Ir> ir = looped(3);
  EXPECT_EQ(opTypes(bodyOf(*ir)).back(), "HostStore");
  EXPECT_THAT(opTypes(ir->getMainGraph()), ElementsAre("Loop", "Sub", "CopyVarUpdate", "HostStore"));
}

TEST(AccumulationLoop, constants_move_and_variables_the_body_writes_go_by_reference) {
  const std::unique_ptr<Ir> ir = looped(3);
  const Graph &body = bodyOf(*ir);
  EXPECT_EQ(body.tensorsOfType(TensorType::Const).size(), 1u);
  EXPECT_EQ(ir->getMainGraph().tensorsOfType(TensorType::Const).size(), 0u);
  const Op *loop = ir->opsOfType("Loop")[0];
  const std::vector<int64_t> modified = loop->attrInts("modified");
  ASSERT_EQ(modified.size(), 1u);
  EXPECT_EQ(loop->inId(static_cast<InIndex>(modified[0])), "acc");
}

TEST(MainLoop, everything_moves_but_variables_and_streams) {
  const std::unique_ptr<Ir> ir = looped(3);
  transforms::addMainLoop(*ir, 1);
  EXPECT_TRUE(structurallyEqual(*ir, *looped(3)));
  transforms::addMainLoop(*ir, 2);
  verify(*ir);
  const Graph &main = ir->getMainGraph();
  EXPECT_THAT(opTypes(main), ElementsAre("Loop"));
  EXPECT_EQ(main.tensors().size(), 3u);  // x, acc, w
  const Op &loop = *main.ops()[0];
  EXPECT_EQ(loop.attrInts("modified"), (std::vector<int64_t>{2, 3}));
  EXPECT_THAT(opTypes(*loop.getCalledGraphs()[0]), ElementsAre("Loop", "Sub", "CopyVarUpdate", "HostStore"));
}

// What the host must get of a stream: of the values of all micro-batches, and of their sums per batch.
Values returned(const Values &all, const ReturnType &type, int perBatch) {
  Values result;
  Value sum(2, 0.f);
  switch (type.kind) {
    case Kind::All:
      return all;
    case Kind::Final:
      return {all.back()};
    case Kind::EveryN:
      for (size_t i = static_cast<size_t>(type.period); i <= all.size(); i += static_cast<size_t>(type.period))
        result.push_back(all[i - 1]);
      return result;
    case Kind::Sum:
      for (size_t i = 0; i < all.size(); i += static_cast<size_t>(perBatch)) {
        Value inner(2, 0.f);
        for (size_t k = 0; k < static_cast<size_t>(perBatch); ++k)
          for (size_t e = 0; e < 2; ++e) inner[e] += all[i + k][e];
        for (size_t e = 0; e < 2; ++e) sum[e] += inner[e];
      }
      return {sum};
  }
  return result;
}

// Values of the streams for each micro-batch, one by one.
std::map<std::string, Values> microBatches(int batches, int perBatch) {
  std::map<std::string, Values> all;
  Value w{1, 2}, acc{0, 0};
  for (int b = 0, i = 0; b < batches; ++b) {
    for (int m = 0; m < perBatch; ++m, ++i) {
      const Value x = Batches::batch(i), product{x[0] * w[0], x[1] * w[1]};
      for (size_t e = 0; e < 2; ++e) acc[e] += product[e] + 1;
      all["product"].push_back(product);
    }
    for (size_t e = 0; e < 2; ++e) w[e] -= acc[e];
    all["w"].insert(all["w"].end(), static_cast<size_t>(perBatch), w);
  }
  return all;
}

TEST(ReturnTypes, give_the_numbers_of_the_micro_batches_one_by_one) {
  const ReturnType types[] = {{Kind::All}, {Kind::Final}, {Kind::EveryN, 1}, {Kind::EveryN, 2}, {Kind::Sum}};
  for (const int batches : {1, 2, 4})
    for (const int perBatch : {1, 2, 3})
      for (const ReturnType &type : types) {
        if (type.period > batches) continue;
        std::unique_ptr<Ir> ir = parseIr(kMicroBatch);
        transforms::addAccumulationLoop(*ir, perBatch);
        transforms::addMainLoop(*ir, batches);
        transforms::applyReturnTypes(*ir, {{"product", type}, {"w", type}}, batches * perBatch);
        verify(*ir);
        SCOPED_TRACE(print(*ir));
        for (const bool fast : {false, true}) {
          lower::LowerOptions options;
          options.backends = {&ref::backend()};
          if (fast) options.backends = {&cpu::backend(), &ref::backend()};
          options.fuse = fast;
          const auto executable = pipeline::lower(*ir, options);
          runtime::Engine engine(executable, test::host());
          Batches source(*executable);
          engine.run(source);
          EXPECT_EQ(source.loads, batches * perBatch);
          const auto all = microBatches(batches, perBatch);
          EXPECT_EQ(source.stored["product"], returned(all.at("product"), type, perBatch));
          Values w = all.at("w");
          if (type.kind == Kind::Sum) {  // made once per batch
            w.clear();
            for (int b = 0; b < batches; ++b) w.push_back(all.at("w")[static_cast<size_t>(b * perBatch)]);
          }
          EXPECT_EQ(source.stored["w"], returned(w, type, type.kind == Kind::Sum ? 1 : perBatch));
          // The next run counts anew.
          const size_t stored = source.stored["product"].size();
          engine.run(source);
          EXPECT_EQ(source.stored["product"].size(), 2 * stored);
        }
      }
}

TEST(ReturnTypes, without_loops_one_value_is_all_there_is) {
  for (const Kind kind : {Kind::All, Kind::Final, Kind::EveryN, Kind::Sum}) {
    const std::unique_ptr<Ir> ir = parseIr(kMicroBatch);
    transforms::applyReturnTypes(*ir, {{"product", {kind}}, {"w", {kind}}}, 1);
    EXPECT_TRUE(structurallyEqual(*ir, *parseIr(kMicroBatch))) << print(*ir);
  }
}

TEST(ReturnTypes, truth_values_have_no_sum) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
  const %b : bool[2] = 1
  HostStore(%b) {stream = "b"}
})");
  transforms::addMainLoop(*ir, 2);
  EXPECT_THROW(transforms::applyReturnTypes(*ir, {{"b", {Kind::Sum}}}, 2), error);
}

}  // namespace
}  // namespace popart
