// The registry of user operators: creation from nodes, operands and attributes as creators see them, and refusals.
#include <popart/opmanager.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <popart/ir.hpp>
#include <popart/shapeinference.hpp>

#include "../support/message_of.hpp"
#include "../support/program.hpp"

namespace popart {
namespace {

using test::messageOf;
using testing::HasSubstr;

// A fresh name for every test: registrations are never undone.
OperatorIdentifier freshOperator(OpVersion version = 1) {
  static int count = 0;
  return {"opmanager.test", "Own" + std::to_string(count++), version};
}

class CubeOp : public Op {
 public:
  CubeOp(const OperatorIdentifier &id, const Op::Settings &s) : Op(id, s) {}
  std::unique_ptr<Op> clone() const override { return std::make_unique<CubeOp>(*this); }
  void setup() override { outInfo(0) = inInfo(0); }
};

struct Program {
  Ir ir;
  Graph &main = ir.getMainGraph();
  TensorIndex x = main.addStream("x", TensorInfo(DataType::FLOAT, {2, 3}));
  TensorIndex two = main.addConstant("two", TensorData::of<int64_t>({2}, std::vector<int64_t>{2, 5}));

  Op *add(const OperatorIdentifier &id, const std::vector<TensorIndex> &inputs, Attributes attributes = {}) {
    return main.addConnectedOp(userOpDef(id), inputs, {"y"}, std::move(attributes), Op::Settings(main, "mine"));
  }
};

TEST(OpManager, nodes_of_a_registered_operator_are_ops_of_its_class) {
  const OperatorIdentifier id = freshOperator();
  const OpCreator<CubeOp> creator(OpDefinitions({{id, OpDefinition()}}));
  Program p;
  Op *op = p.add(id, {p.x});
  EXPECT_NE(dynamic_cast<CubeOp *>(op), nullptr);
  EXPECT_TRUE(op->isUserOp());
  EXPECT_EQ(op->opid, id);
  EXPECT_EQ(op->outInfo(0), TensorInfo(DataType::FLOAT, {2, 3}));
  verify(p.ir);
  EXPECT_NE(dynamic_cast<CubeOp *>(p.ir.clone()->opsOfType(op->def().type()).at(0)), nullptr);
}

TEST(OpManager, creators_see_operands_attributes_and_constants) {
  const OperatorIdentifier id = freshOperator();
  bool called = false;
  OpManager::registerOp(id, OpDefinition(), true, [&](const OpCreatorInfo &info) -> std::unique_ptr<Op> {
    called = true;
    EXPECT_EQ(info.getInputIds(), (std::vector<TensorId>{"x", "", "two"}));
    EXPECT_EQ(info.getOutputIds(), (std::vector<TensorId>{"y"}));
    EXPECT_FALSE(info.hasInputTensor(1));
    EXPECT_FALSE(info.hasInputTensor(7));
    EXPECT_EQ(info.getInputTensorInfo(0), TensorInfo(DataType::FLOAT, {2, 3}));
    EXPECT_EQ(info.getInputData<int64_t>(2), (std::vector<int64_t>{2, 5}));
    EXPECT_EQ(info.getInputScalarValue<int64_t>(1, 9), 9);
    EXPECT_EQ(info.attributes.getAttribute<Attributes::Float>("alpha"), 0.5f);
    EXPECT_THAT(messageOf([&] { info.getInputTensor(1); }), HasSubstr("1"));
    EXPECT_THAT(messageOf([&] { info.getInputTensorData(0); }), HasSubstr("x"));
    EXPECT_NE(messageOf([&] { info.getInputData<float>(2); }), "no error");
    EXPECT_NE(messageOf([&] { info.getInputData<int64_t>(2, {DataType::FLOAT}); }), "no error");
    EXPECT_THAT(messageOf([&] { info.getInputScalarValue<int64_t>(2); }), HasSubstr("must have one element: got 2"));
    return std::make_unique<CubeOp>(info.opid, info.settings);
  });
  Program p;
  p.add(id, {p.x, {}, p.two}, {{"alpha", 0.5f}});
  EXPECT_TRUE(called);
}

TEST(OpManager, an_operator_is_registered_once) {
  const OperatorIdentifier id = freshOperator();
  const auto make = [&] {
    OpManager::registerOp(id, OpDefinition(), true,
                          [](const OpCreatorInfo &info) { return std::make_unique<CubeOp>(info.opid, info.settings); });
  };
  EXPECT_EQ(OpManager::findUserDefinition(id), nullptr);
  make();
  EXPECT_NE(OpManager::findUserDefinition(id), nullptr);
  EXPECT_THAT(messageOf(make), HasSubstr(id.type));
}

TEST(OpManager, the_librarys_own_operators_cannot_be_taken) {
  const OperatorIdentifier relu{"ai.onnx", "Relu", 6};
  EXPECT_THAT(messageOf([&] {
                OpManager::registerOp(relu, OpDefinition(), true, [](const OpCreatorInfo &info) {
                  return std::make_unique<CubeOp>(info.opid, info.settings);
                });
              }),
              HasSubstr("Relu"));
}

TEST(OpManager, an_operator_may_have_the_name_of_one_in_another_domain) {
  const OperatorIdentifier id{"opmanager.test", "Relu", 1};
  const OpCreator<CubeOp> creator(OpDefinitions({{id, OpDefinition()}}));
  Program p;
  EXPECT_NE(dynamic_cast<CubeOp *>(p.add(id, {p.x})), nullptr);
  EXPECT_EQ(opDef("Relu").domain(), "ai.onnx");
}

TEST(OpManager, versions_are_operators_of_their_own) {
  const OperatorIdentifier first = freshOperator(1), second{first.domain, first.type, 2};
  const OpCreator<CubeOp> creator(OpDefinitions({{first, OpDefinition()}}));
  EXPECT_NE(OpManager::findUserDefinition(first), nullptr);
  EXPECT_EQ(OpManager::findUserDefinition(second), nullptr);
}

TEST(OpManager, the_number_of_inputs_is_checked) {
  const OperatorIdentifier id{"opmanager.test", "TwoInputs", 1, 2};
  const OpCreator<CubeOp> creator(OpDefinitions({{id, OpDefinition()}}));
  Program p;
  EXPECT_THAT(messageOf([&] { p.add(id, {p.x}); }), HasSubstr("wrong number of inputs: got 1, expected 2"));
}

TEST(OpManager, a_creator_that_makes_nothing_is_refused) {
  const OperatorIdentifier id = freshOperator();
  OpManager::registerOp(id, OpDefinition(), true, [](const OpCreatorInfo &) { return std::unique_ptr<Op>(); });
  Program p;
  EXPECT_THAT(messageOf([&] { p.add(id, {p.x}); }), HasSubstr("its creator made no op"));
}

TEST(OpManager, shapes_come_from_a_function_or_setup_and_are_asked_for_otherwise) {
  const OperatorIdentifier id = freshOperator();
  Program p;
  EXPECT_THAT(messageOf([&] { p.add(id, {p.x}); }), HasSubstr("no rule for its output shapes"));
  const RegisterShapeInferenceFunction rule(
      id, [](ShapeInferenceContext &c) { c.outInfo(0) = TensorInfo(c.inType(0), {7}); });
  EXPECT_EQ(p.add(id, {p.x})->outInfo(0), TensorInfo(DataType::FLOAT, {7}));
}

}  // namespace
}  // namespace popart
