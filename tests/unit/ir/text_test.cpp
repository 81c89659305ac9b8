// Text form: round trips of whole programs, of every kind of attribute, element type and setting; line numbers of
// errors; damaged text never does worse than popart::error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "../support/message_of.hpp"
#include "program.hpp"

namespace popart {
namespace {

using test::kProgram;
using testing::HasSubstr;

std::string parseError(const std::string &text) {
  return test::messageOf([&] { parseIr(text); });
}

TEST(IrText, printing_what_was_read_gives_the_same_text) { EXPECT_EQ(print(*parseIr(kProgram)), kProgram); }

TEST(IrText, reading_what_was_printed_gives_an_equal_program) {
  const auto ir = parseIr(kProgram);
  const auto copy = parseIr(print(*ir));
  EXPECT_TRUE(structurallyEqual(*ir, *copy));
  EXPECT_EQ(hash(*ir), hash(*copy));
}

TEST(IrText, reading_restores_what_the_text_says) {
  const auto ir = parseIr(kProgram);
  const Graph &main = ir->getMainGraph();
  const Op &matmul = test::onlyOp(*ir, "MatMul");
  EXPECT_EQ(matmul.name(), "fc/MatMul");
  EXPECT_EQ(matmul.settings.vgraphId, 0);
  EXPECT_EQ(matmul.settings.pipelineStage, 1);
  EXPECT_EQ(matmul.settings.executionPhase, std::nullopt);
  const Tensor &w = *main.getTensor("w");
  EXPECT_EQ(w.tensorType(), TensorType::Variable);
  EXPECT_TRUE(w.isOptimizerState);
  EXPECT_EQ(w.variableSettings,
            VariableSettings(CommGroup(CommGroupType::Consecutive, 2), VariableRetrievalMode::AllReduceReplicas));
  EXPECT_EQ(w.tensorData().asDoubles()[3], 4.0);
  EXPECT_EQ(main.constraints().size(), 1u);
  EXPECT_EQ(main.getOutputIds(), (std::vector<TensorId>{"z", "odd name"}));
  EXPECT_EQ(test::onlyOp(*ir, "HostStore").settings.hints.at("availableMemoryProportion"), "0.6");
  EXPECT_TRUE(ir->getGraph("f_subgraph(0)").getTensor("f/a")->byReference);
  EXPECT_FALSE(ir->opsOfType("Call")[1]->hasOutput(0));
}

TEST(IrText, outputs_without_types_are_inferred_in_any_order_of_lines) {
  const auto ir =
      parseIr("main {\n  %z = Relu(%y)\n  input %x : float32[4]\n  %y = Neg(%x) // before\n  return %z\n}\n");
  EXPECT_EQ(ir->getMainGraph().getTensor("z")->info, TensorInfo(DataType::FLOAT, {4}));
}

TEST(IrText, operators_stand_in_program_order) {
  const auto ir = parseIr("main {\n  input %x : float32[4]\n  %a = Relu(%x)\n  %b = Neg(%x)\n  return %a, %b\n}\n");
  ir->opsOfType("Relu")[0]->settings.sequence = 5;
  const std::string text = print(*ir);
  EXPECT_LT(text.find("Neg"), text.find("Relu"));
  EXPECT_TRUE(structurallyEqual(*ir, *parseIr(text)));
}

const OpDef &everyAttributeRow() {
  static const OpDef &row = registerOpDef(OpDef("test", "TestEveryAttribute", {1})
                                              .input("x", kAllTypes)
                                              .output("y")
                                              .attrOptional("int", AttributeType::Int)
                                              .attrOptional("float", AttributeType::Float)
                                              .attrOptional("string", AttributeType::String)
                                              .attrOptional("ints", AttributeType::Ints)
                                              .attrOptional("floats", AttributeType::Floats)
                                              .attrOptional("strings", AttributeType::Strings)
                                              .attrOptional("tensor", AttributeType::Tensor)
                                              .attrOptional("graph", AttributeType::Graph));
  return row;
}

Attributes roundTrip(const Attributes &attributes) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  const TensorIndex x = main.addInput("x", TensorInfo(DataType::FLOAT, {2}));
  ir.createGraph("some graph");
  main.addConnectedOp(everyAttributeRow(), {x}, {"y"}, attributes, Op::Settings(main));
  const auto copy = parseIr(print(ir));
  EXPECT_TRUE(structurallyEqual(ir, *copy)) << print(ir);
  EXPECT_EQ(print(*copy), print(ir));
  return test::onlyOp(*copy, "TestEveryAttribute").attributes();
}

TEST(IrText, attributes_of_every_kind_survive) {
  using Limits = std::numeric_limits<int64_t>;
  const std::vector<Attributes> lists = {
      {{"int", Limits::min()}, {"float", 0.1f}, {"string", std::string("a\"b\\c\n\x01\xc3\xa9")}},
      {{"ints", std::vector<int64_t>{}}, {"floats", std::vector<float>{}}, {"strings", std::vector<std::string>{}}},
      {{"ints", std::vector<int64_t>{Limits::max(), -1}}, {"floats", std::vector<float>{1.f, -0.f, 1e-45f, 3.4e38f}}},
      {{"float", std::numeric_limits<float>::infinity()}, {"strings", std::vector<std::string>{"", "x, y]"}}},
      {{"float", -std::numeric_limits<float>::infinity()}, {"graph", GraphRef{"some graph"}}},
      {{"tensor", TensorData::of<int32_t>({2, 1}, std::vector<int32_t>{1, 2})}, {"int", int64_t{-7}}},
      {{"tensor", TensorData::of<float>({0}, std::vector<float>{})}, {"float", 16777217.f}},
  };
  for (const Attributes &list : lists) EXPECT_EQ(roundTrip(list), list);
}

TEST(IrText, not_a_number_keeps_its_bits) {
  const float nan = std::bit_cast<float>(0xffc12345u);
  const Attributes read = roundTrip({{"float", nan}, {"floats", std::vector<float>{nan, 1.f}}});
  EXPECT_EQ(std::bit_cast<uint32_t>(read.getAttribute<float>("float")), 0xffc12345u);
  EXPECT_EQ(std::bit_cast<uint32_t>(read.getAttribute<std::vector<float>>("floats")[0]), 0xffc12345u);
}

// Random bytes of this type and element count; bools stay 0 or 1.
TensorData randomValues(DataType type, int64_t count) {
  TensorData data(TensorInfo(type, {count}));
  std::mt19937 generator(static_cast<unsigned>(count));
  auto *p = static_cast<unsigned char *>(data.mutableData());
  for (int64_t i = 0; i < data.nbytes(); ++i)
    p[i] = static_cast<unsigned char>(generator() & (type == DataType::BOOL ? 1 : 255));
  return data;
}

TEST(IrText, values_of_every_type_and_length_survive) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    if (getDataTypeInfo(type).nbytes <= 0) continue;
    for (int64_t count : {0, 1, 2, 64, 65, 300}) {
      Ir ir;
      const TensorData data = randomValues(type, count);
      ir.getMainGraph().addConstant("c", data);
      const auto copy = parseIr(print(ir));
      EXPECT_EQ(copy->getMainGraph().getTensor("c")->tensorData(), data) << toText(type) << " " << count;
    }
  }
}

