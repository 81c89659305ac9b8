// What trains: values that are never parameters, patterns of the caller, names of initializers in bodies.
#include "onnx/training/trainable_tensors.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <popart/error.hpp>

#include "onnx/reader.hpp"
#include "onnx/training/tensor_values.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using namespace onnx_proto;

TensorData matrix(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)> &valueAt) {
  std::vector<double> values;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) values.push_back(valueAt(r, c));
  return TensorData::fromDoubles(TensorInfo(DataType::FLOAT, {rows, columns}), values);
}

TEST(TensorValues, masks_hold_zeros_and_ones_or_numbers_out_of_reach) {
  EXPECT_TRUE(isMask(matrix(3, 3, [](int64_t r, int64_t c) { return c <= r ? 1.0 : 0.0; })));
  EXPECT_TRUE(isMask(matrix(3, 3, [](int64_t r, int64_t c) { return c <= r ? 0.0 : -INFINITY; })));
  EXPECT_TRUE(isMask(matrix(3, 3, [](int64_t r, int64_t c) { return c <= r ? 0.0 : -1e4; })));
  EXPECT_FALSE(isMask(matrix(3, 3, [](int64_t, int64_t) { return 1.0; })));
  EXPECT_FALSE(isMask(matrix(3, 3, [](int64_t, int64_t) { return 0.0; })));
  EXPECT_FALSE(isMask(matrix(3, 3, [](int64_t r, int64_t c) { return 0.1 * static_cast<double>(r - c); })));
}

TEST(TensorValues, tables_of_sines_are_known_and_others_are_not) {
  const auto angle = [](int64_t c) { return std::pow(10.0, -static_cast<double>(c / 2)); };
  EXPECT_TRUE(isTableOfSines(matrix(32, 6, [&](int64_t r, int64_t c) {
    const double at = static_cast<double>(r) * angle(c);
    return c % 2 == 0 ? std::sin(at) : std::cos(at);
  })));
  EXPECT_FALSE(isTableOfSines(matrix(
      32, 6, [](int64_t r, int64_t c) { return std::sin(static_cast<double>(r * r) + static_cast<double>(c)); })));
  EXPECT_FALSE(isTableOfSines(matrix(32, 6, [](int64_t, int64_t) { return 0.0; })));
}

// Numbers without a pattern, as of training.
double scattered(int64_t i) { return std::sin(1e3 * static_cast<double>(i * i) + 0.7) * 1.37; }

TEST(TensorValues, whole_numbers_and_progressions_are_of_a_formula) {
  const TensorData distances = matrix(4, 4, [](int64_t r, int64_t c) { return static_cast<double>(r - c); });
  EXPECT_TRUE(isWholeNumbers(distances, 16));
  EXPECT_FALSE(isWholeNumbers(distances, 17));
  EXPECT_FALSE(isWholeNumbers(matrix(4, 4, [](int64_t, int64_t) { return 2.0; }), 4));
  EXPECT_FALSE(isWholeNumbers(matrix(4, 4, [](int64_t r, int64_t c) { return r + 4 * c == 15 ? 0.5 : 2.0; }), 4));
  const auto line = [](double (*at)(int64_t)) { return matrix(1, 6, [=](int64_t, int64_t c) { return at(c); }); };
  const TensorData even = line([](int64_t c) { return -1 + 0.4 * static_cast<double>(c); });
  const TensorData frequencies = line([](int64_t c) { return std::pow(1e4, -static_cast<double>(c) / 6); });
  EXPECT_TRUE(isProgression(even));
  EXPECT_TRUE(isProgression(frequencies));
  EXPECT_FALSE(isGeometricProgression(even));
  EXPECT_TRUE(isGeometricProgression(frequencies));
  EXPECT_FALSE(isProgression(line([](int64_t) { return 3.0; })));
  EXPECT_FALSE(isProgression(line(scattered)));
}

TEST(TensorValues, numbers_of_a_grid_repeat_and_trained_ones_do_not) {
  const auto rounded = [](int64_t i) {  // to 8 bits, as BFLOAT16
    return std::round(128 * (1 + std::abs(scattered(i)) / 2)) / 128;
  };
  EXPECT_TRUE(isFewNumbers(matrix(16, 8, [](int64_t r, int64_t) { return (static_cast<double>(r) + 0.5) / 7; })));
  EXPECT_TRUE(isFewNumbers(matrix(64, 2, [](int64_t r, int64_t) { return static_cast<double>(r % 8) + 0.5; })));
  EXPECT_FALSE(isFewNumbers(matrix(16, 8, [](int64_t r, int64_t c) { return scattered(8 * r + c); })));
  EXPECT_FALSE(isFewNumbers(matrix(16, 8, [](int64_t, int64_t) { return 1e-5; })));
  EXPECT_FALSE(isFewNumbers(matrix(1, 4096, [&](int64_t, int64_t c) { return rounded(c); })));
  EXPECT_FALSE(isFewNumbers(matrix(64, 64, [&](int64_t r, int64_t c) { return rounded(64 * r + c); })));
}

