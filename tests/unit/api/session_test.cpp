// Facts of a session before prepareDevice, in C++.
#include <popart/session.hpp>

#include <gtest/gtest.h>

#include <popart/builder.hpp>
#include <popart/error.hpp>

#include "../support/message_of.hpp"

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
      EXPECT_NE(text.find("\"Relu\""), std::string::npos) << text;
    EXPECT_NE(test::messageOf([&] { session->getInfo("nothing"); }).find("nothing"), std::string::npos);
    if (!prepared) session->prepareDevice();
  }
}

}  // namespace
}  // namespace popart
