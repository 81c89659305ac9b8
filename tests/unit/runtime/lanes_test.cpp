// Engines with lanes: the bits of one after the other on any number of threads and on a device that has none, failures
// in one lane and in several, and the text of such an executable.
#include <gtest/gtest.h>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/opmanager.hpp>
#include <popart/userkernel.hpp>

#include "../support/executable_text.hpp"
#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "api/user_kernels.hpp"
#include "backends/cpu/cpu.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "runtime/host_lanes.hpp"
#include "support/counting_device/counting_device.hpp"

namespace popart {
namespace {

using executable::Executable;
using executable::Step;
using lower::LaneRule;
using Values = std::vector<float>;

constexpr int kRows = 6;

// A loop of three iterations whose two stages hand rows on and look them up; a second lookup stands before the loop.
constexpr const char *kTwoStages = R"(main {
  stream %ids : int32[6]
  stream %others : int32[6]
  variable %w : float32[4, 4] = 0.5
  variable %table : float32[6, 4] = 0.25
  variable %acc : float32[6, 4] = 0
  %first = HostLoad() {stream = "ids"}
  %second = HostLoad() {stream = "others"}
  %start = Gather(%table, %first) {axis = 0}
  %carry, %sum = Loop(_, _, %start, %acc, %second, %w, %table, %first) {body = @body, carried = 2, trip_count = 3}
  VariableAssign(%acc, %sum)
  HostStore(%carry) {stream = "carry"}
}

graph @body {
  input %i : int64[]
  input %go : bool[]
  input %carry : float32[6, 4]
  input %sum : float32[6, 4]
  input %second : int32[6]
  input %w : float32[4, 4]
  input %table : float32[6, 4]
  input %first : int32[6]
  %h = MatMul(%carry, %w) <hints = s["lane", "1"]>
  %looked = Gather(%h, %second) {axis = 0} <hints = s["lane", "1"], name = "late">
  %next = Add(%sum, %looked) <hints = s["lane", "1"]>
  %m = MatMul(%table, %w) <hints = s["lane", "0"]>
  %t = Gelu(%m) <hints = s["lane", "0"]>
  %made = Gather(%t, %first) {axis = 0} <hints = s["lane", "0"], name = "early">
  return %go, %made, %next
}
)";

std::shared_ptr<const Executable> compile(std::string_view text, LaneRule rule, int threads) {
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &ref::backend()};
  options.lanes = rule;
  options.threads = threads;
  return pipeline::lower(*parseIr(text), options);
}

const Step *lanesOf(const executable::Program &program) {
  for (const Step &step : program.steps) {
    if (step.kind == Step::Kind::Lanes) return &step;
    for (const auto &inner : step.programs)
      if (const Step *found = lanesOf(*inner)) return found;
  }
  return nullptr;
}

class Streams final : public runtime::StreamSource {
 public:
  Streams(const Executable &e, std::map<std::string, std::vector<int32_t>> ids)
      : executable_(e), ids_(std::move(ids)) {}
  const void *input(int s, int64_t) override { return ids_.at(executable_.inputs[static_cast<size_t>(s)].id).data(); }
  void *output(int s, int64_t bytes) override {
    Values &values = outputs[executable_.outputs[static_cast<size_t>(s)].id];
    values.resize(static_cast<size_t>(bytes) / sizeof(float));
    return values.data();
  }
  std::map<std::string, Values> outputs;

 private:
  const Executable &executable_;
  std::map<std::string, std::vector<int32_t>> ids_;
};

const std::vector<int32_t> kGood{5, 0, 1, 3, 3, 2}, kBad{5, 0, 9, 3, 3, 2}, kWorse{5, 0, 1, 7, 3, 2};

