// The public Builder: a model made through typed operator methods trains and runs; attributes, scopes and queries.
#include <popart/builder.hpp>

#include <gtest/gtest.h>

#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/graphtransformer.hpp>
#include <popart/ir.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/numerics.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>

#include "../support/message_of.hpp"

namespace popart {
namespace {

ConstVoidData value(const std::vector<float> &values, const Shape &shape) {
  return {values.data(), TensorInfo(DataType::FLOAT, shape)};
}

using test::messageOf;

TEST(Builder, models_of_typed_methods_run) {
  auto builder = Builder::create();
  auto aiOnnx = builder->aiOnnxOpset10();
  const std::vector<float> weights = {1, 2, 3, 4};
  const TensorId x = builder->addInputTensor("FLOAT", {1, 2}, "x");
  const TensorId w = builder->addInitializedInputTensor(value(weights, {2, 2}), "w");
  const TensorId y = aiOnnx.relu({aiOnnx.gemm({x, w, builder->reshape_const(aiOnnx, {x}, {1, 2})}, 1.0f, 0.0f)});
  (void)y;
  const TensorId out = builder->aiGraphcoreOpset1().scale({aiOnnx.matmul({x, w})}, 0.5f);
  builder->addOutputTensor(out);
  EXPECT_EQ(builder->getTensorShape(out), (Shape{1, 2}));
  auto session =
      InferenceSession::createFromOnnxModel(builder->getModelProto(), DataFlow(1, {{out, AnchorReturnType("All")}}),
                                            DeviceManager::createDeviceManager().createCpuDevice());
  session->prepareDevice();
  std::vector<float> in = {1, -1}, result(2);
  NDArrayWrapper<float> inWrapper(in.data(), TensorInfo(DataType::FLOAT, {1, 2})),
      outWrapper(result.data(), TensorInfo(DataType::FLOAT, {1, 2}));
  StepIO io({{x, inWrapper}}, {{out, outWrapper}});
  session->run(io);
  EXPECT_EQ(result, (std::vector<float>{-1.0f, -1.0f}));
}

TEST(Builder, packed_sequences_run_through_a_subgraph) {
  auto builder = Builder::create();
  const TensorId data = builder->addInputTensor("FLOAT", {5}, "data");
  const auto list = [&](const char *name) { return builder->addInputTensor("UINT32", {3}, name); };
  const TensorId from = list("from"), to = list("to"), lengths = list("lengths");
  Builder &callback = builder->createSubgraphBuilder();
  const TensorId padded = callback.addInputTensor("FLOAT", {2, 3});
  callback.addOutputTensor(callback.aiOnnxOpset10().neg({padded}));
  const TensorId out =
      builder->aiGraphcoreOpset1().packedDataBlock({data, from, lengths, to, lengths}, {3}, 7, 2, callback);
  builder->addOutputTensor(out);
  EXPECT_EQ(builder->getTensorShape(out), (Shape{7}));
  auto session =
      InferenceSession::createFromOnnxModel(builder->getModelProto(), DataFlow(1, {{out, AnchorReturnType("All")}}),
                                            DeviceManager::createDeviceManager().createCpuDevice());
  session->prepareDevice();
  std::vector<float> values = {1, 2, 3, 4, 5}, result(7);
  std::vector<uint32_t> begins = {3, 0, 2}, counts = {2, 2, 1}, places = {0, 4, 6};
  const TensorInfo three(DataType::UINT32, {3});
  NDArrayWrapper<float> in(values.data(), TensorInfo(DataType::FLOAT, {5})),
      got(result.data(), TensorInfo(DataType::FLOAT, {7}));
  NDArrayWrapper<uint32_t> fromWrapper(begins.data(), three), countWrapper(counts.data(), three),
      toWrapper(places.data(), three);
  StepIO io({{data, in}, {from, fromWrapper}, {lengths, countWrapper}, {to, toWrapper}}, {{out, got}});
  session->run(io);
  EXPECT_EQ(result, (std::vector<float>{-4, -5, 0, 0, -1, -2, -3}));
}

TEST(Builder, settings_of_weights_reach_the_program_and_stay_in_the_model) {
  const VariableSettings settings(CommGroup(CommGroupType::Consecutive, 2), VariableRetrievalMode::AllReplicas);
  const VariableSettings strided(2, 4, VariableRetrievalMode::AllReduceReplicas);
  const std::vector<float> weights = {1, 2, 3, 4};
  auto builder = Builder::create();
  const TensorId x =
      builder->addInputTensor("FLOAT", {1, 2}, InputSettings(TileSet::IO, ExchangeStrategy::JustInTime), "x");
  const TensorId w = builder->addInitializedInputTensor(value(weights, {2, 2}), settings, "w");
  const TensorId v = builder->addInitializedInputTensor(value(weights, {2, 2}), strided, "v");
  const TensorId u = builder->addInitializedInputTensor(value(weights, {2, 2}), VariableSettings(), "u");
  auto aiOnnx = builder->aiOnnxOpset10();
  const TensorId y = aiOnnx.matmul({aiOnnx.matmul({aiOnnx.matmul({x, w}), v}), u});
  const auto settingsOf = [&](const std::string &model) {
    SessionOptions options;
    options.constantWeights = false;
    const auto session =
        InferenceSession::createFromOnnxModel(model, DataFlow(1, {{y, AnchorReturnType("All")}}),
                                              DeviceManager::createDeviceManager().createCpuDevice(), {}, options);
    std::vector<VariableSettings> found;
    for (const TensorId &id : {w, v, u})
      found.push_back(session->getIr().getMainGraph().getTensor(id)->variableSettings);
    return found;
  };
  EXPECT_EQ(settingsOf(builder->getModelProto()), (std::vector<VariableSettings>{settings, strided, {}}));
}

TEST(Builder, attributes_reach_the_node_and_come_back) {
  auto builder = Builder::create();
  auto aiOnnx = builder->aiOnnxOpset11();
  const TensorId x = builder->addInputTensor(TensorInfo(DataType::FLOAT, {1, 2, 8, 8}));
  const TensorId w = builder->addInitializedInputTensor(value(std::vector<float>(36, 1.0f), {2, 2, 3, 3}));
  builder->setAttribute("__pipeline_stage", int64_t{3});
  EXPECT_EQ(builder->getPipelineStage(), 3);
  const TensorId y = aiOnnx.conv({x, w}, {1, 1}, 1, {}, {1, 1, 1, 1});
  builder->clearAttribute("__pipeline_stage");
  EXPECT_FALSE(builder->hasAttribute("__pipeline_stage"));
  EXPECT_EQ(builder->getInt64NodeAttribute("__pipeline_stage", {y}), 3);
  EXPECT_EQ(builder->getInt64VectorNodeAttribute("pads", {y}), (std::vector<int64_t>{1, 1, 1, 1}));
  builder->virtualGraph(y, 2);
  EXPECT_EQ(builder->getInt64NodeAttribute("__ipu_number", {y}), 2);
  builder->setPartialsType(y, "HALF");
  EXPECT_EQ(builder->getPartialsType(y), "HALF");
  builder->addNodeAttribute("note", std::string("text"), {y});
  EXPECT_EQ(builder->getStringNodeAttribute("note", {y}), "text");
  EXPECT_NE(messageOf([&] { builder->getInt64NodeAttribute("note", {y}); }).find("expected int64_t"),
            std::string::npos);
  EXPECT_NE(messageOf([&] { builder->addNodeAttribute("bad", std::set<int>(), {y}); }).find("not supported"),
            std::string::npos);
  EXPECT_NE(messageOf([&] { builder->setPartialsType(aiOnnx.relu({y}), "HALF"); }).find("wrong operator"),
            std::string::npos);
}

TEST(Builder, opset_methods_follow_the_version) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor(TensorInfo(DataType::FLOAT, {2, 3}));
  EXPECT_EQ(builder->aiOnnxOpset9().getOpsetVersion(), 9);
  const TensorId clipped = builder->aiOnnxOpset9().clip({x}, 1.0f, -1.0f);
  EXPECT_EQ(builder->getFloatNodeAttribute("max", {clipped}), 1.0f);
  EXPECT_EQ(builder->getTensorDataType(builder->aiOnnxOpset9().cast({x}, "FLOAT16")), DataType::FLOAT16);
  EXPECT_NE(messageOf([&] { builder->aiOnnxOpset11().relu({x}); }).find("9"), std::string::npos);
}

TEST(Builder, custom_operators_and_subgraphs) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor(TensorInfo(DataType::FLOAT, {2}), "x");
  const auto outs = builder->customOp({"my.domain", "Cube", 1}, 1, {x}, 1,
                                      {{"alpha", 0.5f}, {"axes", std::vector<int64_t>{1}}, {"on", true}}, "cube");
  EXPECT_EQ(builder->getFloatNodeAttribute("alpha", {outs[0]}), 0.5f);
  EXPECT_TRUE(builder->getBoolNodeAttribute("on", {outs[0]}));
  Builder &body = builder->createSubgraphBuilder();
  EXPECT_EQ(body.getParent(), builder.get());
  body.addInputTensorFromParentGraph(x);
  body.addOutputTensor(body.aiOnnxOpset10().neg({x}));
  EXPECT_NE(builder->getModelProto(true).find("Cube"), std::string::npos);
  auto again = Builder::createFromOnnxModel(builder->getModelProto());
  EXPECT_EQ(again->getInputTensorIds(), std::vector<TensorId>{"x"});
}

