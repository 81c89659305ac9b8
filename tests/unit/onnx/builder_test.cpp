// ModelBuilder: names, shapes, operator sets, attributes, and models that read back.
#include "onnx/builder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include <popart/error.hpp>

#include "../support/message_of.hpp"
#include "../support/temporary_folder.hpp"
#include "onnx/writer.hpp"

namespace popart::onnx {
namespace {

const TensorInfo kImage(DataType::FLOAT, {2, 3, 8, 8});

TensorData zeros(Shape shape, DataType type = DataType::FLOAT) {
  return TensorData(TensorInfo(type, std::move(shape)));
}

using test::messageOf;

TEST(ModelBuilder, names_follow_type_index_and_scope) {
  ModelBuilder b;
  EXPECT_EQ(b.addInputTensor(kImage), "input");
  EXPECT_EQ(b.addInputTensor(kImage), "input/1");
  EXPECT_EQ(b.addInitializedInputTensor(zeros({4})), "init_input");
  b.pushNameScope("block");
  EXPECT_EQ(b.addNode("ai.onnx", 10, "Relu", {"input"}, 1).front(), "block/Relu:0");
  EXPECT_EQ(b.addNode("ai.onnx", 10, "Relu", {"input"}, 1).front(), "block/Relu:0/1");
  EXPECT_EQ(b.getNameScope("x"), "block/x");
  b.popNameScope();
  EXPECT_EQ(b.addNode("ai.onnx", 10, "Relu", {"input"}, 1).front(), "Relu:0");
}

TEST(ModelBuilder, shapes_come_from_the_operator_rows) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(TensorInfo(DataType::FLOAT, {2, 3, 4}));
  const TensorId shape = b.addNode("ai.onnx", 10, "Constant", {}, 1,
                                   {{"value", TensorData::of<int64_t>({2}, std::vector<int64_t>{-1, 4})}})
                             .front();
  const TensorId y = b.addNode("ai.onnx", 10, "Reshape", {x, shape}, 1).front();
  EXPECT_EQ(b.getTensorInfo(y), TensorInfo(DataType::FLOAT, {6, 4}));
  EXPECT_NE(messageOf([&] { b.getTensorInfo("nothing"); }).find("Known tensors"), std::string::npos);
}

TEST(ModelBuilder, empty_lists_mean_the_default) {
  ModelBuilder b;
  const std::vector<int64_t> none;
  const TensorId x = b.addInputTensor(TensorInfo(DataType::FLOAT, {1, 3, 4}));
  const TensorId y = b.addNode("ai.onnx", 10, "Transpose", {x}, 1, {{"perm", none}}).front();
  EXPECT_EQ(b.getTensorInfo(y).shape(), (Shape{4, 3, 1}));
  EXPECT_EQ(b.getTensorInfo(b.addNode("ai.onnx", 10, "Squeeze", {x}, 1, {{"axes", none}}).front()).shape(),
            (Shape{3, 4}));
}

TEST(ModelBuilder, refuses_unknown_inputs_and_wrong_counts) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(kImage);
  EXPECT_NE(messageOf([&] { b.addNode("ai.onnx", 10, "Relu", {"y"}, 1); }).find("does not exist"), std::string::npos);
  EXPECT_NE(messageOf([&] {
              b.addNode("ai.onnx", 10, "Relu", {x, x}, 1);
            }).find("wrong number of inputs"),
            std::string::npos);
  EXPECT_NE(messageOf([&] { b.addNode("ai.onnx", 10, "Relu", {x}, 2); }).find("too many outputs"), std::string::npos);
}

TEST(ModelBuilder, one_version_per_domain) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(kImage);
  b.addNode("ai.onnx", 9, "Relu", {x}, 1);
  EXPECT_NE(messageOf([&] { b.addNode("ai.onnx", 10, "Relu", {x}, 1); }).find("defined already"), std::string::npos);
  EXPECT_EQ(Model::parse(b.getModelProto()).opsets().at("ai.onnx"), 9);
}

