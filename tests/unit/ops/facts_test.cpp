// Facts on rows: roles, the way back through views, when an op is an identity, what it costs.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "evaluate_op.hpp"

namespace popart {
namespace {

using test::numbers;

const Op &opOf(const Ir &ir, Role role) {
  for (const Op *op : ir.getMainGraph().ops())
    if (op->is(role)) return *op;
  throw error("no such op in {}", print(ir));
}
const Op &lastOp(const Ir &ir) { return *ir.getMainGraph().ops().back(); }

TEST(Roles, EachBelongsToOneRow) {
  std::map<Role, const OpDef *> rows;
  for (const OpDef *def : allOpDefs()) {
    if (def->role() == Role::None) continue;
    EXPECT_FALSE(def->isInplaceVariant()) << def->type();
    EXPECT_TRUE(rows.emplace(def->role(), def).second) << def->type() << ", " << rows.at(def->role())->type();
  }
  EXPECT_EQ(rows.size(), static_cast<size_t>(Role::SGD0VarUpdate)) << "a role without a row, or more than are listed";
}

// ---- views

struct ViewCase {
  const char *type;
  std::vector<Shape> inputs;
  Attributes attributes;
};

const std::vector<ViewCase> &viewCases() {
  using Ints = std::vector<int64_t>;
  static const std::vector<ViewCase> cases = {
      {"Reshape", {{2, 3}}, {{"shape", Ints{3, 2}}}},
      {"Squeeze", {{2, 1, 3}}, {}},
      {"Unsqueeze", {{2, 3}}, {{"axes", Ints{1}}}},
      {"Identity", {{2, 3}}, {}},
      {"Detach", {{2, 3}}, {}},
      {"Transpose", {{2, 3, 4}}, {{"perm", Ints{2, 0, 1}}}},
      {"Transpose", {{2, 3, 4}}, {}},
      {"Slice", {{5, 4}}, {{"starts", Ints{1, 3}}, {"ends", Ints{5, 0}}, {"steps", Ints{2, -1}}}},
      {"Concat", {{2, 3}, {2, 1}, {2, 2}}, {{"axis", int64_t{-1}}}},
  };
  return cases;
}

TEST(Views, EveryRowThatHasOneIsTestedBelow) {
  std::set<std::string> tested, rows;
  for (const ViewCase &c : viewCases()) tested.insert(c.type);
  for (const OpDef *def : allOpDefs())
    if (def->writeBackRule() && !def->inplaces().empty()) rows.insert(def->type());
  EXPECT_EQ(tested, rows);
}

// Writing the view itself back changes nothing; what was written is seen through the view of the new values.
TEST(Views, WhatIsWrittenBackIsSeen) {
  for (const ViewCase &c : viewCases()) {
    SCOPED_TRACE(c.type);
    std::vector<TensorData> values;
    for (const Shape &shape : c.inputs)
      values.push_back(TensorData::of<float>(shape, numbers(elementCount(shape), static_cast<int>(values.size()) + 1)));
    const TensorData seen = testing::evaluateOp(c.type, c.attributes, values)[0];
    const TensorData other = TensorData::of<float>(seen.info().shape(), numbers(seen.info().nelms(), 9));
    for (const TensorData &written : {seen, other}) {
      Ir ir;
      Graph &graph = ir.getMainGraph();
      std::vector<TensorIndex> inputs;
      for (const TensorData &v : values) inputs.push_back(graph.addConstant(graph.freeId("in"), v));
      const TensorIndex result = graph.addConstant("written", written);
      const Op *view = graph.addConnectedOp(opDef(c.type), inputs, {"y"}, c.attributes, Op::Settings(graph));
      OpEmitter emitter(graph, *view);
      const std::vector<TensorIndex> back = view->def().writeBackRule()(emitter, inputs, result);
      ASSERT_EQ(back.size(), inputs.size());
      verify(ir);
      std::map<TensorIndex, TensorData> known;
      for (size_t i = 0; i < inputs.size(); ++i) known[inputs[i]] = values[i];
      known[result] = written;
      for (const Op *op : graph.getOpSchedule()) {
        std::vector<TensorData> operands;
        for (TensorIndex t : op->inputs()) operands.push_back(known.at(t));
        known[op->outputs()[0]] = ref::evaluate(*op, operands)[0];
      }
      std::vector<TensorData> fresh;
      for (TensorIndex t : back) fresh.push_back(known.at(t));
      EXPECT_EQ(testing::evaluateOp(c.type, c.attributes, fresh)[0], written);
      if (written != seen) continue;
      for (size_t i = 0; i < fresh.size(); ++i) EXPECT_EQ(fresh[i], values[i]) << "input " << i;
    }
  }
}

// ---- identities

bool isIdentity(const std::string &line) {
  const std::unique_ptr<Ir> ir =
      parseIr("main {\n stream %x : float32[2, 3]\n stream %z : float32[2, 3]\n " + line + "\n return %y\n}");
  return lastOp(*ir).isIdentity();
}

TEST(Identities, FollowFromAttributesAndInfos) {
  for (const char *line : {
           "%y : float32[2, 3] = Reshape(%x) {shape = [2, 3]}",
           "%y : float32[2, 3] = Transpose(%x) {perm = [0, 1]}",
           "%y : float32[2, 3] = Concat(%x) {axis = 0}",
           "%y : float32[2, 3] = Sum(%x)",
           "%y : float32[2, 3] = Cast(%x) {to = 1}",
           "%y : float32[2, 3] = Scale(%x) {scale = 1f}",
           "%y : float32[2, 3] = Pad(%x) {pads = [0, 0, 0, 0]}",
           "%y : float32[2, 3] = Slice(%x) {starts = [0], ends = [2]}",
           "%y : float32[2, 3] = Expand(%x) {shape = [3]}",
           "%y : float32[2, 3] = Tile(%x) {repeats = [1, 1]}",
           "%y : float32[2, 3] = Split(%x) {axis = 1}",
           "%y : float32[2, 3] = Dropout(%x)",
           "%y : float32[2, 3] = ReduceSumTo(%x) {shape = [2, 3]}",
           "%y : float32[2, 3] = Resize(%x) {sizes = [2, 3], mode = \"linear\"}",
           "%y : float32[2, 3] = ResizeGrad(%x) {sizes = [2, 3], mode = \"linear\", fwd_shape = [2, 3]}",
       })
    EXPECT_TRUE(isIdentity(line)) << line;
  for (const char *line : {
           "%y : float32[3, 2] = Reshape(%x) {shape = [3, 2]}",
           "%y : float32[3, 2] = Transpose(%x)",
           "%y : float32[4, 3] = Concat(%x, %z) {axis = 0}",
           "%y : float32[2, 3] = Sum(%x, %z)",
           "%y : float16[2, 3] = Cast(%x) {to = 10}",
           "%y : float32[2, 3] = Scale(%x) {scale = 2f}",
           "%y : float32[2, 3] = Pad(%x) {pads = [1, 0, -1, 0]}",
           "%y : float32[2, 3] = Slice(%x) {starts = [1], ends = [-3], steps = [-1]}",
           "%y : float32[2, 3] = Relu(%x)",
           "%y : float32[2, 6] = Resize(%x) {sizes = [2, 6], mode = \"linear\"}",
           "%y : float32[2, 1] = ResizeGrad(%x) {sizes = [2, 3], mode = \"linear\", fwd_shape = [2, 1]}",
           "%y : float32[2, 3] = ReshapeInplace(%x) {shape = [2, 3]}",
       })
    EXPECT_FALSE(isIdentity(line)) << line;
}

// ---- cost

double flopsOf(const std::string &body, Role role) {
  return costOf(opOf(*parseIr("main {\n" + body + "\n return %y\n}"), role)).flops;
}

TEST(Costs, ProductsTakeTwoOperationsForEachTerm) {
  EXPECT_EQ(flopsOf("stream %a : float32[5, 7]\n stream %b : float32[7, 3]\n %y : float32[5, 3] = MatMul(%a, %b)",
                    Role::MatMul),
            2.0 * 5 * 7 * 3);
  EXPECT_EQ(flopsOf("stream %a : float32[2, 1, 5, 7]\n stream %b : float32[4, 7, 3]\n "
                    "%y : float32[2, 4, 5, 3] = MatMul(%a, %b)",
                    Role::MatMul),
            2.0 * 8 * 5 * 7 * 3);
  EXPECT_EQ(flopsOf("stream %a : float32[7]\n stream %b : float32[7]\n %y : float32[] = MatMul(%a, %b)", Role::MatMul),
            2.0 * 7);
  const std::unique_ptr<Ir> gradients = parseIr(R"(main {
    stream %g : float32[2, 5, 3]
    stream %a : float32[2, 5, 7]
    stream %b : float32[7, 3]
    %da : float32[2, 5, 7] = MatMulLhsGrad(%g, %b) {fwd_shape = [2, 5, 7]}
    %db : float32[7, 3] = MatMulRhsGrad(%g, %a) {fwd_shape = [7, 3]}
    return %da, %db
  })");
  for (const Op *op : gradients->getMainGraph().ops()) EXPECT_EQ(costOf(*op).flops, 2.0 * 2 * 5 * 7 * 3) << op->str();
}

TEST(Costs, FusionKeepsTheOperations) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
    stream %a : float32[7, 5]
    stream %b : float32[7, 3]
    stream %c : float32[3]
    %y : float32[5, 3] = FusedMatMul(%a, %b, %c) {epilogue = @e, trans_a = 1, trans_b = 0}
    return %y
  }
  graph @e {
    input %p : float32[5, 3]
    input %q : float32[3]
    %s : float32[5, 3] = Add(%p, %q)
    %r : float32[5, 3] = Relu(%s)
    return %r
  })");
  const Cost cost = costOf(opOf(*ir, Role::FusedMatMul));
  EXPECT_EQ(cost.flops, 2.0 * 5 * 7 * 3 + 2 * 15);
  EXPECT_EQ(cost.bytesRead, 4.0 * (35 + 21 + 3));
  EXPECT_EQ(cost.bytesWritten, 4.0 * 15) << "what is between the product and its epilogue stays in registers";
}

