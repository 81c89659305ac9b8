// Reading models: roles of tensors, functions, branches, folding, and refusals of hostile files.
#include "onnx/reader.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <popart/error.hpp>

#include "../support/temporary_folder.hpp"
#include "backends/ref/ref.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using namespace onnx_proto;

onnx_proto::ModelProto emptyModel(int opset = 17) {
  onnx_proto::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

void setType(ValueInfoProto *v, const std::string &name, const std::vector<int64_t> &dims,
             TensorProto::DataType type = TensorProto::FLOAT) {
  v->set_name(name);
  v->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  v->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (int64_t d : dims) v->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
}

NodeProto *addNode(GraphProto *g, const std::string &type, const std::vector<std::string> &in,
                   const std::vector<std::string> &out) {
  auto *n = g->add_node();
  n->set_op_type(type);
  for (const auto &i : in) n->add_input(i);
  for (const auto &o : out) n->add_output(o);
  return n;
}

void addInts(GraphProto *g, const std::string &name, const std::vector<int64_t> &values) {
  auto *t = g->add_initializer();
  t->set_name(name);
  t->set_data_type(TensorProto::INT64);
  t->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) t->add_int64_data(v);
}

BuildOptions options() {
  BuildOptions o;
  o.evaluate = ref::evaluate;
  return o;
}