class Runs {
 public:
  explicit Runs(std::shared_ptr<const Executable> e, int threads = 2, const runtime::Device &device = test::host())
      : executable(std::move(e)), engine(executable, device, {threads, runtime::WakePolicy::Always}) {
    for (size_t i = 0; i < executable->variables.size(); ++i) {
      const auto &v = executable->variables[i];
      engine.writeVariable(static_cast<int>(i), test::numbers(v.info.nelms(), static_cast<int>(i)).data());
    }
  }
  Values operator()(const std::vector<int32_t> &first, const std::vector<int32_t> &second) {
    Streams streams(*executable, {{"ids", first}, {"others", second}});
    engine.run(streams);
    return streams.outputs.at("carry");
  }
  Values variable(const std::string &id) const {
    for (size_t i = 0; i < executable->variables.size(); ++i)
      if (executable->variables[i].id == id) {
        Values values(static_cast<size_t>(executable->variables[i].info.nelms()));
        engine.readVariable(static_cast<int>(i), values.data());
        return values;
      }
    throw error("test: no variable '{}'", id);
  }
  std::shared_ptr<const Executable> executable;
  runtime::Engine engine;
};

TEST(LanesOfEngines, give_the_bits_of_one_after_the_other) {
  Runs plain(compile(kTwoStages, LaneRule::Never, 2));
  ASSERT_EQ(lanesOf(plain.executable->main), nullptr);
  Values carry;
  for (int i = 0; i < 50; ++i) carry = plain(kGood, kGood);
  for (const int threads : {2, 3, 8}) {
    Runs lanes(compile(kTwoStages, LaneRule::Always, threads), threads);
    ASSERT_NE(lanesOf(lanes.executable->main), nullptr);
    Values result;
    for (int i = 0; i < 50; ++i) result = lanes(kGood, kGood);
    EXPECT_EQ(result, carry) << threads;
    EXPECT_EQ(lanes.variable("acc"), plain.variable("acc")) << threads;
  }
}

TEST(LanesOfEngines, run_in_order_where_a_device_or_its_threads_are_too_few) {
  const auto e = compile(kTwoStages, LaneRule::Always, 4);
  Runs lanes(e, 4), one(e, 1), five(e, 5);
  test::CountingDevice device(cpu::backend(), ref::backend());
  Runs counted(e, 1, device);
  const Values expected = lanes(kGood, kGood);
  EXPECT_EQ(one(kGood, kGood), expected);
  EXPECT_EQ(five(kGood, kGood), expected);
  EXPECT_EQ(counted(kGood, kGood), expected);
  EXPECT_EQ(counted.variable("acc"), lanes.variable("acc"));
}

TEST(LanesOfEngines, one_thread_has_none) {
  EXPECT_EQ(lanesOf(compile(kTwoStages, LaneRule::Always, 1)->main), nullptr);
}

TEST(LanesOfEngines, end_the_run_with_the_first_lane_that_fails) {
  Runs lanes(compile(kTwoStages, LaneRule::Always, 2));
  const Values expected = lanes(kGood, kGood);
  const auto messageOf = [&](const auto &first, const auto &second) {
    return test::messageOf([&] { lanes(first, second); });
  };
  for (int i = 0; i < 20; ++i) {
    const std::string late = messageOf(kGood, kBad), both = messageOf(kGood, kWorse);
    EXPECT_NE(late.find("'late'"), std::string::npos) << late;
    EXPECT_NE(late.find("got 9"), std::string::npos) << late;
    EXPECT_NE(both.find("got 7"), std::string::npos) << both;
    EXPECT_EQ(lanes(kGood, kGood), expected) << "the engine runs again";
  }
}

