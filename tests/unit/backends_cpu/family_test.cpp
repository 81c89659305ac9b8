// Reductions, row-wise operators and losses of the CPU backend against the reference backend, with shapes that split
// into several tasks and leave remainders. Each op must really be taken by the CPU backend.
#include <gtest/gtest.h>

#include <cmath>

#include "../support/against_reference.hpp"
#include "../support/halves.hpp"

namespace popart {
namespace {

using test::floats;
void compare(const SingleOp &op, double tolerance = 2e-6) { test::compareWithReference(op, tolerance); }

using Axes = std::vector<int64_t>;

TEST(CpuReduce, AgreesWithReference) {
  const std::vector<std::pair<Shape, Axes>> cases = {
      {{5, 7}, {1}},           {{5, 7}, {0}},           {{5, 7}, {0, 1}},
      {{300, 301}, {0}},       {{300, 301}, {1}},       {{3, 5, 37, 2}, {0, 2, 3}},
      {{3, 5, 37, 2}, {2}},    {{2, 3, 4, 70}, {1, 2}}, {{1, 5, 1}, {1}},
      {{40000}, {0}},          {{4, 6, 130}, {0, 1}},   {{7, 3}, {}},
      {{2, 4, 600, 3}, {0, 2}}};
  for (const char *type :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2"})
    for (const auto &[shape, axes] : cases)
      for (int64_t keep : {0, 1}) compare({type, {{"axes", axes}, {"keepdims", keep}}, {floats(shape, 3)}, 1}, 1e-5);
}

// As a bias's gradient reads the logits of a vocabulary: on the kernel that widens blocks, however wide the rows are.
TEST(CpuReduce, WideRowsOfHalves) {
  const Shape shape{130, 30'001};
  const Attributes columns{{"axes", Axes{0}}, {"keepdims", int64_t{0}}};
  const std::vector<float> x = test::integers(elementCount(shape), 2);
  std::vector<float> sums(30'001, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  for (const DataType type : test::kHalfTypes) {
    const TensorData data(TensorInfo(type, shape), test::halved(type, x).data());
    EXPECT_EQ(runOp({"ReduceSum", columns, {data}, 1}, OpBackend::Best)[0].asDoubles(),
              std::vector<double>(sums.begin(), sums.end()));
    Ir ir;
    Graph &graph = ir.getMainGraph();
    const Op *op = graph.addConnectedOp(opDef("ReduceSum"), {graph.addStream("x", data.info())}, {"y"}, columns,
                                        Op::Settings(graph));
    for (const int threads : {1, 2, 64}) {
      executable::KernelRequest request = executable::requestOf(*op);
      request.threads = threads;
      std::string reason;
      const auto kernel = cpu::backend().createKernel(request, reason);
      ASSERT_TRUE(kernel) << reason;
      EXPECT_EQ(kernel->name(), "reduce columns");
    }
  }
}

TEST(CpuReduce, EmptyAndNanInputs) {
  for (const char *type : {"ReduceSum", "ReduceMax", "ReduceMin"}) {
    compare({type, {{"axes", Axes{0}}}, {TensorData(TensorInfo(DataType::FLOAT, {0, 3}))}, 1});
    auto x = test::numbers(60, 4);
    x[17] = NAN;
    compare({type, {{"axes", Axes{1}}}, {TensorData::of<float>({3, 20}, x)}, 1});
    compare({type, {{"axes", Axes{0}}}, {TensorData::of<float>({3, 20}, x)}, 1});
  }
}

TEST(CpuRows, SoftmaxAgreesWithReference) {
  for (const Shape &shape : std::vector<Shape>{{3, 10}, {2, 3, 4, 33}, {100, 1000}, {7, 1}})
    for (const std::string type : {"Softmax", "LogSoftmax"}) {
      compare({type, {{"axis", int64_t{-1}}}, {floats(shape, 5)}, 1});
      const TensorData y = runOp({type, {{"axis", int64_t{-1}}}, {floats(shape, 5)}, 1}, OpBackend::Reference)[0];
      compare({type + "Grad", {{"axis", int64_t{-1}}}, {floats(shape, 6), y}, 1}, 1e-5);
    }
}

TEST(CpuRows, LayerNormAgreesWithReference) {
  for (const auto &[shape, axis] :
       std::vector<std::pair<Shape, int64_t>>{{{5, 64}, -1}, {{2, 3, 77}, 2}, {{4, 5, 6}, 1}, {{300, 256}, 1}}) {
    const int64_t from = axis < 0 ? static_cast<int64_t>(shape.size()) + axis : axis;
    const Shape columns(shape.begin() + from, shape.end());
    const TensorData x = floats(shape, 1), scale = floats(columns, 2), bias = floats(columns, 3), g = floats(shape, 4);
    for (int outputs : {1, 3}) compare({"LayerNormalization", {{"axis", axis}}, {x, scale, bias}, outputs}, 1e-5);
    compare({"LayerNormalization", {{"axis", axis}}, {x, scale, {}}, 1}, 1e-5);
    const auto forward = runOp({"LayerNormalization", {{"axis", axis}}, {x, scale, bias}, 3}, OpBackend::Reference);
    compare({"LayerNormalizationGrad", {{"axis", axis}}, {g, x, scale, forward[1], forward[2]}, 3}, 2e-5);
    compare({"LayerNormalizationGrad", {{"axis", axis}}, {g, x, scale}, 3}, 2e-5);
    compare({"LayerNormalizationGrad", {{"axis", axis}}, {g, x, scale}, 1}, 2e-5);
  }
}

TEST(CpuLoss, AgreesWithReference) {
  const std::vector<int32_t> numbers = {0, 4, 2, 1, 2, 3, 0};
  const TensorData labels = TensorData::of<int32_t>({7}, numbers);
  const TensorData probabilities =
      runOp({"Softmax", {{"axis", int64_t{1}}}, {floats({7, 5}, 8)}, 1}, OpBackend::Reference)[0];
  const TensorData one = TensorData::scalar<float>(1.5f), each = floats({7}, 9);
  for (const std::string reduction : {"Mean", "Sum", "NoReduction"})
    for (bool ignores : {false, true}) {
      Attributes a{{"reduction", reduction}};
      if (ignores) a.set("ignoreIndex", int64_t{2});
      const TensorData &g = reduction == "NoReduction" ? each : one;
      compare({"SoftmaxGradDirect", a, {probabilities, labels, g}, 1});
      compare({"NlllWithSoftmaxGradDirect", a, {probabilities, labels, g}, 2});
      for (int64_t logarithm : {0, 1}) {
        a.set("inputIsLogProbability", logarithm);
        compare({"Nll", a, {probabilities, labels}, 1});
        compare({"NllGrad", a, {probabilities, labels, g}, 1});
      }
      a.erase("inputIsLogProbability");
    }
}

TEST(CpuRandom, RoundingHasTheReferencesBits) {
  for (int64_t to : {10, 16})  // FLOAT16, BFLOAT16
    for (int64_t elements : {0, 1, 63, 64, 40001}) {
      std::vector<float> x = test::numbers(elements, 7);
      for (size_t i = 0; i < x.size(); i += 7) x[i] *= i % 2 == 0 ? 1e-6f : 1e4f;
      const TensorData seed = TensorData::of<uint32_t>({2}, std::vector<uint32_t>{11, 12});
      compare({"RoundStochastically",
               {{"to", to}, {"stream", int64_t{3}}},
               {TensorData::of<float>({elements}, x), seed},
               1},
              0);
    }
}

}  // namespace
}  // namespace popart
