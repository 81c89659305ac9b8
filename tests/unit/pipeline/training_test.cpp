// Training programs end to end on the reference backend: gradients against finite differences, optimizers against their
// documented formulas, and the errors of prepare.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/sgd.hpp>

#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart {
namespace {

using pipeline::Anchor;
using pipeline::PrepareRequest;
using test::numbers;
using test::ProgramRun;

constexpr int64_t kBatch = 4, kIn = 3, kHidden = 5, kClasses = 3;
const std::vector<std::string> kWeights = {"b1", "b2", "w1", "w2"};
using Values = std::map<std::string, std::vector<float>>;

Values initialWeights() {
  return {{"w1", numbers(kIn * kHidden, 1)},
          {"b1", numbers(kHidden, 2)},
          {"w2", numbers(kHidden * kClasses, 3)},
          {"b2", numbers(kClasses, 4)}};
}

// loss = nll(softmax(relu(x w1 + b1) w2 + b2), labels), mean over the batch
std::unique_ptr<Ir> classifier(const Values &weights) {
  auto ir = std::make_unique<Ir>();
  test::GraphBuilder b(ir->getMainGraph());
  auto x = b.stream("x", DataType::FLOAT, {kBatch, kIn});
  auto labels = b.stream("labels", DataType::INT32, {kBatch});
  auto w1 = b.variable("w1", {kIn, kHidden}, weights.at("w1")), b1 = b.variable("b1", {kHidden}, weights.at("b1"));
  auto w2 = b.variable("w2", {kHidden, kClasses}, weights.at("w2")),
       b2 = b.variable("b2", {kClasses}, weights.at("b2"));
  auto h = b.op("Relu", {b.op("Add", {b.op("MatMul", {x, w1}, "xw1"), b1}, "h1")}, "h");
  auto p =
      b.op("Softmax", {b.op("Add", {b.op("MatMul", {h, w2}, "hw2"), b2}, "scores")}, "probs", {{"axis", int64_t{1}}});
  b.op("Nll", {p, labels}, "loss");
  return ir;
}

void feedBatch(ProgramRun &run) {
  run.feed<float>("x", numbers(kBatch * kIn, 9));
  run.feed<int32_t>("labels", {0, 2, 1, 2});
}

double lossOf(const Values &weights) {
  PrepareRequest request;
  request.ir = classifier(weights);
  request.anchors = {{"loss"}};
  auto prepared = pipeline::prepare(std::move(request));
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  run.run();
  return run.anchor("loss")[0];
}

Values numericGradients() {
  Values result;
  for (const auto &[id, values] : initialWeights()) {
    for (size_t i = 0; i < values.size(); ++i) {
      const float step = 1e-2f;
      Values up = initialWeights(), down = initialWeights();
      up[id][i] += step;
      down[id][i] -= step;
      result[id].push_back(static_cast<float>((lossOf(up) - lossOf(down)) / (2.0 * step)));
    }
  }
  return result;
}

pipeline::Prepared prepareTraining(const Optimizer &optimizer, std::vector<Anchor> anchors = {},
                                   Patterns patterns = Patterns()) {
  PrepareRequest request;
  request.ir = classifier(initialWeights());
  request.loss = "loss";
  request.updates = optimizer.updateRules(request.options.factors);
  request.anchors = std::move(anchors);
  request.patterns = patterns;
  return pipeline::prepare(std::move(request));
}

// Gradients as the program computes them, by anchoring.
Values programGradients() {
  ConstSGD sgd(0.1f);
  std::vector<Anchor> anchors;
  for (const auto &id : kWeights) anchors.push_back({"Gradient___" + id});
  auto prepared = prepareTraining(sgd, anchors);
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  run.run();
  Values result;
  for (const auto &id : kWeights) result[id] = run.anchor("Gradient___" + id);
  return result;
}

void expectNear(const std::vector<float> &got, const std::vector<double> &want, double tolerance,
                const std::string &what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << what << " [" << i << "]";
}

// Runs `steps` steps and gives the weights before each step's gradient: expectations re-compute gradients at given
// weights.
Values gradientsAt(const Values &weights) {
  ConstSGD sgd(1.0f);
  PrepareRequest request;
  request.ir = classifier(weights);
  request.loss = "loss";
  request.updates = sgd.updateRules(request.options.factors);
  for (const auto &id : kWeights) request.anchors.push_back({"Gradient___" + id});
  auto prepared = pipeline::prepare(std::move(request));
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  run.run();
  Values result;
  for (const auto &id : kWeights) result[id] = run.anchor("Gradient___" + id);
  return result;
}

using UpdateRule = std::function<void(const std::string &id, size_t i, double g, double &w)>;

// Trains for three steps and compares every weight with `rule`, applied in double to gradients at the same weights.
void expectFollowsRule(const Optimizer &optimizer, const UpdateRule &rule, double tolerance = 1e-5) {
  auto prepared = prepareTraining(optimizer);
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  Values weights = initialWeights();
  for (int step = 0; step < 3; ++step) {
    const Values gradients = gradientsAt(weights);
    run.run();
    for (const auto &id : kWeights) {
      std::vector<double> want;
      for (size_t i = 0; i < weights[id].size(); ++i) {
        double w = weights[id][i];
        rule(id, i, gradients.at(id)[i], w);
        want.push_back(w);
      }
      weights[id] = run.variable(id);
      expectNear(weights[id], want, tolerance, id + " at step " + std::to_string(step));
    }
  }
}

TEST(Training, GradientsAgreeWithFiniteDifferences) {
  const Values numeric = numericGradients(), exact = programGradients();
  for (const auto &id : kWeights) expectNear(exact.at(id), {numeric.at(id).begin(), numeric.at(id).end()}, 2e-3, id);
}

TEST(Training, PatternsDoNotChangeResults) {
  ConstSGD sgd(0.1f);
  auto fused = prepareTraining(sgd, {{"loss"}});
  auto plain = prepareTraining(sgd, {{"loss"}}, Patterns(PatternsLevel::NoPatterns).enableRuntimeAsserts(false));
  EXPECT_EQ(test::countOps(fused.ir->getMainGraph(), "NlllWithSoftmaxGradDirect"), 1);
  EXPECT_EQ(test::countOps(fused.ir->getMainGraph(), "Sum"), 0);
  EXPECT_EQ(test::countOps(plain.ir->getMainGraph(), "NlllWithSoftmaxGradDirect"), 0);
  ProgramRun a(*fused.ir), b(*plain.ir);
  for (ProgramRun *run : {&a, &b}) {
    feedBatch(*run);
    run->run();
    run->run();
  }
  EXPECT_NEAR(a.anchor("loss")[0], b.anchor("loss")[0], 1e-6);
  for (const auto &id : kWeights) {
    const auto other = b.variable(id);
    expectNear(a.variable(id), {other.begin(), other.end()}, 1e-6, id);
  }
}

TEST(Training, Sgd0FollowsItsFormula) {
  SGD sgd({{"defaultLearningRate", {0.2f, true}},
           {"defaultWeightDecay", {0.1f, true}},
           {"defaultDampening", {0.3f, true}},
           {"lossScaling", {8.0f, true}}});
  expectFollowsRule(sgd, [](auto &, size_t, double g, double &w) { w = w * (1 - 0.2 * 0.7 * 0.1) - 0.2 * 0.7 * g; });
}

class MomentumTest : public testing::TestWithParam<std::tuple<SGDAccumulatorAndMomentum, bool>> {};

TEST_P(MomentumTest, FollowsTheNominalRule) {
  const auto [kind, nesterov] = GetParam();
  const double lr = 0.1, wd = 0.05, mm = 0.8, dm = nesterov ? 0.0 : 0.2;
  SGD sgd({{"defaultLearningRate", {0.1f, true}},
           {"defaultWeightDecay", {0.05f, true}},
           {"defaultMomentum", {0.8f, true}},
           {"defaultDampening", {static_cast<float>(dm), true}},
           {"defaultVelocityScaling", {4.0f, true}},
           {"lossScaling", {2.0f, true}},
           {"nesterov", {nesterov ? 1.0f : 0.0f, true}}},
          {}, kind);
  std::map<std::string, std::map<size_t, double>> velocity;
  expectFollowsRule(sgd, [&](const std::string &id, size_t i, double g, double &w) {
    double &v = velocity[id][i];
    const double decayed = g + wd * w;
    v = mm * v + (1 - dm) * decayed;
    w -= lr * (nesterov ? decayed + mm * v : v);
  });
}

INSTANTIATE_TEST_SUITE_P(Sgd, MomentumTest,
                         testing::Combine(testing::Values(SGDAccumulatorAndMomentum::Combined,
                                                          SGDAccumulatorAndMomentum::Separate),
                                          testing::Bool()));

class AdamTest : public testing::TestWithParam<std::tuple<AdamMode, WeightDecayMode>> {};

TEST_P(AdamTest, FollowsItsFormula) {
  const auto [mode, decay] = GetParam();
  const double lr = 0.05, wd = 0.1, b1 = 0.8, b2 = 0.9, eps = 1e-3, maxNorm = 1.5;
  Adam adam({{"defaultLearningRate", {0.05f, true}},
             {"defaultWeightDecay", {0.1f, true}},
             {"defaultBeta1", {0.8f, true}},
             {"defaultBeta2", {0.9f, true}},
             {"defaultEps", {1e-3f, true}},
             {"lossScaling", {4.0f, true}},
             {"defaultMaxWeightNorm", {1.5f, true}}},
            mode, decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT);
  auto prepared = prepareTraining(adam);
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  Values weights = initialWeights();
  std::map<std::string, std::vector<double>> m, v;
  const bool bias = mode != AdamMode::AdamNoBias && mode != AdamMode::LambNoBias;
  const bool lamb = mode == AdamMode::Lamb || mode == AdamMode::LambNoBias;
  for (int t = 1; t <= 3; ++t) {
    const Values gradients = gradientsAt(weights);
    run.run();
    for (const auto &id : kWeights) {
      const size_t n = weights[id].size();
      m[id].resize(n), v[id].resize(n);
      std::vector<double> x(n), want(n);
      double r1 = 0, r2 = 0;
      for (size_t i = 0; i < n; ++i) {
        const double w = weights[id][i];
        double g = gradients.at(id)[i];
        if (decay == WeightDecayMode::L2Regularization) g += wd * w;
        m[id][i] = b1 * m[id][i] + (1 - b1) * g;
        v[id][i] = mode == AdamMode::AdaMax ? std::max(b2 * v[id][i], std::fabs(g)) : b2 * v[id][i] + (1 - b2) * g * g;
        const double mh = bias ? m[id][i] / (1 - std::pow(b1, t)) : m[id][i];
        const double vh = bias && mode != AdamMode::AdaMax ? v[id][i] / (1 - std::pow(b2, t)) : v[id][i];
        x[i] = mode == AdamMode::AdaMax ? mh / (vh + eps) : mh / (std::sqrt(vh) + eps);
        if (decay == WeightDecayMode::Decay) x[i] += wd * w;
        r1 += w * w, r2 += x[i] * x[i];
      }
      const double ratio = lamb && r1 > 0 && r2 > 0 ? std::min(std::sqrt(r1), maxNorm) / std::sqrt(r2) : 1.0;
      for (size_t i = 0; i < n; ++i) want[i] = weights[id][i] - lr * ratio * x[i];
      weights[id] = run.variable(id);
      expectNear(weights[id], want, 2e-5, id + " at step " + std::to_string(t));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Adam, AdamTest,
                         testing::Combine(testing::Values(AdamMode::Adam, AdamMode::AdamNoBias, AdamMode::AdaMax,
                                                          AdamMode::Lamb, AdamMode::LambNoBias),
                                          testing::Values(WeightDecayMode::Decay, WeightDecayMode::L2Regularization)));

struct AdaptiveCase {
  AdaptiveMode mode;
  bool tfVariant;
  float momentum;
};
class AdaptiveTest : public testing::TestWithParam<AdaptiveCase> {};

TEST_P(AdaptiveTest, FollowsItsFormula) {
  const auto [mode, tf, momentum] = GetParam();
  const double lr = 0.05, wd = 0.1, a = 0.9, eps = 1e-2, mm = momentum;
  Adaptive optimizer({{"defaultLearningRate", {0.05f, true}},
                      {"defaultWeightDecay", {0.1f, true}},
                      {"defaultAlpha", {0.9f, true}},
                      {"defaultMomentum", {momentum, true}},
                      {"defaultEps", {1e-2f, true}},
                      {"lossScaling", {2.0f, true}}},
                     mode, WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT,
                     DataType::UNDEFINED, tf);
  std::map<std::string, std::map<size_t, std::array<double, 3>>> state;
  expectFollowsRule(
      optimizer,
      [&, mode = mode, tf = tf](const std::string &id, size_t i, double g, double &w) {
        auto [it, fresh] = state[id].try_emplace(i);
        auto &s = it->second;
        if (fresh) s = {tf ? 1.0 : 0.0, 0.0, 0.0};
        s[0] = mode == AdaptiveMode::AdaGrad ? s[0] + g * g : a * s[0] + (1 - a) * g * g;
        double x;
        if (mode == AdaptiveMode::AdaDelta) {
          x = g * std::sqrt(s[1] + eps) / std::sqrt(s[0] + eps);
          s[1] = a * s[1] + (1 - a) * x * x;
        } else {
          if (mode == AdaptiveMode::CenteredRMSProp) s[1] = a * s[1] + (1 - a) * g;
          const double square = s[0] - s[1] * s[1];
          x = tf ? g / std::sqrt(square + eps) : g / (std::sqrt(square) + eps);
        }
        if (mm > 0) {
          s[2] = mm * s[2] + (tf ? lr * x : x);
          x = s[2];
        }
        w = tf && mm > 0 ? w * (1 - wd) - x : w - lr * (x + wd * w);
      },
      2e-5);
}

INSTANTIATE_TEST_SUITE_P(Adaptive, AdaptiveTest,
                         testing::Values(AdaptiveCase{AdaptiveMode::AdaGrad, false, 0.0f},
                                         AdaptiveCase{AdaptiveMode::RMSProp, false, 0.0f},
                                         AdaptiveCase{AdaptiveMode::RMSProp, false, 0.7f},
                                         AdaptiveCase{AdaptiveMode::RMSProp, true, 0.0f},
                                         AdaptiveCase{AdaptiveMode::RMSProp, true, 0.7f},
                                         AdaptiveCase{AdaptiveMode::CenteredRMSProp, false, 0.0f},
                                         AdaptiveCase{AdaptiveMode::CenteredRMSProp, true, 0.5f},
                                         AdaptiveCase{AdaptiveMode::AdaDelta, false, 0.5f}));

TEST(Training, NonConstantScalarsAreVariablesTheSessionWrites) {
  SGD sgd({{"defaultLearningRate", {0.2f, false}}});
  auto prepared = prepareTraining(sgd);
  ASSERT_EQ(prepared.optimizerScalars.size(), 2u);
  EXPECT_EQ(prepared.optimizerScalars[0].id, "scaledLearningRate0___default___FLOAT");
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  for (const auto &s : prepared.optimizerScalars) run.write(s.id, {s.name == "scaledLearningRate0" ? 0.0f : 1.0f});
  run.run();
  EXPECT_EQ(run.variable("w1"), initialWeights()["w1"]);
}

TEST(Training, ClippingScalesTheWholeGroup) {
  const float maxNorm = 0.05f;
  SGD sgd({{"defaultLearningRate", {1.0f, true}}, {"lossScaling", {1.0f, true}}},
          {ClipNormSettings::clipAllWeights(maxNorm)});
  auto prepared = prepareTraining(sgd, {{"GlobalNorm___0"}});
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  run.run();
  double norm = 0, moved = 0;
  const Values gradients = gradientsAt(initialWeights());
  for (const auto &id : kWeights) {
    const auto before = initialWeights()[id], after = run.variable(id);
    for (size_t i = 0; i < before.size(); ++i) {
      norm += static_cast<double>(gradients.at(id)[i]) * gradients.at(id)[i];
      moved += std::pow(static_cast<double>(after[i]) - before[i], 2);
    }
  }
  EXPECT_NEAR(run.anchor("GlobalNorm___0")[0], std::sqrt(norm), 1e-5);
  EXPECT_GT(std::sqrt(norm), maxNorm);
  EXPECT_NEAR(std::sqrt(moved), maxNorm, 1e-5);
}

TEST(Training, OnlyPartOfTheGroupIsClippedWhenWeightsAreNamed) {
  SGD sgd({{"defaultLearningRate", {1.0f, true}}}, {ClipNormSettings::clipWeights({"w2"}, 1e-3f)});
  auto prepared = prepareTraining(sgd);
  ProgramRun run(*prepared.ir);
  feedBatch(run);
  run.run();
  const Values g = gradientsAt(initialWeights());
  std::vector<double> want;
  for (size_t i = 0; i < g.at("w1").size(); ++i)
    want.push_back(static_cast<double>(initialWeights()["w1"][i]) - g.at("w1")[i]);
  expectNear(run.variable("w1"), want, 1e-6, "w1 is not clipped");
  double moved = 0;
  const auto before = initialWeights()["w2"], after = run.variable("w2");
  for (size_t i = 0; i < before.size(); ++i) moved += std::pow(static_cast<double>(after[i]) - before[i], 2);
  EXPECT_NEAR(std::sqrt(moved), 1e-3, 1e-6);
}

std::string prepareError(PrepareRequest request) {
  return test::messageOf([&] { pipeline::prepare(std::move(request)); });
}

TEST(Prepare, NamesNearestTensorsForAnUnknownAnchor) {
  PrepareRequest request;
  request.ir = classifier(initialWeights());
  request.anchors = {{"prob"}};
  const std::string message = prepareError(std::move(request));
  EXPECT_NE(message.find("'prob'"), std::string::npos) << message;
  EXPECT_NE(message.find("probs"), std::string::npos) << message;
}

TEST(Prepare, RefusesALossWithSeveralElements) {
  ConstSGD sgd(0.1f);
  PrepareRequest request;
  request.ir = classifier(initialWeights());
  request.loss = "probs";
  request.updates = sgd.updateRules(request.options.factors);
  EXPECT_NE(prepareError(std::move(request)).find("must have one element"), std::string::npos);
}

TEST(Prepare, RefusesInferenceWithoutAnchors) {
  PrepareRequest request;
  request.ir = classifier(initialWeights());
  EXPECT_NE(prepareError(std::move(request)).find("no anchors"), std::string::npos);
}

TEST(Prepare, PrunesWhatNoAnchorNeeds) {
  PrepareRequest request;
  request.ir = classifier(initialWeights());
  request.anchors = {{"h"}};
  auto prepared = pipeline::prepare(std::move(request));
  EXPECT_EQ(test::countOps(prepared.ir->getMainGraph(), "Softmax"), 0);
  EXPECT_EQ(test::countOps(prepared.ir->getMainGraph(), "ReluInplace"), 1);
  EXPECT_TRUE(prepared.ir->getMainGraph().contains("w2"));
}

}  // namespace
}  // namespace popart
