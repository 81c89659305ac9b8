// Rows that say how they fall into pieces are right: every op of the programs of gradient cases, and some others, gives
// in pieces the bits that it gives whole.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

#include <popart/ir.hpp>

#include "../support/any_run.hpp"
#include "../support/gradient_cases.hpp"
#include "ops/pieces.hpp"
#include "transforms/batch_part.hpp"

namespace popart::testing {
namespace {

using Ints = std::vector<int64_t>;

// Small numbers of both signs; whole ones and flags are 0 or 1, so that they are indices.
std::vector<char> someBytes(const TensorInfo &info, int seed) {
  const std::vector<float> numbers = test::numbers(info.nelms(), seed);
  std::vector<double> values(numbers.begin(), numbers.end());
  if (!isFloatingPoint(info.dataType()))
    for (double &v : values) v = v < 0 ? 0 : 1;
  const TensorData data = TensorData::fromDoubles(info, values);
  const auto *bytes = static_cast<const char *>(data.data());
  return {bytes, bytes + info.nbytes()};
}

// The op on streams of its own, whole or in pieces that are joined.
std::unique_ptr<Ir> programOf(const Op &op, const Pieces *pieces) {
  auto ir = std::make_unique<Ir>();
  Graph &graph = ir->getMainGraph();
  std::vector<TensorIndex> inputs;
  for (int i = 0; i < op.inputCount(); ++i)
    inputs.push_back(op.hasInput(i) ? graph.addStream("in" + std::to_string(i), op.inInfo(i)) : TensorIndex{});
  std::vector<std::vector<TensorIndex>> outputs(static_cast<size_t>(op.outputCount()));
  const int64_t count = pieces ? pieces->count : 1;
  for (int64_t piece = 0; piece < count; ++piece) {
    std::vector<TensorIndex> own = inputs;
    for (size_t i = 0; pieces && i < own.size(); ++i) {
      if (pieces->in[i] == Pieces::kWhole || !own[i].valid()) continue;
      const int64_t size = graph.info(own[i]).dim(pieces->in[i]) / count;
      own[i] =
          graph
              .addConnectedOp(
                  opDef("Slice"), {own[i]}, {graph.freeId("slice")},
                  {{"axes", Ints{pieces->in[i]}}, {"starts", Ints{piece * size}}, {"ends", Ints{(piece + 1) * size}}},
                  Op::Settings(graph))
              ->outputs()[0];
    }
    Pieces one;
    one.out.assign(op.outputs().size(), 0);
    const Op *made = transforms::copyPart(op, pieces ? *pieces : one, graph, own, Op::Settings(graph), "/piece");
    for (size_t o = 0; o < outputs.size(); ++o)
      if (op.outputs()[o].valid()) outputs[o].push_back(made->outputs()[o]);
  }
  std::vector<TensorIndex> results;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].empty()) continue;
    results.push_back(count == 1 ? outputs[o][0]
                                 : graph
                                       .addConnectedOp(opDef("Concat"), outputs[o], {graph.freeId("joined")},
                                                       {{"axis", int64_t{pieces->out[o]}}}, Op::Settings(graph))
                                       ->outputs()[0]);
  }
  test::addHostIo(graph, results);
  verify(*ir);
  return ir;
}

using Bits = std::map<std::string, std::vector<uint32_t>>;
Bits resultsOf(const Ir &ir, int seed) {
  test::ProgramRun run(ir);
  for (const auto &input : run.executable().inputs) run.feed(input.id, someBytes(input.info, seed));
  run.run();
  Bits results;
  for (const auto &output : run.executable().outputs)
    if (output.info.dataType() == DataType::FLOAT)
      for (const float value : run.anchor(output.id)) results[output.id].push_back(std::bit_cast<uint32_t>(value));
  return results;
}

// Compares each way in which the op falls into 2 or 3 pieces; gives how many there are.
int comparePieces(const Op &op) {
  int ways = 0;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    for (int axis = 0; op.hasInput(i) && axis < op.inRank(i); ++axis)
      for (const int64_t count : {2, 3}) {
        const std::optional<Pieces> pieces = ops::piecesOf(op, i, axis, count);
        if (!pieces) continue;
        SCOPED_TRACE(op.opType() + " input " + std::to_string(i) + " axis " + std::to_string(axis) + " in " +
                     std::to_string(count));
        ++ways;
        Bits whole, joined;
        EXPECT_NO_THROW(whole = resultsOf(*programOf(op, nullptr), 5));
        EXPECT_NO_THROW(joined = resultsOf(*programOf(op, &*pieces), 5));
        EXPECT_EQ(whole, joined);
      }
  return ways;
}

// Type, attributes and operands.
std::string textOf(const Op &op) {
  std::string text = op.opType();
  for (const auto &[name, value] : op.attributes().entries()) {
    if (const auto *ints = std::get_if<Ints>(&value)) text += " " + name + toText(*ints);
    if (const auto *number = std::get_if<int64_t>(&value)) text += " " + name + toText(*number);
    if (const auto *word = std::get_if<std::string>(&value)) text += " " + name + *word;
  }
  for (InIndex i = 0; i < op.inputCount(); ++i) text += op.hasInput(i) ? op.inInfo(i).str() : "_";
  return text;
}