TEST(Costs, ConvolutionsAndTheirGradientsCostTheSame) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
    stream %x : float32[2, 8, 10, 10]
    stream %w : float32[6, 4, 3, 3]
    %y : float32[2, 6, 8, 8] = Conv(%x, %w) {group = 2}
    %dx : float32[2, 8, 10, 10] = ConvDataGrad(%y, %w) {fwd_shape = [2, 8, 10, 10], group = 2}
    %dw : float32[6, 4, 3, 3] = ConvWeightsGrad(%y, %x) {fwd_shape = [6, 4, 3, 3], group = 2}
    return %dx, %dw
  })");
  for (const Op *op : ir->getMainGraph().ops())
    EXPECT_EQ(costOf(*op).flops, 2.0 * 2 * 6 * 8 * 8 * 4 * 3 * 3) << op->str();
}

TEST(Costs, DefaultsFollowFromTheShapes) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
    stream %x : float32[4, 3]
    stream %b : float32[3]
    %a : float32[4, 3] = Mul(%x, %b)
    %r : float32[3] = ReduceSum(%a) {axes = [0], keepdims = 0}
    %v : float32[1, 3] = Reshape(%r) {shape = [1, 3]}
    %t : float32[3, 4] = Transpose(%a)
    %s : float32[1, 4] = Slice(%t) {starts = [0], ends = [1]}
    return %v, %s
  })");
  std::map<std::string, Cost> costs;
  for (const Op *op : ir->getMainGraph().ops()) costs[op->opType()] = costOf(*op);
  auto expectCost = [&](const char *type, double flops, double bytesRead, double bytesWritten) {
    EXPECT_EQ(costs.at(type).flops, flops) << type;
    EXPECT_EQ(costs.at(type).bytesRead, bytesRead) << type;
    EXPECT_EQ(costs.at(type).bytesWritten, bytesWritten) << type;
  };
  expectCost("Mul", 12, 48 + 12, 48);
  expectCost("ReduceSum", 12, 48, 12);
  expectCost("Reshape", 0, 0, 0);
  expectCost("Transpose", 0, 48, 48);
  expectCost("Slice", 0, 16, 16);
}