std::string refusal(const onnx_proto::ModelProto &m, const BuildOptions &o = options()) {
  try {
    Ir ir;
    buildGraph(Model::parse(m.SerializeAsString()), o, ir);
  } catch (const internal_error &e) {
    return std::string("internal: ") + e.what();
  } catch (const error &e) {
    return e.what();
  }
  return "accepted";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

onnx_proto::ModelProto reluModel() {
  onnx_proto::ModelProto m = emptyModel();
  setType(m.mutable_graph()->add_input(), "x", {2, 3});
  addNode(m.mutable_graph(), "Relu", {"x"}, {"y"});
  m.mutable_graph()->add_output()->set_name("y");
  return m;
}

TEST(Reader, inputs_are_streams_and_outputs_are_marked) {
  Ir ir;
  buildGraph(Model::parse(reluModel().SerializeAsString()), options(), ir);
  Graph &g = ir.getMainGraph();
  EXPECT_EQ(g.getTensor("x")->tensorType(), TensorType::Stream);
  EXPECT_EQ(g.getTensor("y")->info, TensorInfo(DataType::FLOAT, {2, 3}));
  EXPECT_EQ(g.getOutputIds(), std::vector<TensorId>{"y"});
}

TEST(Reader, shape_chains_fold_so_that_reshape_knows_its_shape) {
  onnx_proto::ModelProto m = emptyModel();
  auto *g = m.mutable_graph();
  setType(g->add_input(), "x", {2, 3, 4});
  addInts(g, "zero", {0});
  addInts(g, "minus", {-1});
  addNode(g, "Shape", {"x"}, {"s"});
  addNode(g, "Gather", {"s", "zero"}, {"b"});
  addNode(g, "Concat", {"b", "minus"}, {"t"})->add_attribute()->set_name("axis");
  g->mutable_node(2)->mutable_attribute(0)->set_type(AttributeProto::INT);
  addNode(g, "Reshape", {"x", "t"}, {"y"});
  g->add_output()->set_name("y");
  Ir ir;
  buildGraph(Model::parse(m.SerializeAsString()), options(), ir);
  EXPECT_EQ(ir.getMainGraph().getTensor("y")->info.shape(), (Shape{2, 12}));
  EXPECT_EQ(ir.getMainGraph().opCount(), 1u);
}

TEST(Reader, float_initializers_are_variables_unless_weights_are_constant) {
  onnx_proto::ModelProto m = reluModel();
  auto *t = m.mutable_graph()->add_initializer();
  t->set_name("w");
  t->set_data_type(TensorProto::FLOAT);
  t->add_dims(1);
  t->add_float_data(2.5f);
  Ir a, b;
  buildGraph(Model::parse(m.SerializeAsString()), options(), a);
  EXPECT_EQ(a.getMainGraph().getTensor("w")->tensorType(), TensorType::Variable);
  BuildOptions constant = options();
  constant.weights = WeightRole::Constant;
  buildGraph(Model::parse(m.SerializeAsString()), constant, b);
  EXPECT_EQ(b.getMainGraph().getTensor("w")->tensorType(), TensorType::Const);
}

TEST(Reader, symbolic_dimensions_need_shape_info_and_share_it) {
  onnx_proto::ModelProto m = emptyModel();
  auto *g = m.mutable_graph();
  for (const char *name : {"x", "z"}) {
    setType(g->add_input(), name, {});
    auto *shape = g->mutable_input(g->input_size() - 1)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->add_dim()->set_dim_param("batch");
    shape->add_dim()->set_dim_value(3);
  }
  addNode(g, "Add", {"x", "z"}, {"y"});
  g->add_output()->set_name("y");
  EXPECT_CONTAINS(refusal(m), "InputShapeInfo");
  BuildOptions o = options();
  o.inputShapeInfo["x"] = TensorInfo(DataType::FLOAT, {5, 3});
  EXPECT_EQ(refusal(m, o), "accepted");
  o.inputShapeInfo["x"] = TensorInfo(DataType::FLOAT, {5, 4});
  EXPECT_CONTAINS(refusal(m, o), "fixes dimension 1");
}

TEST(Reader, functions_are_inlined_and_recursion_is_refused) {
  onnx_proto::ModelProto m = emptyModel();
  auto *f = m.add_functions();
  f->set_domain("custom");
  f->set_name("Twice");
  f->add_input("a");
  f->add_output("b");
  f->add_opset_import()->set_version(17);
  auto *n = f->add_node();
  n->set_op_type("Add");
  n->add_input("a"), n->add_input("a"), n->add_output("b");
  auto *import = m.add_opset_import();
  import->set_domain("custom"), import->set_version(1);
  setType(m.mutable_graph()->add_input(), "x", {2});
  addNode(m.mutable_graph(), "Twice", {"x"}, {"y"})->set_domain("custom");
  m.mutable_graph()->add_output()->set_name("y");
  Ir ir;
  buildGraph(Model::parse(m.SerializeAsString()), options(), ir);
  EXPECT_EQ(ir.getMainGraph().getTensor("y")->getProducer()->opType(), "Add");
  m.mutable_functions(0)->mutable_node(0)->set_op_type("Twice");
  m.mutable_functions(0)->mutable_node(0)->set_domain("custom");
  m.mutable_functions(0)->mutable_node(0)->mutable_input()->RemoveLast();
  EXPECT_CONTAINS(refusal(m), "nested too deeply");
}

TEST(Reader, constant_conditions_choose_their_branch) {
  onnx_proto::ModelProto m = reluModel();
  auto *g = m.mutable_graph();
  auto *c = g->add_initializer();
  c->set_name("c");
  c->set_data_type(TensorProto::BOOL);
  c->add_int32_data(1);
  auto *n = addNode(g, "If", {"c"}, {"z"});
  for (const char *branch : {"then_branch", "else_branch"}) {
    auto *a = n->add_attribute();
    a->set_name(branch);
    a->set_type(AttributeProto::GRAPH);
    addNode(a->mutable_g(), std::string(branch) == "then_branch" ? "Neg" : "Unknown", {"y"}, {"inner"});
    a->mutable_g()->add_output()->set_name("inner");
  }
  g->add_output()->set_name("z");
  Ir ir;
  buildGraph(Model::parse(m.SerializeAsString()), options(), ir);
  EXPECT_EQ(ir.getMainGraph().getTensor("z")->getProducer()->opType(), "Neg");
}

TEST(Reader, structural_nonsense_is_refused_by_name) {
  onnx_proto::ModelProto undefined = reluModel();
  undefined.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_CONTAINS(refusal(undefined), "'nowhere' that nothing defines");
  onnx_proto::ModelProto twice = reluModel();
  addNode(twice.mutable_graph(), "Neg", {"x"}, {"y"});
  EXPECT_CONTAINS(refusal(twice), "defined twice");
  onnx_proto::ModelProto cycle = reluModel();
  cycle.mutable_graph()->mutable_node(0)->set_input(0, "z");
  addNode(cycle.mutable_graph(), "Neg", {"y"}, {"z"});
  EXPECT_CONTAINS(refusal(cycle), "cycle");
  onnx_proto::ModelProto unknown = reluModel();
  unknown.mutable_graph()->mutable_node(0)->set_op_type("Relo");
  EXPECT_CONTAINS(refusal(unknown), "Relu");
  onnx_proto::ModelProto old = reluModel();
  old.mutable_opset_import(0)->set_version(5);
  EXPECT_CONTAINS(refusal(old), "too old");
  onnx_proto::ModelProto future = reluModel();
  future.mutable_opset_import(0)->set_version(999);
  EXPECT_CONTAINS(refusal(future), "newer than this library");
}

TEST(Reader, gaps_in_lists_and_outputs_beyond_the_operator_are_refused) {
  onnx_proto::ModelProto m = emptyModel();
  setType(m.mutable_graph()->add_input(), "x", {1, 1, 4});
  NodeProto *node = addNode(m.mutable_graph(), "Sum", {"x", "", "x"}, {"y"});
  m.mutable_graph()->add_output()->set_name("y");
  EXPECT_CONTAINS(refusal(m), "input 1 ('inputs') is missing");
  node->set_op_type("GlobalAveragePool");
  node->mutable_input()->DeleteSubrange(1, 2);
  EXPECT_EQ(refusal(m), "accepted");
  node->add_output("more");
  EXPECT_CONTAINS(refusal(m), "too many outputs: got 2, expected at most 1");
}

TEST(Reader, tensors_that_do_not_match_their_dimensions_are_refused) {
  for (const std::vector<int64_t> &dims :
       std::vector<std::vector<int64_t>>{{-1}, {int64_t{1} << 62, 4}, {int64_t{1} << 40}, {3}}) {
    onnx_proto::ModelProto m = reluModel();
    auto *t = m.mutable_graph()->add_initializer();
    t->set_name("w");
    t->set_data_type(TensorProto::FLOAT);
    for (int64_t d : dims) t->add_dims(d);
    t->add_float_data(1.0f);
    EXPECT_CONTAINS(refusal(m), "Tensor 'w'");
  }
}

TEST(Reader, external_data_stays_in_the_folder) {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;
  const fs::path &root = folder.path();
  fs::create_directories(root / "model");
  std::ofstream(root / "secret.bin") << std::string(16, 'x');
  std::ofstream(root / "model" / "short.bin") << std::string(4, 'x');
  fs::create_symlink(root / "secret.bin", root / "model" / "link.bin");
  auto load = [&](const std::string &location) {
    onnx_proto::ModelProto m = reluModel();
    auto *t = m.mutable_graph()->add_initializer();
    t->set_name("w");
    t->set_data_type(TensorProto::FLOAT);
    t->add_dims(4);
    t->set_data_location(TensorProto::EXTERNAL);
    auto *e = t->add_external_data();
    e->set_key("location"), e->set_value(location);
    std::ofstream(root / "model" / "m.onnx", std::ios::binary) << m.SerializeAsString();
    try {
      Ir ir;
      buildGraph(Model::load((root / "model" / "m.onnx").string()), options(), ir);
    } catch (const error &e2) {
      return std::string(e2.what());
    }
    return std::string("accepted");
  };
  EXPECT_CONTAINS(load("../secret.bin"), "must stay in the model's folder");
  EXPECT_CONTAINS(load((root / "secret.bin").string()), "outside the model's folder");
  EXPECT_CONTAINS(load("link.bin"), "outside the model's folder");
  EXPECT_CONTAINS(load("missing.bin"), "missing");
  EXPECT_CONTAINS(load("short.bin"), "beyond the end");
}

TEST(Reader, every_truncation_and_many_bit_flips_are_refused_or_read) {
  const std::string bytes = reluModel().SerializeAsString();
  auto tryBytes = [](const std::string &text) {
    try {
      Ir ir;
      buildGraph(Model::parse(text), options(), ir);
    } catch (const internal_error &e) {
      ADD_FAILURE() << e.what();
    } catch (const error &) {
    }
  };
  for (size_t n = 0; n < bytes.size(); ++n) tryBytes(bytes.substr(0, n));
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    tryBytes(flipped);
  }
}

}  // namespace
}  // namespace popart::onnx
