// One legal program, and for every rule of verify() a program that breaks just that rule. What the graph editor itself
// prevents is broken through its low-level calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"

namespace popart {
namespace {

using testing::HasSubstr;

std::string verifyError(const Ir &ir) {
  try {
    verify(ir);
  } catch (const internal_error &e) {
    return e.what();
  }
  return "no error";
}

class Verify : public testing::Test {
 protected:
  std::unique_ptr<Ir> ir = parseIr(test::kProgram);
  Graph &main = ir->getMainGraph();
  Graph &callee = ir->getGraph("f_subgraph(0)");
  Op &op(std::string_view type) { return test::onlyOp(*ir, type); }
  TensorIndex tensor(const TensorId &id) { return main.getTensor(id)->index(); }
  void expectError(const char *message) { EXPECT_THAT(verifyError(*ir), HasSubstr(message)); }
};

TEST_F(Verify, a_legal_program_passes) { EXPECT_EQ(verifyError(*ir), "no error"); }

TEST_F(Verify, identity_op_of_another_graph) {
  op("MatMul").settings.graph = &callee;
  expectError("names another graph as its own");
}
TEST_F(Verify, identity_tensor_without_id) {
  main.getTensor("batch")->id = "";
  expectError("has no id");
}
TEST_F(Verify, identity_tensor_id_that_the_index_does_not_know) {
  main.getTensor("y")->id = "other";
  expectError("tensor 'other' is not the one found by its id");
}
TEST_F(Verify, connectivity_erased_graph_output) {
  const TensorIndex t = main.addTensor("t", TensorInfo(DataType::FLOAT, {}), TensorType::Unknown);
  main.markOutput(t);
  main.eraseTensor(t);
  expectError("a graph output is an erased tensor");
}
TEST_F(Verify, connectivity_erased_graph_input) {
  const TensorIndex t = main.addInput("t", TensorInfo(DataType::FLOAT, {}));
  main.eraseTensor(t);
  expectError("a graph input is an erased tensor");
}
TEST_F(Verify, connectivity_constraint_on_an_erased_op) {
  const OpIndex gone = op("HostStore").index();
  main.eraseOp(gone);
  main.addConstraint(gone, op("MatMul").index());
  expectError("an order constraint names an erased operator");
}
TEST_F(Verify, types_unset_info) {
  main.getTensor("y")->info = TensorInfo();
  expectError("tensor 'y' has no type and shape");
}
TEST_F(Verify, rows_unknown_row) {
  static const OpDef stray = OpDef("test", "TestStray", {1}).input("x", kAllTypes).input("y", kAllTypes).output("z");
  op("MatMul").setDef(stray);
  expectError("its row is not in the catalog");
}
TEST_F(Verify, rows_identifier_of_another_type) {
  op("MatMul").opid.type = "Add";
  expectError("its identifier differs from its row 'MatMul'");
}
TEST_F(Verify, rows_missing_required_attribute) {
  op("Call").mutableAttributes().erase("callee");
  expectError("attribute 'callee' is missing");
}
TEST_F(Verify, rows_missing_attribute_with_default) {
  op("TopK").mutableAttributes().erase("sorted");
  expectError("attribute 'sorted' is missing although it has a default");
}
TEST_F(Verify, rows_unknown_attribute) {
  op("HostStore").mutableAttributes().set("colour", std::string("red"));
  expectError("unknown attribute 'colour'");
}
TEST_F(Verify, rows_attribute_of_another_type) {
  op("TopK").mutableAttributes().set("sorted", 1.f);
  expectError("attribute 'sorted' has the wrong type");
}
TEST_F(Verify, rows_missing_input) {
  main.disconnectInput(op("MatMul").index(), 1);
  expectError("input 1 ('");
}
TEST_F(Verify, rows_input_beyond_the_row) {
  main.connectInput(op("HostStore").index(), 1, tensor("x"));
  expectError("input 1 does not exist in its row");
}
TEST_F(Verify, rows_gap_in_a_list_of_inputs) {
  const TensorIndex y = tensor("y");
  Op *sum = main.addConnectedOp(opDef("Sum"), {y, y, y}, {"sum"}, {}, Op::Settings(main));
  EXPECT_EQ(verifyError(*ir), "no error");
  main.disconnectInput(sum->index(), 1);
  expectError("input 1 of the list 'inputs' is not connected");
}
TEST_F(Verify, rows_missing_output) {
  main.disconnectOutput(op("HostLoad").index(), 0);
  expectError("output 0 ('loaded') is not connected");
}
TEST_F(Verify, leaves_nothing_produces_what_is_read) {
  main.getTensor("half")->setTensorType(TensorType::ActGrad);
  expectError("tensor 'half' is read but nothing produces it");
}
TEST_F(Verify, leaves_produced_constant) {
  main.getTensor("y")->setTensorType(TensorType::Const);
  expectError("tensor 'y' is a const or variable but is produced by MatMul");
}
TEST_F(Verify, leaves_produced_graph_input) {
  main.markInput(tensor("y"));
  expectError("graph input 'y' is produced by MatMul");
}
TEST_F(Verify, leaves_graph_input_listed_twice) {
  main.markInput(tensor("x"));
  expectError("graph input 'x' is listed twice");
}
TEST_F(Verify, data_constant_without_values) {
  main.getTensor("half")->setTensorData(TensorData());
  expectError("const tensor 'half' has no values");
}
TEST_F(Verify, data_constant_of_another_shape) {
  main.getTensor("half")->setTensorData(TensorData(TensorInfo(DataType::FLOAT, {2})));
  expectError("values of another type or shape: got float32[2], expected float32[]");
}
TEST_F(Verify, data_values_of_an_operators_output) {
  main.getTensor("y")->setTensorData(TensorData(main.getTensor("y")->info));
  expectError("tensor 'y' has values but is produced by");
}
TEST_F(Verify, place_variable_in_a_subgraph) {
  callee.addVariable("v", TensorData::scalar(1.f));
  expectError("variable or stream 'v' is outside the main graph");
}
TEST_F(Verify, place_stream_in_a_subgraph) {
  callee.addStream("s", TensorInfo(DataType::FLOAT, {}));
  expectError("variable or stream 's' is outside the main graph");
}
TEST_F(Verify, order_constraint_against_the_data) {
  main.addConstraint(op("Call").index(), op("MatMul").index());
  expectError("have a cycle");
}
TEST_F(Verify, calls_unknown_graph) {
  op("Call").mutableAttributes().set("callee", GraphRef{"g"});
  expectError("names graph 'g', which does not exist");
}
TEST_F(Verify, calls_wrong_number_of_inputs) {
  main.connectInput(op("Call").index(), 2, tensor("x"));
  expectError("wrong number of inputs for subgraph 'f_subgraph(0)': got 3, expected 2");
}
TEST_F(Verify, calls_input_of_another_shape) {
  main.connectInput(op("Call").index(), 0, tensor("x"));
  expectError("input 0 differs from the subgraph's: got float32[2, 3], expected float32[2, 2]");
}
TEST_F(Verify, calls_output_of_another_shape) {
  main.getTensor("z")->info = TensorInfo(DataType::FLOAT, {4});
  expectError("output 0 differs from the subgraph's");
}
TEST_F(Verify, calls_too_many_outputs) {
  main.createOutput(op("Call").index(), 2, "more");
  main.getTensor("more")->info = TensorInfo(DataType::FLOAT, {});
  expectError("wrong number of outputs: got 3, subgraph 'f_subgraph(0)' gives 2");
}
TEST_F(Verify, calls_modified_input_that_does_not_exist) {
  op("Call").mutableAttributes().set("modified", std::vector<int64_t>{2});
  expectError("'modified' names input 2, which does not exist");
}
TEST_F(Verify, calls_recursion) {
  const TensorIndex a = callee.getTensor("f/a")->index(), b = callee.getTensor("f/b")->index();
  callee.addConnectedOp(opDef("Call"), {a, b}, {"f/d"}, {{"callee", GraphRef{callee.id}}}, Op::Settings(callee));
  expectError("a graph calls itself");
}

constexpr const char *kLoop = R"ir(main {
  input %x : float32[2]
  input %c : bool[]
  %y = Loop(_, %c, %x) {body = @body, trip_count = 3}
  %z = If(%c, %x, %x) {then_branch = @yes, else_branch = @no}
  return %y, %z
}
graph @body {
  input %i : int64[]
  input %go : bool[]
  input %v : float32[2]
  %w = Neg(%v)
  return %go, %w
}
graph @yes {
  input %p : float32[2]
  %q = Neg(%p)
  return %q
}
graph @no {
  input %r : float32[2]
  %s = Relu(%r)
  return %s
}
)ir";

