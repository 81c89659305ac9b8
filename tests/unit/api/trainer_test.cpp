// Trainer over spans: accumulation, replicas, evaluation with the weights at hand, epochs; optimizers of popart::optim.
#include <gtest/gtest.h>

#include <cmath>

#include <popart/builder.hpp>
#include <popart/optim.hpp>
#include <popart/simple_session.hpp>

#include "../support/message_of.hpp"

namespace popart {
namespace {

// loss = mean((x w - y)²) over `rows` rows of two numbers.
std::string squares(int64_t rows) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {rows, 2}, "x");
  const TensorId y = builder->addInputTensor("FLOAT", {rows, 1}, "y");
  const std::vector<float> zeros{0.0f, 0.0f};
  const TensorId w =
      builder->addInitializedInputTensor(ConstVoidData(zeros.data(), TensorInfo(DataType::FLOAT, {2, 1})), "w");
  auto ops = builder->aiOnnxOpset10();
  const TensorId error = ops.sub({ops.matmul({x, w}), y});
  const TensorId loss = ops.reducemean({ops.mul({error, error})}, std::vector<int64_t>{0, 1}, 0, {"loss"});
  builder->addOutputTensor(loss);
  return builder->getModelProto();
}

const std::vector<float> kX{1, 0, 0, 1, 1, 1, 2, -1}, kY{1, 2, 3, -1};

std::vector<float> weightsOf(Trainer &trainer) {
  std::vector<float> w(2);
  WeightsIO io;
  io.insert("w", MutableVoidData{w.data(), TensorInfo(DataType::FLOAT, {2, 1})});
  trainer.session().weightsToHost();
  trainer.session().readWeights(io);
  return w;
}

TensorId lossOf(const std::string &model) { return Builder::createFromOnnxModel(model)->getOutputTensorIds().at(0); }

// w := w - lr 2/4 xᵀ (x w - y), from w = 0.
std::vector<float> stepped(float lr) {
  std::vector<float> w(2);
  for (size_t row = 0; row < 4; ++row)
    for (size_t i = 0; i < 2; ++i) w[i] += lr * 0.5f * kX[2 * row + i] * kY[row];
  return w;
}

TEST(Trainer, MicroBatchesAndReplicasAreOneBatch) {
  for (const auto &[accumulation, replicas] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
    const std::string model = squares(4 / accumulation / replicas);
    TrainingSpec spec{.loss = modelLoss(lossOf(model)), .accumulation = accumulation, .replicas = replicas};
    Trainer trainer(model, spec, optim::SGD({.lr = 0.1f}));
    EXPECT_FLOAT_EQ(trainer.step({{"x", kX}, {"y", kY}}), 15.0f / 4) << accumulation << ' ' << replicas;
    const std::vector<float> w = weightsOf(trainer), expected = stepped(0.1f);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(w[i], expected[i], 1e-6) << accumulation << ' ' << replicas;
  }
}

// softmax of x w over two classes: with w = 0 every label has probability 1/2.
TEST(Trainer, AddsALossByItsName) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {4, 2}, "x");
  const std::vector<float> zeros(4, 0.0f);
  const TensorId w =
      builder->addInitializedInputTensor(ConstVoidData(zeros.data(), TensorInfo(DataType::FLOAT, {2, 2})), "w");
  builder->addOutputTensor(builder->aiOnnxOpset10().matmul({x, w}));
  const std::vector<int32_t> labels{0, 1, 1, 0};
  Trainer trainer(builder->getModelProto(), {.loss = namedLoss("cross_entropy")}, optim::SGD({.lr = 0.5f}));
  EXPECT_FLOAT_EQ(trainer.step({{"x", kX}, {"labels", labels}}), std::log(2.0f));
  const float after = trainer.evaluate({{"x", kX}, {"labels", labels}});
  EXPECT_LT(after, std::log(2.0f));
  EXPECT_FLOAT_EQ(trainer.step({{"x", kX}, {"labels", labels}}), after);
  EXPECT_NE(test::messageOf([&] {
              Trainer(builder->getModelProto(), {.loss = namedLoss("cross_entropi")}, optim::SGD());
            }).find("cross_entropy"),
            std::string::npos);
}

