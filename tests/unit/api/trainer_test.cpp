// Trainer over spans: accumulation, replicas, evaluation with the weights at hand, epochs; optimizers of popart::optim.
#include <gtest/gtest.h>

#include <cmath>

#include <popart/builder.hpp>
#include <popart/optim.hpp>
#include <popart/simple_session.hpp>

#include "../support/message_of.hpp"

namespace popart {
namespace {

enum class Join { Mean, Sum };

// loss = mean or sum of (x w - y)² over `rows` rows of two numbers.
std::string squares(int64_t rows, Join join = Join::Mean) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {rows, 2}, "x");
  const TensorId y = builder->addInputTensor("FLOAT", {rows, 1}, "y");
  const std::vector<float> zeros{0.0f, 0.0f};
  const TensorId w =
      builder->addInitializedInputTensor(ConstVoidData(zeros.data(), TensorInfo(DataType::FLOAT, {2, 1})), "w");
  auto ops = builder->aiOnnxOpset10();
  const TensorId error = ops.sub({ops.matmul({x, w}), y});
  const TensorId square = ops.mul({error, error});
  const std::vector<int64_t> axes{0, 1};
  builder->addOutputTensor(join == Join::Mean ? ops.reducemean({square}, axes, 0, {"loss"})
                                              : ops.reducesum({square}, axes, 0, {"loss"}));
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

TEST(Trainer, SumsOfMicroBatchesAndReplicasAreAdded) {
  for (const auto &[accumulation, replicas] : {std::pair{1, 1}, {4, 1}, {2, 2}}) {
    const std::string model = squares(4 / accumulation / replicas, Join::Sum);
    TrainingSpec spec{.loss = modelLoss(lossOf(model)), .accumulation = accumulation, .replicas = replicas};
    Trainer trainer(model, spec, optim::SGD({.lr = 0.025f}));
    EXPECT_FLOAT_EQ(trainer.step({{"x", kX}, {"y", kY}}), 15.0f) << accumulation << ' ' << replicas;
    const std::vector<float> found = weightsOf(trainer), expected = stepped(0.1f);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << accumulation << ' ' << replicas;
  }
}

TEST(Trainer, MicroBatchesIgnoreTheSameNumberOfLabels) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {2, 2}, "x");
  const std::vector<float> zeros(4, 0.0f);
  const TensorId w =
      builder->addInitializedInputTensor(ConstVoidData(zeros.data(), TensorInfo(DataType::FLOAT, {2, 2})), "w");
  builder->addOutputTensor(builder->aiOnnxOpset11().matmul({x, w}));
  const TrainingSpec spec{.loss = namedLoss("cross_entropy"), .accumulation = 2};
  Trainer trainer(builder->getModelProto(), spec, optim::SGD({.lr = 0.5f}));
  const std::vector<int32_t> same{0, -100, 1, -100}, different{0, -100, 1, 0};
  EXPECT_FLOAT_EQ(trainer.step({{"x", kX}, {"labels", same}}), std::log(2.0f));
  const std::string message = test::messageOf([&] { trainer.step({{"x", kX}, {"labels", different}}); });
  EXPECT_NE(message.find("'labels': micro-batches ignore different numbers of labels"), std::string::npos) << message;
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

// loss = mean((x head body - y)²), head {2, 2} the identity and body {2, 1} ones; trains both unless told otherwise.
std::string twoLayers(int64_t rows) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {rows, 2}, "x");
  const TensorId y = builder->addInputTensor("FLOAT", {rows, 1}, "y");
  const std::vector<float> identity{1, 0, 0, 1}, ones{1, 1};
  const TensorId body =
      builder->addInitializedInputTensor(ConstVoidData(identity.data(), TensorInfo(DataType::FLOAT, {2, 2})), "body");
  const TensorId head =
      builder->addInitializedInputTensor(ConstVoidData(ones.data(), TensorInfo(DataType::FLOAT, {2, 1})), "head");
  auto ops = builder->aiOnnxOpset10();
  const TensorId error = ops.sub({ops.matmul({ops.matmul({x, body}), head}), y});
  builder->addOutputTensor(ops.reducemean({ops.mul({error, error})}, std::vector<int64_t>{0, 1}, 0, {"loss"}));
  return builder->getModelProto();
}