TEST(IrText, equal_values_are_written_once) {
  Ir ir;
  ir.getMainGraph().addVariable("w", TensorData(TensorInfo(DataType::FLOAT16, {1000, 1000})));
  EXPECT_EQ(print(ir), "main {\n  variable %w : float16[1000, 1000] = 0\n}\n");
  EXPECT_TRUE(structurallyEqual(ir, *parseIr(print(ir))));
}

TEST(IrText, settings_survive) {
  const auto ir = parseIr("main {\n  input %x : float32[4]\n  %y = Relu(%x)\n  return %y\n}\n");
  Op::Settings &s = test::onlyOp(*ir, "Relu").settings;
  s.name = "n", s.scope = "a/b", s.vgraphId = 3, s.pipelineStage = -1, s.executionPhase = 2;
  s.recomputeType = RecomputeType::Recompute, s.executionContext = ExecutionContext::OptimizerFromHostFragment;
  s.tileSet = TileSet::IO, s.schedulePriority = 0.1;
  s.tensorLocation = TensorLocation(TensorStorage::OffChip, TileSet::IO, TileSet::Compute, ReplicatedTensorSharding::On,
                                    CommGroup(CommGroupType::Orthogonal, 4));
  s.excludePatterns = {"A", "B"}, s.inplacePreferences = {{"ReluInplace", 0.3f}};
  s.extraOutlineAttributes = {{"k", "v"}}, s.hints = {{"partials", "half"}};
  const auto copy = parseIr(print(*ir));
  EXPECT_EQ(print(*copy), print(*ir));
  const Op::Settings &c = test::onlyOp(*copy, "Relu").settings;
  EXPECT_EQ(c.name, s.name);
  EXPECT_EQ(c.scope, s.scope);
  EXPECT_EQ(c.vgraphId, s.vgraphId);
  EXPECT_EQ(c.pipelineStage, s.pipelineStage);
  EXPECT_EQ(c.executionPhase, s.executionPhase);
  EXPECT_EQ(c.recomputeType, s.recomputeType);
  EXPECT_EQ(c.executionContext, s.executionContext);
  EXPECT_EQ(c.tileSet, s.tileSet);
  EXPECT_EQ(c.schedulePriority, s.schedulePriority);
  EXPECT_EQ(c.tensorLocation, s.tensorLocation);
  EXPECT_EQ(c.excludePatterns, s.excludePatterns);
  EXPECT_EQ(c.inplacePreferences, s.inplacePreferences);
  EXPECT_EQ(c.extraOutlineAttributes, s.extraOutlineAttributes);
  EXPECT_EQ(c.hints, s.hints);
}

