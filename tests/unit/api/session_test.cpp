// Facts of a session before prepareDevice, in C++.
#include <popart/session.hpp>

#include <gtest/gtest.h>

#include <popart/builder.hpp>
#include <popart/error.hpp>
#include <popart/simple_session.hpp>

#include "../support/message_of.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart {
namespace {

TEST(Session, KnowsItsProgramBeforePrepareDevice) {
  auto builder = Builder::create();
  const TensorId x = builder->addInputTensor("FLOAT", {2, 3}, "x");
  const TensorId y = builder->aiOnnxOpset10().relu({x});
  builder->addOutputTensor(y);
  auto session =
      InferenceSession::createFromOnnxModel(builder->getModelProto(), DataFlow(4, {{y, AnchorReturnType("All")}}),
                                            DeviceManager::createDeviceManager().createCpuDevice());
  for (int prepared = 0; prepared < 2; ++prepared) {
    EXPECT_EQ(session->isPrepared(), prepared == 1);
    EXPECT_TRUE(session->hasInfo(x) && session->hasInfo(y) && !session->hasInfo("nothing"));
    EXPECT_EQ(session->getInfo(y), TensorInfo(DataType::FLOAT, {2, 3}));
    EXPECT_EQ(session->getAllTensorIds().count(y), 1u);
    EXPECT_EQ(session->getDataFlow().batchesPerStep(), 4);
    for (const std::string &text : {session->getSerializedGraph(), session->serializeIr(IrSerializationFormat::JSON)})
      EXPECT_NE(text.find("\"Relu"), std::string::npos) << text;
    EXPECT_NE(test::messageOf([&] { session->getInfo("nothing"); }).find("nothing"), std::string::npos);
    if (!prepared) session->prepareDevice();
  }
}

// Flat arrays say the one open dimension.
TEST(Session, PredictorRunsAtEveryLength) {
  const TensorId x = "x", y = "y";
  onnx_proto::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name("lengths");
  auto *input = model.mutable_graph()->add_input();
  input->set_name(x);
  input->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  auto *node = model.mutable_graph()->add_node();
  node->set_op_type("Relu");
  node->add_input(x);
  node->add_output(y);
  model.mutable_graph()->add_output()->set_name(y);
  SessionOptions options;
  options.engineOptions["max_shape_programs"] = "2";
  Predictor predictor(model.SerializeAsString(), {y}, options);
  EXPECT_TRUE(predictor.session().hasOpenShapes());
  EXPECT_NE(test::messageOf([&] { predictor.session().getInfo(y); }).find("setInputShapes"), std::string::npos);
  for (const size_t length : {3u, 5u, 1u, 3u}) {
    std::vector<float> values(length, -1.0f), result(length, 7.0f);
    values[0] = 2.0f;
    predictor.run({{x, values}}, {{y, result}});
    values.assign(length, 0.0f);
    values[0] = 2.0f;
    EXPECT_EQ(result, values);
    EXPECT_EQ(predictor.session().getInfo(y).shape(), Shape{static_cast<int64_t>(length)});
  }
  std::vector<float> values(6, 1.0f), result(6);
  const StepInputs matrix = {{x, InputValues(values, {2, 3})}};
  predictor.run(matrix, {{y, result}});
  EXPECT_EQ(predictor.session().getInfo(y).shape(), (Shape{2, 3}));
  EXPECT_THROW(InputValues(values, {2, 4}), error);
}

}  // namespace
}  // namespace popart
