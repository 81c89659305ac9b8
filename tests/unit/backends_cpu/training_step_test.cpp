// Whole training steps on the CPU backend: numbers against the reference backend, bits against the number of threads,
// and what is left of the step after fusion: no operator without a vectorised kernel, no copy of a weight.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include <popart/adam.hpp>
#include <popart/sgd.hpp>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "pipeline/prepare.hpp"

namespace popart {
namespace {

using test::numbers;
using test::ProgramRun;

struct Mlp {
  int64_t batch;
  std::vector<int64_t> sizes;
  std::string activation;
};

std::unique_ptr<Ir> build(const Mlp &net) {
  auto ir = std::make_unique<Ir>();
  test::GraphBuilder b(ir->getMainGraph());
  auto h = b.stream("x", DataType::FLOAT, {net.batch, net.sizes[0]});
  auto labels = b.stream("labels", DataType::INT32, {net.batch});
  for (size_t i = 0; i + 1 < net.sizes.size(); ++i) {
    const int64_t in = net.sizes[i], out = net.sizes[i + 1];
    const std::string n = std::to_string(i);
    auto w = numbers(in * out, static_cast<int>(i) + 1);
    for (float &v : w) v /= std::sqrt(static_cast<float>(in));
    h = b.op("MatMul", {h, b.variable("w" + n, {in, out}, w)}, "p" + n);
    h = b.op("Add", {h, b.variable("b" + n, {out}, numbers(out, 50 + static_cast<int>(i)))}, "s" + n);
    if (i + 2 < net.sizes.size()) h = b.op(net.activation, {h}, "h" + n);
  }
  auto p = b.op("Softmax", {h}, "probs", {{"axis", int64_t{1}}});
  b.op("Nll", {p, labels}, "loss");
  return ir;
}

// Batches of one run, and micro-batches of one update.
struct StepSize {
  int64_t batches = 1, microBatches = 1;
};

pipeline::Prepared prepare(std::unique_ptr<Ir> model, const Optimizer &optimizer, const StepSize &step = {}) {
  pipeline::PrepareRequest request;
  request.ir = std::move(model);
  request.loss = "loss";
  request.anchors = {{"loss"}};
  request.batchesPerStep = step.batches;
  request.options.factors.accumulates = step.microBatches > 1;
  request.options.factors.accumulationFactor = step.microBatches;
  request.updates = optimizer.updateRules(request.options.factors);
  request.patterns.enableInPlace(false);  // tests add readers to the program
  return pipeline::prepare(std::move(request));
}
pipeline::Prepared prepare(const Mlp &net, const Optimizer &optimizer, const StepSize &step = {}) {
  return prepare(build(net), optimizer, step);
}

void feed(ProgramRun &run, const Mlp &net) {
  run.feed<float>("x", numbers(net.batch * net.sizes[0], 9));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < net.batch; ++i) labels.push_back(static_cast<int32_t>(i % net.sizes.back()));
  run.feed<int32_t>("labels", labels);
}

const ProgramRun::Backends kBackends = {&cpu::backend(), &ref::backend()};
const Mlp kSmall{8, {37, 40, 21, 10}, "Gelu"};

void expectSameTraining(const Mlp &net, const Optimizer &optimizer, double tolerance) {
  auto prepared = prepare(net, optimizer);
  ProgramRun fast(*prepared.ir, kBackends, 1), twice(*prepared.ir, kBackends, 2), thrice(*prepared.ir, kBackends, 3),
      many(*prepared.ir, kBackends, 8), slow(*prepared.ir);
  for (ProgramRun *run : {&fast, &twice, &thrice, &many, &slow}) feed(*run, net);
  for (int step = 0; step < 4; ++step) {
    for (ProgramRun *run : {&fast, &twice, &thrice, &many, &slow}) run->run();
    EXPECT_NEAR(fast.anchor("loss")[0], slow.anchor("loss")[0], tolerance * std::fabs(slow.anchor("loss")[0]));
    for (size_t i = 0; i + 1 < net.sizes.size(); ++i)
      for (const std::string prefix : {"w", "b"}) {
        const std::string id = prefix + std::to_string(i);
        const auto a = fast.variable(id), b = slow.variable(id);
        for (const ProgramRun *other : {&twice, &thrice, &many})
          EXPECT_EQ(a, other->variable(id)) << id << ": results depend on the number of threads";
        for (size_t k = 0; k < a.size(); ++k)
          ASSERT_NEAR(a[k], b[k], tolerance) << id << " [" << k << "] at step " << step;
      }
  }
}

TEST(TrainingStep, SgdAgreesWithReference) {
  expectSameTraining(kSmall, ConstSGD(0.1f), 1e-5);
  expectSameTraining({3, {20, 65, 5}, "Relu"}, ConstSGD(0.05f, 0.1f), 1e-5);
  expectSameTraining({1, {16, 16, 16}, "Tanh"}, SGD({{"defaultLearningRate", {0.1f, false}}}), 1e-5);
}

TEST(TrainingStep, MomentumAgreesWithReference) {
  for (auto kind : {SGDAccumulatorAndMomentum::Combined, SGDAccumulatorAndMomentum::Separate})
    expectSameTraining(kSmall,
                       SGD({{"defaultLearningRate", {0.1f, false}},
                            {"defaultMomentum", {0.9f, true}},
                            {"defaultWeightDecay", {0.02f, true}}},
                           {}, kind),
                       1e-5);
}

TEST(TrainingStep, AdamAgreesWithReference) {
  for (auto mode : {AdamMode::Adam, AdamMode::AdamNoBias, AdamMode::AdaMax, AdamMode::Lamb})
    expectSameTraining(kSmall,
                       Adam({{"defaultLearningRate", {0.01f, false}},
                             {"defaultWeightDecay", {0.1f, true}},
                             {"defaultEps", {1e-3f, true}}},
                            mode, WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT),
                       5e-5);
}

TEST(TrainingStep, SgdUpdatesPackedWeightsInPlace) {
  auto prepared = prepare({8, {64, 48, 10}, "Gelu"}, ConstSGD(0.1f));
  ProgramRun run(*prepared.ir, kBackends, 2);
  const executable::Executable &e = run.executable();
  for (const auto &f : e.fallbacks) ADD_FAILURE() << f.op << ": " << f.reason;
  for (const auto &s : e.main.steps) EXPECT_NE(s.kind, executable::Step::Kind::Copy) << s.name;
  for (const auto &v : e.variables)
    if (v.id == "w0" || v.id == "w1") {
      EXPECT_TRUE(cpu::asMatrixPanels(v.layout)) << v.id;
    }
  EXPECT_LE(e.main.steps.size(), 14u) << e.loweredText;
}

int countKernels(const ProgramRun &run, const std::string &part) {
  int count = 0;
  for (const auto &s : run.executable().main.steps)
    count += s.kernel && s.kernel->name().find(part) != std::string::npos;
  return count;
}

// Each weight takes its step inside the product that makes its gradient. Where the gradient is kept in a variable as
// well, the two stay apart: weights and optimizer state must be the same bits.
void expectFusedUpdates(const Mlp &net, const Optimizer &optimizer, const std::string &name) {
  const int layers = static_cast<int>(net.sizes.size()) - 1;
  auto together = prepare(net, optimizer), apart = prepare(net, optimizer);
  test::GraphBuilder b(apart.ir->getMainGraph());
  for (int i = 0; i < layers; ++i) {
    const TensorId id = "Gradient___w" + std::to_string(i);
    const TensorInfo &info = b.graph().getTensor(id)->info;
    const auto kept = b.variable("kept" + id, info.shape(), std::vector<float>(static_cast<size_t>(info.nelms())));
    b.op("CopyVarUpdate", {kept, b.graph().getTensor(id)->index()}, "copy" + id);
  }
  ProgramRun fused(*together.ir, kBackends, 2), separate(*apart.ir, kBackends, 2);
  EXPECT_EQ(countKernels(fused, "update"), layers) << name << fused.executable().loweredText;
  EXPECT_EQ(countKernels(separate, "update"), 0) << name;
  for (const auto &s : fused.executable().main.steps) EXPECT_NE(s.kind, executable::Step::Kind::Copy) << s.name;
  for (ProgramRun *run : {&fused, &separate}) feed(*run, net);
  for (int step = 0; step < 4; ++step) {
    for (ProgramRun *run : {&fused, &separate}) run->run();
    for (const auto &v : fused.executable().variables) {
      if (v.info.dataType() != DataType::FLOAT) continue;
      ASSERT_EQ(fused.variable(v.id), separate.variable(v.id)) << name << ": " << v.id << " at step " << step;
    }
  }
}

TEST(TrainingStep, UpdatesJoinTheWeightGradients) {
  const std::map<std::string, std::pair<float, bool>> sgd{
      {"defaultLearningRate", {0.1f, false}}, {"defaultMomentum", {0.9f, true}}, {"defaultWeightDecay", {0.02f, true}}};
  const std::map<std::string, std::pair<float, bool>> adam{
      {"defaultLearningRate", {0.01f, false}}, {"defaultWeightDecay", {0.1f, true}}, {"defaultEps", {1e-3f, true}}};
  // Batches above and below what the outer-product kernel takes; columns that fill panels, or do not.
  for (const Mlp &net : {kSmall, Mlp{8, {64, 96, 32}, "Relu"}, Mlp{100, {37, 70, 10}, "Relu"}}) {
    expectFusedUpdates(net, ConstSGD(0.1f), "sgd");
    for (auto kind : {SGDAccumulatorAndMomentum::Combined, SGDAccumulatorAndMomentum::Separate})
      expectFusedUpdates(net, SGD(sgd, {}, kind), "momentum");
    for (auto mode : {AdamMode::Adam, AdamMode::AdamNoBias, AdamMode::AdaMax})
      for (auto decay : {WeightDecayMode::Decay, WeightDecayMode::L2Regularization})
        expectFusedUpdates(net, Adam(adam, mode, decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT), "adam");
  }
}

// Kernels and copies, those of a loop with its depth. Not their order: a plain program writes variables at its end.
void describe(const executable::Program &program, const std::string &depth, std::multiset<std::string> &text) {
  using executable::Step;
  for (const Step &s : program.steps) {
    if (s.kind == Step::Kind::Loop) {
      if (!s.initial.empty() || !s.carried.empty()) text.insert(depth + "copies of " + s.name);
      describe(*s.programs[0], depth + ">", text);
    } else {
      text.insert(depth + (s.kernel ? s.kernel->name() : s.kind == Step::Kind::Copy ? "copy" : s.name));
    }
  }
}

// Convolutions with packed weights, a statistic that training keeps, a product.
std::unique_ptr<Ir> buildConvolutions() {
  auto ir = std::make_unique<Ir>();
  test::GraphBuilder b(ir->getMainGraph());
  const auto x = b.stream("x", DataType::FLOAT, {2, 16, 8, 8});
  const auto labels = b.stream("labels", DataType::INT32, {2});
  const std::vector<int64_t> pads{1, 1, 1, 1};
  auto h = b.op("Conv", {x, b.variable("k0", {16, 16, 3, 3}, numbers(16 * 16 * 9, 3))}, "c0", {{"pads", pads}});
  h = b.op("Relu", {h}, "r0");
  h = b.op("Conv", {h, b.variable("k1", {16, 16, 3, 3}, numbers(16 * 16 * 9, 4))}, "c1", {{"pads", pads}});
  h = b.op("Relu", {h}, "r1");
  h = b.op("Reshape", {h}, "flat", {{"shape", std::vector<int64_t>{2, 16 * 64}}});
  h = b.op("MatMul", {h, b.variable("w", {16 * 64, 10}, numbers(16 * 64 * 10, 5))}, "p");
  b.op("Nll", {b.op("Softmax", {h}, "probs", {{"axis", int64_t{1}}}), labels}, "loss");
  return ir;
}

// A step of four batches is a loop over the step of one batch: the same kernels on the variables themselves, in the
// same layouts and memory, without a copy, and the same bits as four steps.
void expectSameStepInLoop(const std::function<std::unique_ptr<Ir>()> &model, const Optimizer &optimizer,
                          int64_t microBatches) {
  constexpr int64_t kBatches = 4, kLoopScalars = 3 * 64;
  auto one = prepare(model(), optimizer, {1, microBatches}),
       four = prepare(model(), optimizer, {kBatches, microBatches});
  ProgramRun single(*one.ir, kBackends, 2), looped(*four.ir, kBackends, 2);
  const executable::Executable &a = single.executable(), &b = looped.executable();
  SCOPED_TRACE(b.loweredText);
  ASSERT_EQ(b.main.steps.size(), 1u);
  std::multiset<std::string> expected, found;
  describe(a.main, ">", expected);
  describe(b.main, "", found);
  EXPECT_EQ(found, expected);
  for (const std::string &step : expected) EXPECT_EQ(step.find("cop"), std::string::npos) << step;
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (size_t i = 0; i < a.variables.size(); ++i) EXPECT_EQ(a.variables[i].layout, b.variables[i].layout);
  EXPECT_LE(b.memory.arenaBytes, a.memory.arenaBytes + kLoopScalars);
  EXPECT_LE(b.memory.constantBytes, a.memory.constantBytes + 16);
  for (ProgramRun *run : {&single, &looped}) {
    for (const auto &input : a.inputs) {
      if (input.info.dataType() == DataType::FLOAT) run->feed(input.id, numbers(input.info.nelms(), 9));
      if (input.info.dataType() == DataType::INT32)
        run->feed(input.id, std::vector<int32_t>(static_cast<size_t>(input.info.nelms()), 1));
    }
    for (int64_t i = 0; i < (run == &single ? kBatches : 1); ++i) run->run();
  }
  EXPECT_EQ(single.anchor("loss"), looped.anchor("loss"));
  for (const auto &v : a.variables)
    if (v.info.dataType() == DataType::FLOAT) {
      EXPECT_EQ(single.variable(v.id), looped.variable(v.id)) << v.id;
    }
}

TEST(TrainingStep, BatchesOfAStepAreALoopOverTheSameKernels) {
  const SGD momentum({{"defaultLearningRate", {0.1f, false}}, {"defaultMomentum", {0.9f, true}}});
  const Adam adam({{"defaultLearningRate", {0.01f, false}}, {"defaultEps", {1e-3f, true}}}, AdamMode::Adam,
                  WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT);
  for (const Optimizer *optimizer : std::initializer_list<const Optimizer *>{&momentum, &adam})
    for (const int64_t microBatches : {1, 2}) {
      expectSameStepInLoop([] { return build(kSmall); }, *optimizer, microBatches);
      expectSameStepInLoop(buildConvolutions, *optimizer, microBatches);
    }
  expectSameStepInLoop([] { return build(kSmall); }, ConstSGD(0.1f), 1);
}

// The accumulator of gradients has the layout of the weight, and is cleared in place.
TEST(TrainingStep, AccumulatorsLieLikeTheirWeights) {
  const auto dense = prepare({8, {64, 48, 10}, "Gelu"}, ConstSGD(0.1f), {1, 4}),
             spatial = prepare(buildConvolutions(), ConstSGD(0.1f), {1, 4});
  for (const pipeline::Prepared *prepared : {&dense, &spatial}) {
    ProgramRun run(*prepared->ir, kBackends, 2);
    const executable::Executable &e = run.executable();
    std::map<std::string, const executable::Layout *> layouts;
    for (const auto &v : e.variables) layouts[v.id] = v.layout;
    for (const std::string id : {"w0", "w1", "w", "k0", "k1"})
      if (layouts.count(id)) {
        EXPECT_EQ(layouts.at("Accum___" + id), layouts.at(id));
        EXPECT_NE(layouts.at(id), nullptr) << id;
      }
    std::multiset<std::string> steps;
    describe(e.main, "", steps);
    for (const std::string &step : steps) {
      EXPECT_EQ(step.find("cop"), std::string::npos) << step;
      EXPECT_EQ(step.find("reorder plain to packed"), std::string::npos) << step;
    }
  }
}

// Set POPART_TIME_STEPS to see the time of the tutorial's step.
TEST(TrainingStep, TutorialStepTime) {
  const char *asked = std::getenv("POPART_TIME_STEPS");
  if (!asked) GTEST_SKIP() << "a measurement; set POPART_TIME_STEPS=<steps> to run it";
  const Mlp net{8, {784, 512, 512, 512, 10}, "Gelu"};
  auto prepared = prepare(net, ConstSGD(0.01f));
  for (int threads : {1, 2}) {
    ProgramRun run(*prepared.ir, kBackends, threads);
    feed(run, net);
    double best = 1e9;
    for (int i = 0; i < std::atoi(asked); ++i) {
      const auto start = std::chrono::steady_clock::now();
      run.run();
      best =
          std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%d threads: best %.1f us, %zu steps, loss %g\n", threads, best, run.executable().main.steps.size(),
                static_cast<double>(run.anchor("loss")[0]));
    if (threads == 2)
      for (const auto &s : run.executable().main.steps)
        std::printf("  %s: %s\n", s.name.c_str(), s.kernel ? s.kernel->name().c_str() : "-");
  }
}

}  // namespace
}  // namespace popart