struct TwoLayers {
  std::vector<float> body = std::vector<float>(4), head = std::vector<float>(2);
  bool operator==(const TwoLayers &) const = default;
};

TwoLayers layersOf(Trainer &trainer) {
  TwoLayers found;
  WeightsIO io;
  io.insert("body", MutableVoidData{found.body.data(), TensorInfo(DataType::FLOAT, {2, 2})});
  io.insert("head", MutableVoidData{found.head.data(), TensorInfo(DataType::FLOAT, {2, 1})});
  trainer.session().weightsToHost();
  trainer.session().readWeights(io);
  return found;
}

// Updates by gradient descent of the head, or of the body, alone.
TwoLayers descended(bool trainsHead, int updates, float lr) {
  TwoLayers w{{1, 0, 0, 1}, {1, 1}};
  for (int update = 0; update < updates; ++update) {
    TwoLayers g;
    for (size_t row = 0; row < 4; ++row) {
      const float *x = &kX[2 * row];
      float h[2];
      for (size_t i = 0; i < 2; ++i) h[i] = x[0] * w.body[i] + x[1] * w.body[2 + i];
      const float slope = 2 * (h[0] * w.head[0] + h[1] * w.head[1] - kY[row]) / 4;
      for (size_t i = 0; i < 2; ++i) {
        g.head[i] += slope * h[i];
        for (size_t k = 0; k < 2; ++k) g.body[2 * k + i] += slope * w.head[i] * x[k];
      }
    }
    for (size_t i = 0; trainsHead && i < 2; ++i) w.head[i] -= lr * g.head[i];
    for (size_t i = 0; !trainsHead && i < 4; ++i) w.body[i] -= lr * g.body[i];
  }
  return w;
}

TEST(Trainer, FrozenWeightsStayOnReplicasAndWithMicroBatches) {
  constexpr float kRate = 0.05f;
  for (const auto &[accumulation, replicas] : {std::pair{1, 1}, {2, 1}, {2, 2}})
    for (const bool trainsHead : {true, false}) {
      const std::string model = twoLayers(4 / accumulation / replicas);
      const TensorId frozen = trainsHead ? "body" : "head", other = trainsHead ? "head" : "body";
      for (const bool isSaidByOthers : {false, true}) {
        TrainingSpec spec{.loss = modelLoss(lossOf(model)), .accumulation = accumulation, .replicas = replicas};
        (isSaidByOthers ? spec.trainable : spec.frozen).push_back((isSaidByOthers ? other : frozen).substr(0, 2) + "*");
        Trainer trainer(model, spec, optim::SGD({.lr = kRate, .momentum = 0.0f}));
        for (int i = 0; i < 3; ++i) trainer.step({{"x", kX}, {"y", kY}});
        const TwoLayers found = layersOf(trainer), expected = descended(trainsHead, 3, kRate);
        for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found.body[i], expected.body[i], 1e-5) << frozen << accumulation;
        for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(found.head[i], expected.head[i], 1e-5) << frozen << accumulation;
        if (accumulation * replicas > 1) continue;  // evaluation takes one micro-batch
        const float evaluated = trainer.evaluate({{"x", kX}, {"y", kY}});
        EXPECT_FLOAT_EQ(evaluated, trainer.step({{"x", kX}, {"y", kY}}));
      }
    }
}

TEST(Trainer, FrozenWeightsHaveNoState) {
  const std::string model = twoLayers(4);
  Trainer trainer(model, {.loss = modelLoss(lossOf(model)), .frozen = {"body"}}, optim::Adam({.lr = 0.1f}));
  const auto has = [&](const TensorId &id) { return trainer.session().hasInfo(id); };
  EXPECT_TRUE(has("Accl1___head") && has("Gradient___head"));
  EXPECT_FALSE(has("Accl1___body") || has("Accl2___body") || has("Step___body") || has("Gradient___body"));
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