TEST(Trainer, EvaluationHasTheWeightsOfTraining) {
  const std::string model = squares(4);
  Trainer trainer(model, {.loss = modelLoss(lossOf(model))}, optim::SGD({.lr = 0.1f, .momentum = 0.5f}));
  for (int i = 0; i < 3; ++i) {
    const float before = trainer.evaluate({{"x", kX}, {"y", kY}});
    EXPECT_FLOAT_EQ(before, trainer.evaluate({{"x", kX}, {"y", kY}})) << "evaluation changes nothing";
    EXPECT_FLOAT_EQ(before, trainer.step({{"x", kX}, {"y", kY}}));
  }
}

TEST(Trainer, FitsEpochsUntilItIsToldToStop) {
  const std::string model = squares(4);
  const auto batches = [](int, int64_t step) -> std::optional<StepInputs> {
    if (step == 3) return std::nullopt;
    return StepInputs{{"x", kX}, {"y", kY}};
  };
  Trainer trainer(model, {.loss = modelLoss(lossOf(model))}, optim::AdamW({.lr = 0.1f}));
  const std::vector<float> means = trainer.fit(4, batches);
  ASSERT_EQ(means.size(), 4u);
  EXPECT_LT(means[3], means[0]);
  std::vector<int64_t> updates;
  const std::vector<float> rest = trainer.fit(4, batches, [&](const StepReport &report) {
    updates.push_back(report.update);
    return report.epoch != 1 || report.step != 1;
  });
  EXPECT_EQ(rest.size(), 2u);
  EXPECT_EQ(updates, (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

TEST(Trainer, GroupsHaveRatesOfTheirOwn) {
  const std::string model = squares(4);
  optim::Optimizer optimizer = optim::SGD({.lr = 0.1f, .groups = {{{"w*"}, {{"lr", 0.3f}}}}});
  Trainer trainer(model, {.loss = modelLoss(lossOf(model))}, optimizer);
  trainer.step({{"x", kX}, {"y", kY}});
  EXPECT_NEAR(weightsOf(trainer)[0], stepped(0.3f)[0], 1e-6);
  optimizer.setRateFactor(0.0f);
  trainer.setOptimizer(optimizer);
  const std::vector<float> before = weightsOf(trainer);
  trainer.step({{"x", kX}, {"y", kY}});
  EXPECT_EQ(weightsOf(trainer), before);
}

// loss = mean((x w + b - y)²) over four rows, from w = 0 and b = 1/2.
std::string affine() {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {4, 2}, "x");
  const TensorId y = builder->addInputTensor("FLOAT", {4, 1}, "y");
  const std::vector<float> zeros{0.0f, 0.0f}, half{0.5f};
  const TensorId w =
      builder->addInitializedInputTensor(ConstVoidData(zeros.data(), TensorInfo(DataType::FLOAT, {2, 1})), "w");
  const TensorId b =
      builder->addInitializedInputTensor(ConstVoidData(half.data(), TensorInfo(DataType::FLOAT, {1})), "b");
  auto ops = builder->aiOnnxOpset10();
  const TensorId error = ops.sub({ops.add({ops.matmul({x, w}), b}), y});
  builder->addOutputTensor(ops.reducemean({ops.mul({error, error})}, std::vector<int64_t>{0, 1}, 0, {"loss"}));
  return builder->getModelProto();
}

// w after one step of SGD with a rate of 0.1 on `affine`, and b where it does not train.
void expectOnlyWTrains(Trainer &trainer) {
  trainer.step({{"x", kX}, {"y", kY}});
  std::vector<float> w(2), b(1);
  for (size_t row = 0; row < 4; ++row)
    for (size_t i = 0; i < 2; ++i) w[i] += 0.05f * kX[2 * row + i] * (kY[row] - 0.5f);
  const std::vector<float> found = weightsOf(trainer);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(found[i], w[i], 1e-6);
  WeightsIO io;
  io.insert("b", MutableVoidData{b.data(), TensorInfo(DataType::FLOAT, {1})});
  trainer.session().readWeights(io);
  EXPECT_EQ(b[0], 0.5f);
  for (const TrainableTensor &t : trainer.session().trainableTensors()) EXPECT_EQ(t.trains, t.name == "w") << t.name;
  for (const TensorId &id : trainer.session().getAllTensorIds())
    EXPECT_EQ(id.find("___b"), std::string::npos) << id << ": a frozen tensor has no gradient and no state";
}

TEST(Trainer, FrozenTensorsStayAndHaveNoGradient) {
  const std::string model = affine();
  const TrainingSpec spec{.loss = modelLoss(lossOf(model))};
  TrainingSpec frozen = spec, trainable = spec, unknown = spec;
  frozen.frozen = {"b*"};
  trainable.trainable = {"w"};
  unknown.frozen = {"bias"};
  for (const TrainingSpec &named : {frozen, trainable}) {
    Trainer trainer(model, named, optim::SGD({.lr = 0.1f, .momentum = 0.9f}));
    expectOnlyWTrains(trainer);
  }
  EXPECT_NE(test::messageOf([&] { Trainer(model, unknown, optim::SGD()); }).find("'bias'"), std::string::npos);
}

TEST(Trainer, AGroupWithoutLearningRateIsFrozen) {
  const std::string model = affine();
  const auto with = [](float rate) {
    return optim::SGD({.lr = 0.1f, .momentum = 0.9f, .groups = {{{"b"}, {{"lr", rate}}}}});
  };
  Trainer trainer(model, {.loss = modelLoss(lossOf(model))}, with(0.0f));
  expectOnlyWTrains(trainer);
  EXPECT_NE(test::messageOf([&] { trainer.setOptimizer(with(0.1f)); }).find("freezes its weights"), std::string::npos);
  Trainer other(model, {.loss = modelLoss(lossOf(model))}, with(0.1f));
  EXPECT_NE(test::messageOf([&] { other.setOptimizer(with(0.0f)); }).find("freezes its weights"), std::string::npos);
}

TEST(OptimClass, RefusesWhatPyTorchRefuses) {
  const auto refused = [](auto make) { return test::messageOf([&] { make(); }); };
  EXPECT_NE(refused([] { return optim::SGD({.lr = -1}); }).find("invalid lr: got -1"), std::string::npos);
  EXPECT_NE(refused([] { return optim::SGD({.nesterov = true}); }).find("nesterov needs momentum"), std::string::npos);
  EXPECT_NE(refused([] { return optim::Adam({.beta2 = 1}); }).find("invalid beta2"), std::string::npos);
  EXPECT_NE(refused([] {
              return optim::Adamax({.groups = {{{"w"}, {{"alpha", 1}}}}});
            }).find("'alpha'"),
            std::string::npos);
  EXPECT_NE(refused([] { return optim::Adam({.gradients = {.clipNorm = 1, .clipValue = 1}}); }).find("by norm and by"),
            std::string::npos);
}

TEST(OptimClass, OnlyTheRateMayChange) {
  const optim::Optimizer adam = optim::AdamW({.lr = 0.1f});
  EXPECT_TRUE(adam.validReplacement(optim::AdamW({.lr = 0.7f})));
  EXPECT_FALSE(adam.validReplacement(optim::AdamW({.lr = 0.1f, .eps = 1e-3f})));
  EXPECT_FALSE(adam.validReplacement(optim::Adam({.lr = 0.1f, .weightDecay = 1e-2f})));
  EXPECT_EQ(adam.hash(), optim::AdamW({.lr = 0.7f}).hash());
  EXPECT_NE(adam.hash(), optim::AdamW({.lr = 0.1f, .eps = 1e-3f}).hash());
}

}  // namespace
}  // namespace popart