TEST(Builder, parents_and_shared_weights) {
  auto builder = Builder::create(), other = Builder::create();
  EXPECT_EQ(builder->getParent(), nullptr);
  EXPECT_TRUE(builder->hasParent());  // compat: the other way round
  builder->setParent(other.get());
  EXPECT_EQ(builder->getParent(), other.get());
  EXPECT_FALSE(builder->hasParent());
  const std::vector<float> values{1, 2};
  const VariableSettings settings(VariableRetrievalMode::AllReplicas);
  const TensorId w = builder->addInitializedInputTensor(value(values, {2}), settings, "w");
  EXPECT_TRUE(builder->isInitializer(w));
  EXPECT_EQ(builder->getTensorShape(w), Shape{2});
}

TEST(GraphTransformer, changes_element_types_of_a_model) {
  auto builder = Builder::create();
  const std::vector<float> values{1, 2};
  const TensorId w = builder->addInitializedInputTensor(value(values, {2}), "w");
  builder->addOutputTensor(builder->aiOnnxOpset10().neg({w}));
  GraphTransformer transformer(builder->getModelProto());
  transformer.convertFloatsToHalfs();
  auto changed = Builder::createFromOnnxModel(transformer.getModelProto());
  EXPECT_EQ(changed->getTensorDataType(w), DataType::FLOAT16);
  const NumericsReport report(builder->getModelProto(), builder->getModelProto(), builder->getModelProto(),
                              builder->getModelProto());
  EXPECT_EQ(report.getRelativeErrors().at(w), 0.0f);
}

}  // namespace
}  // namespace popart
