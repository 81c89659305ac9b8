// Rewrites, each with a graph that nearly matches, and the Patterns class.
#include <gtest/gtest.h>

#include <sstream>

#include "../support/program.hpp"
#include "patterns/pattern.hpp"

namespace popart {
namespace {

using test::countOps;
using test::GraphBuilder;

int rewrite(Graph &graph, std::set<TensorId> anchors = {}, const Patterns &patterns = Patterns()) {
  const int count = patterns::applyPatterns(graph, patterns, anchors);
  EXPECT_EQ(patterns::applyPatterns(graph, patterns, anchors), 0) << "the second run changes nothing";
  return count;
}

TEST(PostNRepl, IdentityBetweenAnchorsStays) {
  for (bool anchored : {false, true}) {
    Ir ir;
    GraphBuilder b(ir.getMainGraph());
    auto h = b.op("Exp", {b.stream("x", DataType::FLOAT, {2})}, "h");
    b.op("Log", {b.op("Identity", {h}, "i")}, "y");
    rewrite(ir.getMainGraph(), anchored ? std::set<TensorId>{"h", "i", "y"} : std::set<TensorId>{"y"});
    EXPECT_EQ(countOps(ir.getMainGraph(), "Identity"), anchored ? 1 : 0);
    EXPECT_EQ(ir.getMainGraph().getTensor("y")->getProducer()->inTensor(0)->getProducer()->opType(),
              anchored ? "Identity" : "Exp");
  }
}

TEST(PostNRepl, AnchoredIdOfAMergedTensorStays) {
  for (const char *anchor : {"h", "i"}) {
    Ir ir;
    GraphBuilder b(ir.getMainGraph());
    auto h = b.op("Exp", {b.stream("x", DataType::FLOAT, {2})}, "h");
    b.op("Sum", {h}, "i");
    EXPECT_EQ(rewrite(ir.getMainGraph(), {anchor}), 1);
    EXPECT_EQ(ir.getMainGraph().getTensor(anchor)->getProducer()->opType(), "Exp");
  }
}

TEST(PostNRepl, ExcludedOpStays) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto i = b.op("Identity", {b.op("Exp", {b.stream("x", DataType::FLOAT, {2})}, "h")}, "i");
  b.op("Log", {i}, "y");
  ir.getMainGraph().tensor(i).getProducer()->settings.excludePatterns = {"PreUniRepl", "PostNRepl"};
  EXPECT_EQ(rewrite(ir.getMainGraph(), {"y"}), 0);
}

TEST(OpToIdentity, RemovesOnlyReshapesThatKeepTheShape) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto x = b.op("Exp", {b.stream("x", DataType::FLOAT, {2, 3})}, "h");
  auto same = b.op("Reshape", {x}, "same", {{"shape", Shape{2, 3}}});
  b.op("Reshape", {same}, "flat", {{"shape", Shape{6}}});
  rewrite(ir.getMainGraph(), {"flat"});
  EXPECT_EQ(countOps(ir.getMainGraph(), "Reshape"), 1);
  EXPECT_EQ(countOps(ir.getMainGraph(), "Identity"), 0);
}

TEST(SumToAdd, TakesExactlyTwoInputs) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto x = b.stream("x", DataType::FLOAT, {2}), y = b.stream("y", DataType::FLOAT, {2});
  b.op("Sum", {x, y}, "two");
  b.op("Sum", {x, y, x}, "three");
  EXPECT_EQ(rewrite(ir.getMainGraph(), {"two", "three"}), 1);
  EXPECT_EQ(ir.getMainGraph().getTensor("two")->getProducer()->opType(), "Add");
  EXPECT_EQ(ir.getMainGraph().getTensor("three")->getProducer()->opType(), "Sum");
}