TEST(Costs, ManyOperationsPerByteAreWorthSharing) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
    stream %x : float32[64, 64]
    %y : float32[64, 64] = MatMul(%x, %x)
    %z : float32[64, 64] = Neg(%y)
    return %z
  })");
  EXPECT_EQ(opOf(*ir, Role::MatMul).getSubgraphValue(), Op::getHighSubgraphValue());
  EXPECT_EQ(opOf(*ir, Role::Neg).getSubgraphValue(), Op::getLowSubgraphValue());
}

TEST(Costs, GraphsAddUp) {
  const std::unique_ptr<Ir> ir = parseIr(R"(main {
    stream %x : float32[4, 3]
    stream %w : float32[3, 3]
    stream %c : bool[]
    const %n : int64[] = 5
    const %true : bool[] = 1
    %y : float32[4, 3] = Loop(%n, %true, %x, %w) {body = @body, carried = 1, trip_count = 5}
    %z : float32[4, 3] = Call(%y, %w) {callee = @step}
    %u : float32[4, 3] = If(%c, %z, %w, %z) {then_branch = @step, else_branch = @cheap}
    return %u
  }
  graph @body {
    input %i : int64[]
    input %go : bool[]
    input %h : float32[4, 3]
    input %bw : float32[3, 3]
    %k : float32[4, 3] = Call(%h, %bw) {callee = @step}
    return %go, %k
  }
  graph @step {
    input %p : float32[4, 3]
    input %q : float32[3, 3]
    %m : float32[4, 3] = MatMul(%p, %q)
    %r : float32[4, 3] = Relu(%m)
    return %r
  }
  graph @cheap {
    input %o : float32[4, 3]
    %e : float32[4, 3] = Relu(%o)
    return %e
  })");
  const Cost step = costOf(ir->getGraph("step")), all = costOf(ir->getMainGraph());
  EXPECT_EQ(step.flops, 2.0 * 4 * 3 * 3 + 12);
  EXPECT_EQ(step.bytesRead, 48.0 + 36 + 48);
  EXPECT_EQ(step.bytesWritten, 2.0 * 48);
  EXPECT_EQ(all.flops, 7 * step.flops) << "five iterations, one call, the dearer branch";
  EXPECT_EQ(all.bytesRead, 7 * step.bytesRead);
  EXPECT_EQ(all.bytesWritten, 7 * step.bytesWritten);
}

}  // namespace
}  // namespace popart