TEST(ModelBuilder, node_attributes_need_all_outputs_and_are_added_once) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(kImage);
  const auto parts = b.addNode("ai.onnx", 10, "Split", {x}, 2, {{"axis", int64_t{0}}});
  EXPECT_NE(messageOf([&] { b.addNodeAttribute("__ipu_number", int64_t{1}, {parts[0]}); }).find("all outputs"),
            std::string::npos);
  b.addNodeAttribute("__ipu_number", int64_t{1}, {parts[0], parts[1]});
  EXPECT_NE(messageOf([&] {
              b.addNodeAttribute("__ipu_number", int64_t{2}, {parts[0], parts[1]});
            }).find("already"),
            std::string::npos);
  EXPECT_EQ(std::get<int64_t>(b.getNodeAttribute("__ipu_number", {parts[0], parts[1]})), 1);
  b.removeNodeAttribute("__ipu_number", {parts[0], parts[1]});
  EXPECT_FALSE(b.nodeHasAttribute("__ipu_number", {parts[0], parts[1]}));
}

TEST(ModelBuilder, scope_attributes_become_settings_of_the_op) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(kImage);
  b.setScopeAttribute("__ipu_number", int64_t{3});
  const TensorId y = b.addNode("ai.onnx", 10, "Relu", {x}, 1, {}, "act").front();
  b.addOutputTensor(y);
  Ir ir;
  buildGraph(Model::parse(b.getModelProto()), {}, ir);
  const Op *op = ir.getMainGraph().getTensor(y)->getProducer();
  EXPECT_EQ(op->settings.vgraphId, std::optional<VGraphId>(3));
  EXPECT_EQ(op->name(), "act");
}

TEST(ModelBuilder, external_initializers_read_back_and_values_can_be_replaced) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path &folder = temporary.path();
  ModelBuilder b;
  const TensorId x = b.addInputTensor(TensorInfo(DataType::FLOAT, {2}));
  const std::vector<float> values = {1.5f, -2.0f};
  const TensorId w = b.addInitializedInputTensor(TensorData::of<float>({2}, values));
  b.addOutputTensor(b.addNode("ai.onnx", 10, "Add", {x, w}, 1).front());
  b.saveInitializersExternally({w}, (folder / "w.bin").string());
  EXPECT_NE(
      messageOf([&] { b.saveInitializersExternally({w}, (folder / "w.bin").string()); }).find("externally already"),
      std::string::npos);
  const Model model = Model::parse(b.getModelProto());
  EXPECT_EQ(Initializers(model).value(w), TensorData::of<float>({2}, values));
  const std::vector<float> updated = {3.0f, 4.0f};
  const TensorData state = TensorData::scalar(0.5f);
  const std::string path = (folder / "m.onnx").string();
  std::map<TensorId, DataPlace> places;
  writeModel(path, model, {{w, TensorData::of<float>({2}, updated)}, {"Accl___w", state}}, places);
  const Model changed = Model::load(path);
  EXPECT_EQ(Initializers(changed).value(w), TensorData::of<float>({2}, updated));
  EXPECT_EQ(Initializers(changed).value("Accl___w"), state);
  EXPECT_EQ(changed.inputIds(), std::vector<TensorId>{x});
  EXPECT_NE(messageOf([&] {
              writeModel(path, model, {{w, zeros({3})}}, places);
            }).find("differs from the model"),
            std::string::npos);
}

TEST(ModelBuilder, subgraph_builders_see_parents_and_share_names) {
  ModelBuilder b;
  const TensorId x = b.addInputTensor(TensorInfo(DataType::FLOAT, {2}));
  ModelBuilder &body = b.createSubgraphBuilder();
  EXPECT_EQ(body.addInputTensor(TensorInfo(DataType::FLOAT, {2})), "input/1");
  const TensorId y = body.addNode("ai.onnx", 10, "Add", {"input/1", x}, 1).front();
  EXPECT_EQ(body.getTensorInfo(y).shape(), Shape{2});
  EXPECT_TRUE(body.hasTensor(x));
  EXPECT_FALSE(b.hasTensor(y));
  EXPECT_NE(messageOf([&] { b.addUntypedInputTensor(); }).find("subgraph only"), std::string::npos);
}

}  // namespace
}  // namespace popart::onnx