TEST(VerifyControl, loop_and_branches_pass) { EXPECT_EQ(verifyError(*parseIr(kLoop)), "no error"); }
TEST(VerifyControl, loop_body_with_another_number_of_inputs) {
  const auto ir = parseIr(kLoop);
  ir->getGraph("body").addInput("more", TensorInfo(DataType::FLOAT, {2}));
  EXPECT_THAT(verifyError(*ir), HasSubstr("the body takes 4 inputs, expected iteration, condition and 1"));
}
TEST(VerifyControl, loop_body_without_outputs) {
  const auto ir = parseIr(kLoop);
  ir->getGraph("body").setOutputs({});
  EXPECT_THAT(verifyError(*ir), HasSubstr("the body gives no condition"));
}
TEST(VerifyControl, loop_carried_value_of_another_shape) {
  const auto ir = parseIr(kLoop);
  ir->getGraph("body").getTensor("w")->info = TensorInfo(DataType::FLOAT, {3});
  EXPECT_THAT(verifyError(*ir), HasSubstr("carried output 0 differs"));
}
TEST(VerifyControl, branches_with_different_outputs) {
  const auto ir = parseIr(kLoop);
  ir->getGraph("no").setOutputs({});
  EXPECT_THAT(verifyError(*ir), HasSubstr("wrong number of outputs: got 1, subgraph 'no' gives 0"));
}
TEST(VerifyControl, branches_with_other_inputs) {
  const auto ir = parseIr(kLoop);
  ir->getGraph("no").addInput("more", TensorInfo(DataType::FLOAT, {2}));
  EXPECT_THAT(verifyError(*ir), HasSubstr("wrong number of inputs: got 3, expected the condition and 1 and 2"));
}

}  // namespace
}  // namespace popart