// probs = Softmax(x), loss = Nll(probs, labels), dx = SoftmaxGrad(NllGrad(probs, labels, g), probs)
void buildLoss(GraphBuilder &b, int64_t axis, bool gradientFromLoss) {
  const Shape shape = {3, 3};
  auto x = b.stream("x", DataType::FLOAT, shape), labels = b.stream("labels", DataType::INT32, {3});
  auto p = b.op("Softmax", {x}, "probs", {{"axis", axis}});
  auto loss = b.op("Nll", {p, labels}, "loss");
  auto g = gradientFromLoss ? b.op("Exp", {loss}, "g") : b.constant("g", {}, {1.0f});
  b.op("SoftmaxGrad", {b.op("NllGrad", {p, labels, g}, "dp"), p}, "dx", {{"axis", axis}});
}

TEST(NlllWithSoftmaxGradDirect, FusesForwardAndGradient) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  buildLoss(b, 1, false);
  rewrite(ir.getMainGraph(), {"loss", "dx"});
  EXPECT_EQ(test::opTypes(ir.getMainGraph()), (std::vector<std::string>{"Softmax", "NlllWithSoftmaxGradDirect"}));
}

TEST(NlllWithSoftmaxGradDirect, StopsAtSoftmaxGradDirectWhenTheGradientNeedsTheLoss) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  buildLoss(b, 1, true);
  rewrite(ir.getMainGraph(), {"loss", "dx"});
  EXPECT_EQ(countOps(ir.getMainGraph(), "SoftmaxGradDirect"), 1);
  EXPECT_EQ(countOps(ir.getMainGraph(), "Nll"), 1);
}

TEST(SoftmaxGradDirect, NeedsTheClassAxisLastAndAHiddenGradient) {
  for (bool anchored : {false, true}) {
    Ir ir;
    GraphBuilder b(ir.getMainGraph());
    buildLoss(b, anchored ? 1 : 0, false);
    rewrite(ir.getMainGraph(), anchored ? std::set<TensorId>{"dp", "dx", "loss"} : std::set<TensorId>{"dx", "loss"});
    EXPECT_EQ(countOps(ir.getMainGraph(), "SoftmaxGrad"), 1);
  }
}

TEST(TransposeToReshape, OnlyUnitAxesMayMove) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto x = b.stream("x", DataType::FLOAT, {2, 1, 3});
  b.op("Transpose", {x}, "moves", {{"perm", Shape{1, 0, 2}}});
  b.op("Transpose", {x}, "stays", {{"perm", Shape{2, 1, 0}}});
  EXPECT_EQ(rewrite(ir.getMainGraph(), {"moves", "stays"}), 1);
  EXPECT_EQ(ir.getMainGraph().getTensor("moves")->getProducer()->opType(), "Reshape");
}

TEST(Patterns, LevelsAndNames) {
  EXPECT_TRUE(Patterns().isPatternEnabled("PostNRepl"));
  EXPECT_FALSE(Patterns().isPatternEnabled("SplitGather"));
  EXPECT_TRUE(Patterns(PatternsLevel::All).isPatternEnabled("SplitGather"));
  EXPECT_FALSE(Patterns(PatternsLevel::Minimal).isPatternEnabled("PostNRepl"));
  EXPECT_TRUE(Patterns(PatternsLevel::Minimal).isPatternEnabled("MatMulOp"));
  EXPECT_FALSE(Patterns(PatternsLevel::Minimal).isInPlaceEnabled());
  EXPECT_FALSE(Patterns(PatternsLevel::NoPatterns).isInPlaceEnabled());
  EXPECT_THROW(Patterns().enablePattern("MatMulOp", false), error);
  std::ostringstream text;
  text << Patterns({"SumToAdd", "PostNRepl"});
  EXPECT_EQ(text.str(), "PostNRepl SumToAdd");
}

TEST(Patterns, UnknownNamesSuggestTheNearest) {
  try {
    Patterns({"Inplace"});
    FAIL();
  } catch (const error &e) {
    EXPECT_NE(std::string(e.what()).find("Unknown pattern 'Inplace'"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("InPlace"), std::string::npos);
  }
}

TEST(Patterns, MandatoryOnesAreAskedForUnlessRuntimeAssertsAreOff) {
  Patterns none(PatternsLevel::NoPatterns);
  EXPECT_THROW(none.checkMandatory(), error);
  EXPECT_NO_THROW(none.enableRuntimeAsserts(false).checkMandatory());
}

}  // namespace
}  // namespace popart