TEST(IrText, a_summary_hides_long_values_and_says_so_when_read) {
  const auto ir = parseIr("main {\n  const %c : int32[17] = [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]\n}\n");
  const std::string text = print(*ir, PrintData::Summary);
  EXPECT_THAT(text, HasSubstr("= hash "));
  EXPECT_THAT(parseError(text), HasSubstr("this is a summary"));
}

TEST(IrText, errors_name_the_line) {
  const std::pair<const char *, const char *> cases[] = {
      {"main {\n  input %x : float33[2]\n}", "line 2: "},
      {"main {\n\n  %y = Relo(%x)\n}", "line 3: unknown operator 'Relo'. Nearest known operators: Relu"},
      {"main {\n  %y = Relu(%x)\n}", "line 2: the main graph: no tensor 'x'"},
      {"main {\n  input %x : float32[2]\n  %y : float32[3] = Relu(%x)\n}",
       "line 3: Relu '100': output 'y' has another type or shape"},
      {"main {\n  input %x : float32[2]\n  %y = Relu(%x) {alpha = 1}\n}", "line 3: Relu '': unknown attribute 'alpha'"},
      {"main {\n  input %x : float32[2]\n  %y = Relu(%x) <stge = 1>\n}", "line 3: op settings: unknown field 'stge'"},
      {"main {\n  input %x : float32[2]\n  %x = Relu(%x)\n}", "line 3: the main graph: tensor 'x' exists already"},
      {"main {\n  const %c : int8[2] = [1, 200]\n}", "line 2: number '200' is out of range"},
      {"main {\n  const %c : int8[2] = [1]\n}", "line 2: wrong number of values"},
      {"main {\n  const %c : float32[1000000, 1000000] = 0\n}",
       "line 2: equal values for float32[1000000, 1000000] exceed"},
      {"main {\n  const %c : bool[2] = [0, 2]\n}", "line 2: a bool is 0 or 1"},
      {"main {\n  const %c : float32[2] = hex \"00\"\n}", "line 2: wrong number of hexadecimal digits"},
      {"main {\n  order #1, #2\n}", "line 2: no operator has the label '#1'"},
      {"main {\n  return \"abc\n}", "line 2: the string that starts here does not end"},
      {"main {\n  ^\n}", "line 2: unexpected character"},
      {"main {\n", "got the end of the text"},
      {"main {\n  %z = Call() {callee = @f}\n}", "line 2: Call '100': there is no graph 'f'"},
      {"main {}\nmain {}", "line 2: the main graph is given twice"},
      {"main {\n  input %x : float32[-2]\n}", "line 2: shape [-2]: negative dimension"},
  };
  for (const auto &[text, message] : cases) EXPECT_THAT(parseError(text), HasSubstr(message)) << text;
}

TEST(IrText, cycles_and_recursion_are_refused) {
  EXPECT_THAT(parseError("main {\n  %a : float32[2] = Relu(%b)\n  %b : float32[2] = Relu(%a)\n}"),
              HasSubstr("has a cycle"));
  EXPECT_THAT(parseError("graph @f {\n  Call() {callee = @f}\n}"), HasSubstr("calls itself"));
  EXPECT_THAT(parseError("graph @f {\n  variable %v : float32[2] = 0\n}"), HasSubstr("outside the main graph"));
}

TEST(IrText, damaged_text_is_refused_or_read_but_never_crashes) {
  std::mt19937 generator(7);
  int refused = 0;
  for (int n = 0; n < 3000; ++n) {
    std::string text = kProgram;
    for (int edits = 1 + static_cast<int>(generator() % 3); edits > 0; --edits) {
      const size_t at = generator() % text.size();
      const size_t length = 1 + generator() % 12;
      switch (generator() % 4) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, text.substr(generator() % text.size(), length));
          break;
        case 2:
          text[at] = "{}()[]<>=:,#%@\"_-09a"[generator() % 20];
          break;
        default:
          text.resize(at);
          break;
      }
      if (text.empty()) break;
    }
    try {
      const auto ir = parseIr(text);
      EXPECT_TRUE(structurallyEqual(*ir, *parseIr(print(*ir)))) << text;
    } catch (const error &) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace popart
