// computeInPlace says what happens: the program that is lowered is the same with and without it, and the memory plan
// writes these results to the memory of their operands.
#include <gtest/gtest.h>

#include <popart/adam.hpp>
#include <popart/sgd.hpp>

#include "../support/program.hpp"
#include "../support/steps.hpp"
#include "pipeline/prepare.hpp"

namespace popart {
namespace {

using test::numbers;

enum class InPlace { On, Off };

struct Case {
  const char *name;
  bool trains = false;
  int64_t batches = 1, microBatches = 1;
  bool adam = false;
  DataType type = DataType::FLOAT;
};

constexpr Case kCases[] = {
    {.name = "inference"},
    {.name = "batches", .batches = 2},
    {.name = "sgd", .trains = true},
    {.name = "adam", .trains = true, .adam = true},
    {.name = "accumulation", .trains = true, .batches = 2, .microBatches = 3, .adam = true},
    {.name = "half", .type = DataType::FLOAT16},
};

// Layers with residuals, gates, a norm, a convolution, dynamic updates and views; a loss in training.
std::unique_ptr<Ir> build(const Case &c) {
  auto ir = std::make_unique<Ir>();
  test::GraphBuilder b(ir->getMainGraph());
  const auto weight = [&](const std::string &id, const Shape &shape) {
    const std::vector<float> values = numbers(elementCount(shape), static_cast<int>(id.size()));
    return b.graph().addVariable(
        id, TensorData::fromDoubles(TensorInfo(c.type, shape), std::vector<double>(values.begin(), values.end())));
  };
  TensorIndex h = b.stream("x", c.type, {8, 4, 6, 6});
  h = b.op("Conv", {h, weight("filters", {4, 4, 3, 3})}, "convolved", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  h = b.op("Relu", {h}, "convolved/relu");
  h = b.op("Reshape", {h}, "flat", {{"shape", Shape{8, 144}}});
  h = b.op("MatMul", {h, weight("first", {144, 32})}, "product");
  for (int layer = 0; layer < 3; ++layer) {
    const std::string n = std::to_string(layer);
    TensorIndex s = b.op("MatMul", {h, weight("w" + n, {32, 32})}, "p" + n);
    s = b.op("Add", {s, weight("b" + n, {32})}, "a" + n);
    const TensorIndex gate = b.op("Sigmoid", {s}, "gate" + n);
    s = b.op("Mul", {s, gate}, "gated" + n);
    s = b.op("Exp", {b.op("Neg", {b.op("Softmax", {s}, "soft" + n)}, "negated" + n)}, "exp" + n);
    h = b.op("Add", {s, h}, "h" + n);
  }
  if (!c.trains) return ir;
  const TensorIndex labels = b.stream("labels", DataType::INT32, {8});
  b.op("Nll", {b.op("Softmax", {h}, "probs"), labels}, "loss");
  return ir;
}

pipeline::Prepared prepared(const Case &c, InPlace inPlace) {
  pipeline::PrepareRequest request;
  request.ir = build(c);
  request.anchors = {{c.trains ? "loss" : "h2"}, {"negated0"}};
  request.batchesPerStep = c.batches;
  request.patterns.enableInPlace(inPlace == InPlace::On);
  if (c.trains) {
    request.loss = "loss";
    request.options.factors.accumulates = c.microBatches > 1;
    request.options.factors.accumulationFactor = c.microBatches;
    const Adam adam(
        {{"defaultLearningRate", {0.01f, false}}, {"defaultWeightDecay", {0.1f, true}}, {"defaultEps", {1e-3f, true}}},
        AdamMode::Adam, WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT);
    const ConstSGD sgd(0.1f);
    const Optimizer &optimizer = c.adam ? static_cast<const Optimizer &>(adam) : sgd;
    request.updates = optimizer.updateRules(request.options.factors);
  }
  return pipeline::prepare(std::move(request));
}

// Pairs of the operand and the result of the ops that are in place, by the ids of the tensors.
std::vector<std::pair<TensorId, TensorId>> shownInPlace(const Ir &ir) {
  std::vector<std::pair<TensorId, TensorId>> pairs;
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      if (op->def().isInplaceVariant())
        for (const AliasDef &a : op->def().aliasRules()) pairs.emplace_back(op->inId(a.input), op->outId(a.output));
  return pairs;
}

lower::LowerOptions onCpu(bool fuse) {
  lower::LowerOptions options;
  options.backends = test::kCpu;
  options.fuse = fuse;
  return options;
}

class InPlacePrograms : public testing::TestWithParam<Case> {};

TEST_P(InPlacePrograms, AreLoweredAsThePlainOnes) {
  for (const bool fuse : {true, false}) {
    const lower::LowerOptions options = onCpu(fuse);
    const lower::Backends backends = lower::remember(options);
    const pipeline::Prepared shown = prepared(GetParam(), InPlace::On), plain = prepared(GetParam(), InPlace::Off);
    EXPECT_FALSE(shownInPlace(*shown.ir).empty());
    EXPECT_TRUE(shownInPlace(*plain.ir).empty());
    EXPECT_EQ(print(pipeline::lowerProgram(*shown.ir, options, backends)),
              print(pipeline::lowerProgram(*plain.ir, options, backends)));
  }
}

TEST_P(InPlacePrograms, AreComputedInPlace) {
  for (const bool fuse : {true, false}) {
    const lower::LowerOptions options = onCpu(fuse);
    const lower::Backends backends = lower::remember(options);
    const pipeline::Prepared shown = prepared(GetParam(), InPlace::On);
    const lower::Program program = pipeline::lowerProgram(*shown.ir, options, backends);
    const memory::MemoryPlan plan = lower::compileInSteps(program, options, backends).plan;
    int inMemory = 0;
    for (const auto &[operand, result] : shownInPlace(*shown.ir))
      for (const Graph *graph : program.ir->getAllGraphs()) {
        const TensorIndex from = graph->find(operand), to = graph->find(result);
        if (!from.valid() || !to.valid()) continue;
        const int in = plan.of(*graph, from), out = plan.of(*graph, to);
        if (in < 0 || out < 0) continue;  // inside of a fused kernel
        ++inMemory;
        EXPECT_EQ(in, out) << operand << " and " << result << (fuse ? ", fused" : ", not fused");
      }
    EXPECT_TRUE(fuse || inMemory > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, InPlacePrograms, testing::ValuesIn(kCases),
                         [](const auto &param) { return std::string(param.param.name); });

}  // namespace
}  // namespace popart