// Rows that fall into pieces in some case; each other row is of the kind that works across the axis or has no rule.
std::map<std::string, int> waysByType() {
  std::map<std::string, int> ways;
  std::set<std::string> seen;
  for (const test::GradientCase &c : test::gradientCases()) {
    const std::unique_ptr<Ir> ir = test::gradientProgram(c);
    for (const Op *op : ir->getMainGraph().ops()) {
      if (seen.insert(textOf(*op)).second) ways[op->opType()] += comparePieces(*op);
    }
  }
  return ways;
}

TEST(Pieces, GiveTheBitsOfTheWhole) {
  const std::map<std::string, int> ways = waysByType();
  for (const char *type : {"Add",
                           "AddArg0Grad",
                           "MatMul",
                           "MatMulLhsGrad",
                           "Conv",
                           "ConvDataGrad",
                           "MaxPool",
                           "MaxPoolGrad",
                           "BatchNormalization",
                           "GroupNormalization",
                           "LayerNormalization",
                           "Softmax",
                           "SoftmaxGrad",
                           "ReduceSum",
                           "ReduceSumGrad",
                           "ReduceMeanGrad",
                           "Reshape",
                           "Transpose",
                           "Concat",
                           "ConcatGrad",
                           "Slice",
                           "Gather",
                           "Expand",
                           "Nll",
                           "NllGrad",
                           "Where",
                           "CumSum"})
    EXPECT_GT(ways.count(type) ? ways.at(type) : 0, 0) << type << " never falls apart";
  for (const char *type : {"Dropout", "ShapedDropout", "ConvWeightsGrad", "BatchNormalizationGrad", "GatherGrad"})
    EXPECT_EQ(ways.count(type) ? ways.at(type) : 0, 0) << type;
}

// ---- what decides, where shapes alone do not tell

class Row {
 public:
  Row(const std::string &type, const std::vector<TensorInfo> &inputs, const Attributes &attributes = {}) {
    Graph &graph = ir_.getMainGraph();
    std::vector<TensorIndex> streams;
    for (const TensorInfo &info : inputs) streams.push_back(graph.addStream(graph.freeId("in"), info));
    op_ = graph.addConnectedOp(opDef(type), streams, {"out"}, attributes, Op::Settings(graph));
  }
  bool falls(int axis, int64_t count, InIndex input = 0) const {
    return ops::piecesOf(*op_, input, axis, count).has_value();
  }
  Pieces pieces(int axis, int64_t count) const { return ops::piecesOf(*op_, 0, axis, count).value(); }

 private:
  Ir ir_;
  const Op *op_ = nullptr;
};

TensorInfo floats(Shape shape) { return {DataType::FLOAT, std::move(shape)}; }

TEST(Pieces, OperandsThatAreBroadcastStayWhole) {
  const Row add("Add", {floats({4, 1, 6}), floats({3, 6})});
  EXPECT_EQ(add.pieces(0, 2).in, (std::vector<int>{0, Pieces::kWhole}));
  EXPECT_EQ(add.pieces(2, 3).in, (std::vector<int>{2, 1}));
  EXPECT_FALSE(add.falls(0, 3));  // 4 is no multiple of 3
}

TEST(Pieces, ViewsKeepBlocksOfTheSameElements) {
  const Attributes flat{{"shape", Ints{32}}}, rows{{"shape", Ints{8, 4}}};
  EXPECT_EQ(Row("Reshape", {floats({4, 2, 4})}, rows).pieces(0, 2).out[0], 0);
  EXPECT_EQ(Row("Reshape", {floats({4, 2, 4})}, flat).pieces(0, 4).out[0], 0);
  EXPECT_FALSE(Row("Reshape", {floats({4, 2, 4})}, flat).falls(1, 2));
  EXPECT_FALSE(Row("Squeeze", {floats({2, 3})}).falls(0, 2));  // the axis of a piece would go
  EXPECT_TRUE(Row("Squeeze", {floats({4, 1, 3})}).falls(0, 2));
}

TEST(Pieces, WhatWorksAlongTheAxisDoesNotFallApart) {
  EXPECT_FALSE(Row("Softmax", {floats({4, 6})}, {{"axis", int64_t{0}}}).falls(0, 2));
  EXPECT_TRUE(Row("Softmax", {floats({4, 6})}, {{"axis", int64_t{1}}}).falls(0, 2));
  EXPECT_FALSE(Row("ReduceSum", {floats({4, 6})}).falls(0, 2));
  EXPECT_FALSE(Row("Slice", {floats({4})}, {{"starts", Ints{3}}, {"ends", Ints{-9}}, {"steps", Ints{-1}}}).falls(0, 2));
  EXPECT_FALSE(Row("Pad", {floats({4})}, {{"pads", Ints{1, -1}}}).falls(0, 2));
  EXPECT_FALSE(Row("MatMul", {floats({4, 6}), floats({6, 2})}).falls(1, 2));
  EXPECT_TRUE(Row("MatMul", {floats({4, 6}), floats({6, 2})}).falls(1, 2, 1));
}

TEST(Pieces, MeansOverAllElementsHaveNoPartsInTheirGradients) {
  const std::vector<TensorInfo> operands{floats({4, 3}), TensorInfo(DataType::INT32, {4}), floats({})};
  EXPECT_FALSE(Row("NllGrad", operands, {{"reduction", std::string("Mean")}}).falls(0, 2));
  EXPECT_TRUE(Row("NllGrad", operands, {{"reduction", std::string("Sum")}}).falls(0, 2));
}

}  // namespace
}  // namespace popart::testing
