// Losses of C++: on a Builder, by name, and the operators of the model's operator set. Values: tests/python/popart.
#include <popart/losses.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <popart/builder.hpp>
#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>

#include "../support/message_of.hpp"

namespace popart {
namespace {

using test::messageOf;

float lossOf(Builder &builder, const TensorId &loss, std::vector<float> logits, std::vector<int> labels) {
  auto session =
      InferenceSession::createFromOnnxModel(builder.getModelProto(), DataFlow(1, {{loss, AnchorReturnType("All")}}),
                                            DeviceManager::createDeviceManager().createCpuDevice());
  session->prepareDevice();
  float result = 0;
  NDArrayWrapper<float> x(logits.data(), TensorInfo(DataType::FLOAT, {2, 3}));
  NDArrayWrapper<int> y(labels.data(), TensorInfo(DataType::INT32, {2}));
  NDArrayWrapper<float> out(&result, TensorInfo(DataType::FLOAT, {}));
  StepIO io({{"logits", x}, {"labels", y}}, {{loss, out}});
  session->run(io);
  return result;
}

TEST(Losses, cross_entropy_in_old_and_new_operator_sets) {
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3, second = std::log(3.0);
  for (const int opset : {9, 17}) {
    auto builder = Builder::create();
    builder->aiOnnxOpset(opset);
    builder->addInputTensor("FLOAT", {2, 3}, "logits");
    builder->addInputTensor("INT32", {2}, "labels");
    const TensorId loss = crossEntropyLoss(*builder, "logits", "labels");
    EXPECT_EQ(builder->opset(), opset);
    EXPECT_NEAR(lossOf(*builder, loss, {1, 2, 3, 1e4, 1e4, 1e4}, {2, 0}), (first + second) / 2, 1e-5);
  }
}

TEST(Losses, by_name) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {2, 3}, "x");
  builder->addOutputTensor(builder->aiOnnx().relu({x}));
  const AttachedLoss attached = attachLoss(*builder, "cross_entropy");
  ASSERT_EQ(attached.inputs.size(), 1u);
  EXPECT_EQ(attached.inputs[0].id, "labels");
  EXPECT_EQ(attached.inputs[0].type, DataType::INT32);
  EXPECT_EQ(attached.inputs[0].shape, (std::vector<int64_t>{2}));
  for (const std::string &name : lossNames()) {
    if (name == "ctc") continue;  // of three dimensions
    EXPECT_FALSE(attachLoss(*builder, name).loss.empty()) << name;
  }
  EXPECT_NE(messageOf([&] { attachLoss(*builder, "hubber"); }).find("Nearest names: huber"), std::string::npos);
}

TEST(Losses, operators_of_the_operator_set_of_the_model) {
  auto builder = Builder::create();
  auto aiOnnx = builder->aiOnnxOpset(17);
  const TensorId x = builder->addInputTensor("FLOAT", {2, 3}, "x");
  EXPECT_EQ(builder->getTensorShape(aiOnnx.softmax({x})), (Shape{2, 3}));
  EXPECT_EQ(aiOnnx.layernormalization({x, builder->addInputTensor("FLOAT", {3})}, 1).size(), 1u);
  EXPECT_EQ(builder->aiOnnx().getOpsetVersion(), 17);
  EXPECT_NE(messageOf([&] { aiOnnx.reducesum({x}, {1}); }).find("attribute 'axes' does not exist in version 17"),
            std::string::npos);
  EXPECT_NE(messageOf([&] { builder->aiOnnxOpset(18); }).find("17 of ai.onnx is defined already"), std::string::npos);
  EXPECT_NE(messageOf([&] { builder->opset("nowhere"); }).find("no operator set of the domain 'nowhere'"),
            std::string::npos);
}

}  // namespace
}  // namespace popart