TEST(LanesOfEngines, are_printed_with_their_threads) {
  const auto e = compile(kTwoStages, LaneRule::Always, 3);
  const Step *lanes = lanesOf(e->main);
  ASSERT_NE(lanes, nullptr);
  EXPECT_EQ(lanes->name, "lanes 1 | 0");
  EXPECT_EQ(lanes->programs.size(), 2U);
  EXPECT_EQ(lanes->threads[0] + lanes->threads[1], 3);
  const std::string text = print(*e);
  for (const char *line : {"    lanes 1 | 0: at the same time\n", "on 1 thread:\n", "on 2 threads:\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

const OperatorIdentifier kPick{"lanes.test", "Pick", 1};

class PickOp : public Op {
 public:
  PickOp(const OperatorIdentifier &id, const Op::Settings &s) : Op(id, s) {}
  std::unique_ptr<Op> clone() const override { return std::make_unique<PickOp>(*this); }
  void setup() override { outInfo(0) = TensorInfo(DataType::FLOAT, inInfo(0).shape()); }
};
const OpCreator<PickOp> kCreator(OpDefinitions({{kPick, OpDefinition()}}));

// Numbers as they are, but none above five.
const RegisterKernel kKernel(kPick, [](const KernelCall &call) {
  const auto *in = call.input<int32_t>(0);
  for (int64_t i = 0; i < kRows; ++i) {
    if (in[i] > 5) throw std::domain_error("no " + std::to_string(in[i]) + " here");
    call.output<float>(0)[i] = static_cast<float>(in[i]);
  }
});

TEST(LanesOfEngines, exceptions_of_user_kernels_come_in_the_order_of_lanes) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  for (const char *stage : {"1", "0"}) {
    const TensorId id = stage == std::string("1") ? "ids" : "others";
    Op::Settings settings(main, id);
    settings.hints["lane"] = stage;
    main.addStream(id, TensorInfo(DataType::INT32, {kRows}));
    const TensorIndex in =
        main.addConnectedOp(opDef("HostLoad"), {}, {id + "/in"}, {{"stream", id}}, Op::Settings(main))->outputs()[0];
    auto pick = std::make_unique<PickOp>(kPick, settings);
    Op *op = main.addOp(std::move(pick));
    main.connectInput(op->index(), 0, in);
    main.createOutput(op->index(), 0, id + "/out");
    op->setup();
    main.addConnectedOp(opDef("HostStore"), {op->outputs()[0]}, {},
                        {{"stream", stage == std::string("1") ? TensorId("other") : TensorId("carry")}},
                        Op::Settings(main));
  }
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &userKernelBackend(), &ref::backend()};
  options.lanes = LaneRule::Always;
  options.threads = 2;
  Runs lanes(pipeline::lower(ir, options));
  ASSERT_NE(lanesOf(lanes.executable->main), nullptr);
  const auto messageOf = [&](const auto &first, const auto &second) {
    return test::messageOf([&] { lanes(first, second); });
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(messageOf(kGood, kBad).find("no 9 here"), std::string::npos);
    EXPECT_NE(messageOf(kBad, kGood).find("no 9 here"), std::string::npos);
    EXPECT_NE(messageOf(kBad, kWorse).find("no 9 here"), std::string::npos) << "both fail: the first lane's";
    EXPECT_EQ(lanes(kGood, kGood), Values(kGood.begin(), kGood.end()));
  }
}

// The workers of this team never come: nobody lends them.
TEST(HostLanes, are_all_led_by_who_comes) {
  ThreadPoolOptions absent;
  absent.workers = ThreadPoolOptions::Workers::Lent;
  const runtime::RunSettings settings{4, runtime::WakePolicy::Always};
  runtime::Team team(4, absent, runtime::WakePolicy::Always, settings);
  runtime::HostLanes lanes("cpu", team, {1, 2, 1}, settings);
  std::vector<int> calls;
  for (int run = 0; run < 2; ++run)
    lanes.run([](void *state, int lane) { static_cast<std::vector<int> *>(state)->push_back(lane); }, &calls);
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(ThreadsOfLanes, keep_their_proportion) {
  using runtime::threadsOfLanes;
  const auto threads = [](std::vector<int> asked, int all) { return threadsOfLanes(asked, all); };
  EXPECT_EQ(threads({1, 3}, 4), (std::vector<int>{1, 3}));
  EXPECT_EQ(threads({1, 3}, 8), (std::vector<int>{2, 6}));
  EXPECT_EQ(threads({1, 7}, 2), (std::vector<int>{1, 1}));
  EXPECT_EQ(threads({2, 2, 2}, 4).size(), 3U);
  EXPECT_TRUE(threads({1, 1, 1}, 2).empty());
}

}  // namespace
}  // namespace popart
