// Large values of initializers are taken out of a model before it is parsed: nothing of the model changes by that, and
// files that no writer makes are read as the parser reads them.
#include "onnx/payloads.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include <popart/error.hpp>

#include "base/hash.hpp"
#include "onnx/builder.hpp"
#include "onnx/model_content.hpp"
#include "onnx/reader.hpp"
#include "onnx/writer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using namespace onnx_proto;

constexpr int64_t kElements = 20000;  // 80,000 bytes: large enough to be taken out

std::vector<float> values(float first) {
  std::vector<float> numbers(kElements);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TensorProto *addRaw(GraphProto &graph, const std::string &name, const std::vector<float> &numbers) {
  TensorProto *tensor = graph.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::FLOAT);
  tensor->add_dims(static_cast<int64_t>(numbers.size()));
  tensor->set_raw_data(numbers.data(), numbers.size() * sizeof(float));
  return tensor;
}

// y = a + small + b, where a and b are large.
onnx_proto::ModelProto model() {
  onnx_proto::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(17);
  GraphProto &graph = *m.mutable_graph();
  graph.set_name("g");
  addRaw(graph, "a", values(0));
  addRaw(graph, "small", {1.0f});
  addRaw(graph, "b", values(7))->set_doc_string("kept");
  const std::vector<std::vector<std::string>> names = {{"a", "small", "t"}, {"t", "b", "y"}};
  for (const auto &name : names) {
    NodeProto *node = graph.add_node();
    node->set_op_type("Add");
    node->add_input(name[0]), node->add_input(name[1]), node->add_output(name[2]);
  }
  graph.add_output()->set_name("y");
  m.set_producer_name("payloads_test");
  return m;
}

// What reading the bytes ends with.
std::string outcome(const std::string &bytes) {
  try {
    Ir ir;
    buildGraph(Model::parse(bytes), BuildOptions(), ir);
    return "accepted";
  } catch (const error &e) {
    return e.what();
  }
}

TEST(Payloads, large_raw_data_leave_the_message_and_nothing_else_does) {
  const std::string bytes = model().SerializeAsString();
  const StrippedModel stripped = stripPayloads(bytes);
  ASSERT_EQ(stripped.raw.size(), 2u);
  EXPECT_EQ(stripped.raw[0].first, 0);
  EXPECT_EQ(stripped.raw[1].first, 2);
  onnx_proto::ModelProto expected = model();
  for (int i : {0, 2}) expected.mutable_graph()->mutable_initializer(i)->clear_raw_data();
  onnx_proto::ModelProto parsed;
  ASSERT_TRUE(parsed.ParseFromString(stripped.message));
  EXPECT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
  const std::vector<Payload> payloads = copyPayloads(stripped.raw);
  for (size_t i = 0; i < 2; ++i) {
    const std::string raw = model().graph().initializer(stripped.raw[i].first).raw_data();
    EXPECT_EQ(std::string(static_cast<const char *>(payloads[i].bytes.data()), raw.size()), raw);
    EXPECT_EQ(payloads[i].hash, hashOfBytes(raw.data(), raw.size()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(payloads[i].bytes.data()) % 64, 0u);
  }
}

TEST(Payloads, models_hold_the_values_and_are_written_whole) {
  const Model read = Model::parse(model().SerializeAsString());
  EXPECT_EQ(read.content().payloads.size(), 2u);
  EXPECT_EQ(Initializers(read).value("b"), TensorData::of<float>({kElements}, values(7)));
  EXPECT_EQ(wholeMessage(read.content()).SerializeAsString(), model().SerializeAsString());
  EXPECT_GT(read.memory().bytes, 2 * kElements * static_cast<int64_t>(sizeof(float)));
  const auto builder = ModelBuilder::fromModel(model().SerializeAsString());
  onnx_proto::ModelProto built;
  ASSERT_TRUE(built.ParseFromString(builder->getModelProto()));
  EXPECT_EQ(built.graph().initializer(0).raw_data(), model().graph().initializer(0).raw_data());
}

TEST(Payloads, refusals_are_those_of_small_values) {
  onnx_proto::ModelProto longer = model();
  longer.mutable_graph()->mutable_initializer(0)->set_dims(0, kElements - 1);
  EXPECT_NE(outcome(longer.SerializeAsString()).find("'a': raw data does not match"), std::string::npos);
  onnx_proto::ModelProto twice = model();
  twice.mutable_graph()->mutable_initializer(2)->add_float_data(1);
  EXPECT_NE(outcome(twice.SerializeAsString()).find("'b': holds its values twice"), std::string::npos);
  onnx_proto::ModelProto segmented = model();
  segmented.mutable_graph()->mutable_initializer(0)->mutable_segment()->set_begin(0);
  EXPECT_NE(outcome(segmented.SerializeAsString()).find("segmented"), std::string::npos);
}

TEST(Payloads, unusual_messages_are_left_to_the_parser) {
  const std::string bytes = model().SerializeAsString();
  EXPECT_TRUE(stripPayloads(bytes + bytes).raw.empty());  // two main graphs, which protobuf merges
  EXPECT_TRUE(stripPayloads(bytes.substr(0, bytes.size() - 1)).raw.empty());
  EXPECT_TRUE(stripPayloads(bytes + '\x0b').raw.empty());  // a group
  onnx_proto::ModelProto small = model();
  for (int i : {0, 2}) small.mutable_graph()->mutable_initializer(i)->clear_raw_data();
  EXPECT_TRUE(stripPayloads(small.SerializeAsString()).raw.empty());
}

// Each byte outside of the values, altered: the walk agrees with the parser or leaves the model to it.
TEST(Payloads, damaged_models_are_read_as_the_parser_reads_them) {
  const std::string bytes = model().SerializeAsString();
  const StrippedModel whole = stripPayloads(bytes);
  int walked = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    bool isValue = false;
    for (const auto &entry : whole.raw)
      isValue |= at >= static_cast<size_t>(entry.second.data() - bytes.data()) &&
                 at < static_cast<size_t>(entry.second.data() - bytes.data()) + entry.second.size();
    if (isValue) continue;
    for (const char flipped : {'\x01', '\x08', '\x80'}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flipped);
      const StrippedModel stripped = stripPayloads(damaged);
      if (stripped.raw.empty()) continue;
      onnx_proto::ModelProto expected, parsed;
      const bool isModel = expected.ParseFromString(damaged);
      ASSERT_EQ(parsed.ParseFromString(stripped.message), isModel) << at;
      ++walked;
      if (!isModel) continue;
      for (const auto &[i, raw] : stripped.raw)
        parsed.mutable_graph()->mutable_initializer(i)->set_raw_data(raw.data(), raw.size());
      ASSERT_EQ(parsed.SerializeAsString(), expected.SerializeAsString()) << at;
      outcome(damaged);
    }
  }
  EXPECT_GT(walked, 100);
}

}  // namespace
}  // namespace popart::onnx
