// Gradient graphs: their inputs, outputs and names, extra outputs of the forward graph, nested calls, and refusals.
#include <gtest/gtest.h>

#include <algorithm>

#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "autodiff/autodiff.hpp"

namespace popart {
namespace {

using autodiff::ConnectionType;
using autodiff::ExpectedConnection;
using test::GraphBuilder;
using test::numbers;
using test::ProgramRun;
using Ids = std::vector<TensorId>;

// head(x, w) = activation(x w)
Graph &makeHead(Ir &ir, const std::string &activation) {
  Graph &graph = ir.createGraph(ir.createUniqueSubgraphId("head"));
  GraphBuilder b(graph);
  auto x = b.input("x", {3, 5}), w = b.input("w", {5, 2});
  graph.markOutput(b.op(activation, {b.op("MatMul", {x, w}, "matmul_out")}, "activation_out"));
  return graph;
}

TEST(Differentiate, GradientGraphHasTheDocumentedForm) {
  Ir ir;
  Graph &head = makeHead(ir, "Relu");
  const auto infos = autodiff::differentiate(ir, head.id, nullptr, nullptr);
  ASSERT_EQ(infos.size(), 1u);
  const auto &info = infos.at(head.id);
  EXPECT_EQ(info.gradient, "head_subgraph(0)_bwd");
  const Graph &g = ir.getGraph(info.gradient);
  EXPECT_EQ(g.getInputIds(),
            (Ids{g.id + "/Gradient___activation_out", g.id + "/activation_out", g.id + "/w", g.id + "/x"}));
  EXPECT_EQ(g.getOutputIds(), (Ids{g.id + "/Gradient___x", g.id + "/Gradient___w"}));
  EXPECT_EQ(info.expectedInputs[0], (ExpectedConnection{head.id + "/activation_out", ConnectionType::FwdGrad}));
  EXPECT_EQ(info.expectedInputs[2], (ExpectedConnection{head.id + "/w", ConnectionType::Fwd}));
  EXPECT_EQ(info.expectedOutputs[1], (ExpectedConnection{head.id + "/w", ConnectionType::FwdGrad}));
  EXPECT_EQ(head.outputs().size(), 1u);
  EXPECT_EQ(test::countOps(g, "Sum"), 3);
  EXPECT_EQ(test::countOps(g, "ReluGrad"), 1);
  EXPECT_EQ(test::countOps(g, "MatMulLhsGrad"), 1);
  EXPECT_EQ(test::countOps(g, "MatMulRhsGrad"), 1);
}

TEST(Differentiate, HiddenActivationsBecomeOutputsOfGraphAndCallSites) {
  Ir ir;
  Graph &head = makeHead(ir, "Gelu");
  GraphBuilder main(ir.getMainGraph());
  auto x = main.variable("x", {3, 5}, numbers(15)), w = main.variable("w", {5, 2}, numbers(10));
  main.op("Call", {x, w}, "y", {{"callee", GraphRef{head.id}}});
  autodiff::differentiate(ir, head.id, nullptr, nullptr);
  EXPECT_EQ(head.getOutputIds(), (Ids{head.id + "/activation_out", head.id + "/matmul_out"}));
  Op *call = ir.getMainGraph().getTensor("y")->getProducer();
  ASSERT_EQ(call->outputCount(), 2);
  EXPECT_EQ(call->outId(1), "autodiff_output__t0");
  EXPECT_EQ(call->outInfo(1), TensorInfo(DataType::FLOAT, {3, 2}));
}

TEST(Differentiate, SecondGradientGraphGetsANumber) {
  Ir ir;
  Graph &head = makeHead(ir, "Gelu");
  autodiff::differentiate(ir, head.id, nullptr, nullptr);
  const auto again = autodiff::differentiate(ir, head.id, nullptr, nullptr);
  EXPECT_EQ(again.at(head.id).gradient.rfind(head.id + "_bwd_", 0), 0u);
  EXPECT_EQ(head.outputs().size(), 2u);
}

TEST(Differentiate, RequiredGradientsKeepTheirOrder) {
  Ir ir;
  Graph &head = makeHead(ir, "Relu");
  const Ids required{head.id + "/w", head.id + "/matmul_out"};
  const auto infos = autodiff::differentiate(ir, head.id, nullptr, &required);
  const Graph &g = ir.getGraph(infos.at(head.id).gradient);
  EXPECT_EQ(g.getOutputIds(), (Ids{g.id + "/Gradient___w", g.id + "/Gradient___matmul_out"}));
  EXPECT_EQ(test::countOps(g, "MatMulLhsGrad"), 0);
}

// loss = sum(outer(x, w)), outer calls inner twice: gradients through nested calls against finite differences.
std::unique_ptr<Ir> nestedProgram(const std::vector<float> &x, const std::vector<float> &w, bool withGradient) {
  auto ir = std::make_unique<Ir>();
  Graph &inner = ir->createGraph(ir->createUniqueSubgraphId("inner"));
  GraphBuilder i(inner);
  auto ix = i.input("x", {2, 3}), iw = i.input("w", {3, 3});
  inner.markOutput(i.op("Tanh", {i.op("MatMul", {ix, iw}, "product")}, "y"));
  Graph &outer = ir->createGraph(ir->createUniqueSubgraphId("outer"));
  GraphBuilder o(outer);
  auto ox = o.input("x", {2, 3}), ow = o.input("w", {3, 3});
  auto first = o.op("Call", {ox, ow}, "first", {{"callee", GraphRef{inner.id}}});
  auto second = o.op("Call", {o.op("Mul", {first, ox}, "scaled"), ow}, "second", {{"callee", GraphRef{inner.id}}});
  outer.markOutput(o.op("Add", {first, second}, "both"));
  GraphBuilder m(ir->getMainGraph());
  auto mx = m.variable("x", {2, 3}, x), mw = m.variable("w", {3, 3}, w);
  auto y = m.op("Call", {mx, mw}, "y", {{"callee", GraphRef{outer.id}}});
  auto loss = m.op("ReduceSum", {y}, "loss", {{"keepdims", int64_t{0}}});
  Graph &main = ir->getMainGraph();
  if (withGradient) {
    const auto seed = m.constant("one", {}, {1.0f});
    const auto gradients = autodiff::growBackward(main, "loss", seed, {"x", "w"});
    EXPECT_EQ(gradients.at("x"), "Gradient___x");
    for (const char *id : {"x", "w"})
      main.addConnectedOp(opDef("HostStore"), {main.find(gradients.at(id))}, {}, {{"stream", std::string("g_") + id}},
                          Op::Settings(main));
  }
  main.addConnectedOp(opDef("HostStore"), {loss}, {}, {{"stream", std::string("loss")}}, Op::Settings(main));
  return ir;
}

TEST(GrowBackward, GradientsThroughNestedCallsAgreeWithFiniteDifferences) {
  const auto x = numbers(6, 3), w = numbers(9, 5);
  ProgramRun exact(*nestedProgram(x, w, true));
  exact.run();
  const float step = 1e-2f;
  auto lossAt = [](const std::vector<float> &a, const std::vector<float> &b) {
    ProgramRun run(*nestedProgram(a, b, false));
    run.run();
    return static_cast<double>(run.anchor("loss")[0]);
  };
  for (size_t i = 0; i < w.size(); ++i) {
    auto up = w, down = w;
    up[i] += step, down[i] -= step;
    EXPECT_NEAR(exact.anchor("g_w")[i], (lossAt(x, up) - lossAt(x, down)) / (2 * step), 2e-3) << "w " << i;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    auto up = x, down = x;
    up[i] += step, down[i] -= step;
    EXPECT_NEAR(exact.anchor("g_x")[i], (lossAt(up, w) - lossAt(down, w)) / (2 * step), 2e-3) << "x " << i;
  }
}

TEST(GrowBackward, BroadcastAndRepeatedUsesAddUp) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto a = b.variable("a", {3}, {1, 2, 3}), m = b.variable("m", {2, 3}, numbers(6));
  auto y = b.op("Mul", {b.op("Add", {m, a}, "s"), a}, "y");
  b.op("ReduceSum", {y}, "loss", {{"keepdims", int64_t{0}}});
  auto one = b.constant("one", {}, {1.0f});
  const auto gradients = autodiff::growBackward(ir.getMainGraph(), "loss", one, {"a"});
  Graph &main = ir.getMainGraph();
  main.addConnectedOp(opDef("HostStore"), {main.find(gradients.at("a"))}, {}, {{"stream", std::string("g")}},
                      Op::Settings(main));
  ProgramRun run(ir);
  run.run();
  const auto values = numbers(6);
  for (int j = 0; j < 3; ++j)  // d/da sum((m + a) a) = sum_rows(m + 2 a)
    EXPECT_NEAR(run.anchor("g")[j], values[j] + values[3 + j] + 4.0f * static_cast<float>(j + 1), 1e-5);
}

TEST(GrowBackward, DetachStopsTheGradient) {
  Ir ir;
  GraphBuilder b(ir.getMainGraph());
  auto a = b.variable("a", {2}, {1, 2}), c = b.variable("c", {2}, {3, 4});
  b.op("ReduceSum", {b.op("Mul", {b.op("Detach", {a}, "d"), c}, "y")}, "loss", {{"keepdims", int64_t{0}}});
  const auto gradients = autodiff::growBackward(ir.getMainGraph(), "loss", b.constant("one", {}, {1.0f}), {"a", "c"});
  EXPECT_EQ(gradients.count("a"), 0u);
  EXPECT_EQ(gradients.count("c"), 1u);
}

std::string differentiateError(Ir &ir, const GraphId &id, const Ids *provided, const Ids *required) {
  return test::messageOf([&] { autodiff::differentiate(ir, id, provided, required); });
}

TEST(Differentiate, RefusesWhatHasNoGradientAndLeavesNoGraphBehind) {
  Ir ir;
  Graph &graph = ir.createGraph("f");
  GraphBuilder b(graph);
  auto x = b.input("x", {4, 2});
  b.input("labels", {4}, DataType::INT32);
  graph.markOutput(b.op("Exp", {x}, "y"));
  EXPECT_NE(differentiateError(ir, "f", nullptr, nullptr).find("f/labels"), std::string::npos);
  EXPECT_FALSE(ir.hasGraph("f_bwd"));
  const Ids none;
  EXPECT_NE(differentiateError(ir, "f", nullptr, &none).find("empty"), std::string::npos);
  const Ids unknown{"f/z"};
  EXPECT_NE(differentiateError(ir, "f", &unknown, nullptr).find("'f/z'"), std::string::npos);
  const Ids onlyX{"f/x"};
  EXPECT_EQ(differentiateError(ir, "f", nullptr, &onlyX), "no error");
}

TEST(Differentiate, RefusesOpsThatWriteToTheirInputs) {
  Ir ir;
  Graph &graph = ir.createGraph("f");
  GraphBuilder b(graph);
  auto x = b.input("x", {2}), y = b.input("y", {2});
  graph.markOutput(b.op("Accumulate", {x, y}, "z"));
  EXPECT_NE(differentiateError(ir, "f", nullptr, nullptr).find("writes to one of its inputs"), std::string::npos);
}

}  // namespace
}  // namespace popart