TEST(TensorValues, rows_that_were_picked_several_times_are_known) {
  const TensorData table = matrix(8, 6, [](int64_t r, int64_t c) { return scattered(6 * r + c); });
  const TensorData picked = matrix(24, 6, [](int64_t r, int64_t c) { return scattered(6 * (r % 8) + c); });
  const TensorData others = matrix(8, 6, [](int64_t r, int64_t c) { return scattered(6 * r + c + 100); });
  EXPECT_FALSE(holdsCopies(table));
  EXPECT_TRUE(holdsCopies(picked));
  EXPECT_FALSE(holdsCopies(matrix(6, 6, [](int64_t r, int64_t c) { return r == c ? 1.0 : 0.0; })));
  EXPECT_TRUE(sharesElements(table, picked));
  EXPECT_FALSE(sharesElements(table, others));
  EXPECT_FALSE(sharesElements(matrix(2, 2, [](int64_t, int64_t) { return 0.0; }), table));
}

// x weight + bias, with a loop body that has a weight of its own.
onnx_proto::ModelProto modelWithBody() {
  onnx_proto::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(17);
  GraphProto *g = m.mutable_graph();
  g->set_name("g");
  const auto addTensor = [](GraphProto *graph, const std::string &name, const std::vector<int64_t> &dims) {
    TensorProto *t = graph->add_initializer();
    t->set_name(name);
    t->set_data_type(TensorProto::FLOAT);
    int64_t elements = 1;
    for (int64_t d : dims) t->add_dims(d), elements *= d;
    for (int64_t i = 0; i < elements; ++i) t->add_float_data(0.25f * static_cast<float>(i));
  };
  const auto addNode = [](GraphProto *graph, const std::string &type, const std::vector<std::string> &in,
                          const std::string &out) {
    NodeProto *n = graph->add_node();
    n->set_op_type(type);
    for (const auto &i : in) n->add_input(i);
    n->add_output(out);
    return n;
  };
  const auto addValue = [](ValueInfoProto *v, const std::string &name, const std::vector<int64_t> &dims,
                           TensorProto::DataType type) {
    v->set_name(name);
    auto *tensor = v->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(d);
  };
  addValue(g->add_input(), "x", {2, 3}, TensorProto::FLOAT);
  TensorProto *trips = g->add_initializer();
  trips->set_name("trips");
  trips->set_data_type(TensorProto::INT64);
  trips->add_int64_data(2);
  addTensor(g, "weight", {3, 3});
  addTensor(g, "bias", {3});
  addNode(g, "MatMul", {"x", "weight"}, "h");
  addNode(g, "Add", {"h", "bias"}, "k");
  NodeProto *loop = addNode(g, "Loop", {"trips", "", "k"}, "y");
  loop->set_name("loop");
  AttributeProto *a = loop->add_attribute();
  a->set_name("body");
  a->set_type(AttributeProto::GRAPH);
  GraphProto *body = a->mutable_g();
  body->set_name("body");
  addValue(body->add_input(), "i", {}, TensorProto::INT64);
  addValue(body->add_input(), "goes", {}, TensorProto::BOOL);
  addValue(body->add_input(), "s", {2, 3}, TensorProto::FLOAT);
  addTensor(body, "inner", {3, 3});
  addNode(body, "MatMul", {"s", "inner"}, "n");
  addNode(body, "Identity", {"goes"}, "on");
  addValue(body->add_output(), "on", {}, TensorProto::BOOL);
  addValue(body->add_output(), "n", {2, 3}, TensorProto::FLOAT);
  g->add_output()->set_name("y");
  return m;
}

std::set<TensorId> trained(const TrainingWishes &wishes) {
  return trainableTensors(Model::parse(modelWithBody().SerializeAsString()), wishes).trained;
}

TEST(TrainableTensors, parameters_of_bodies_are_variables_of_the_main_graph) {
  EXPECT_EQ(trained({}), (std::set<TensorId>{"weight", "bias", "inner"}));
  Ir ir;
  BuildOptions options;
  options.purpose = Purpose::Training;
  buildGraph(Model::parse(modelWithBody().SerializeAsString()), options, ir);
  EXPECT_EQ(ir.getMainGraph().getTensor("inner")->tensorType(), TensorType::Variable);
}

TEST(TrainableTensors, the_caller_names_tensors_or_patterns) {
  EXPECT_EQ(trained({{"weight"}, {}}), (std::set<TensorId>{"weight"}));
  EXPECT_EQ(trained({{"[wb]*"}, {"b*"}}), (std::set<TensorId>{"weight"}));
  EXPECT_EQ(trained({{}, {"inn?r"}}), (std::set<TensorId>{"weight", "bias"}));
  TrainingWishes byRate;
  byRate.isFrozenByOptimizer = [](const TensorId &id) { return id == "bias"; };
  EXPECT_EQ(trained(byRate), (std::set<TensorId>{"weight", "inner"}));
}

TEST(TrainableTensors, a_pattern_without_a_match_is_refused_with_the_nearest_names) {
  try {
    trained({{}, {"wieght"}});
    FAIL() << "expected an error";
  } catch (const error &e) {
    EXPECT_NE(std::string(e.what()).find("weight"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace popart::onnx
