// Convolutions of 16 bits and their gradients: operands are small integers, whose sums are exact and rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../support/conv_cases.hpp"

namespace popart::cpu {
namespace {

using test::Doubles;
using test::Floats;
using test::forEachProduct;
using test::halved;
using test::Halves;
using test::integers;
using test::kThreads;
using test::randomFloats;
using test::runAll;
using test::runRounds;
using test::shapes;
using test::shapesOfLongStrides;

struct HalfData {
  Floats x, w, dy;
  Halves halfX, halfDy, packed, transposed;
  explicit HalfData(const ConvShape &s)
      : x(integers(s.n * volume(s.in) * s.cin, 1)),
        w(integers(s.cout * (s.cin / s.groups) * s.taps(), 2)),
        dy(integers(s.n * volume(s.out()) * s.cout, 3)),
        halfX(halved(s.type, x)),
        halfDy(halved(s.type, dy)),
        packed(halved(s.type, test::packedConvWeights(s, w))) {
    const ConvWeightTranspose plan(s);
    transposed.resize(static_cast<size_t>(plan.transposedFloats()));
    for (int task = 0; task < plan.tasks(); ++task) plan.run(task, packed.data(), transposed.data());
  }
};

// The shapes that have kernels for 16 bits, of both types.
std::vector<ConvShape> halfShapes() {
  std::vector<ConvShape> result;
  for (const DataType type : test::kHalfTypes)
    for (ConvShape s : shapes())
      if (!s.joinsGroups()) s.type = type, result.push_back(s);
  for (const DataType type : test::kHalfTypes)
    for (ConvShape s : shapesOfLongStrides()) s.type = type, result.push_back(s);
  return result;
}

Halves roundedHalves(DataType type, const Doubles &values) {
  return halved(type, Floats(values.begin(), values.end()));
}

TEST(HalfConv, weights_turn_into_what_the_data_gradient_reads) {
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    ASSERT_EQ(data.transposed, halved(s.type, test::packedConvWeights(s, data.w, test::Transposed::kYes)));
  }
}

TEST(HalfConv, forward_rounds_once_and_then_every_step) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    const Halves bias = halved(s.type, randomFloats(s.cout, 4));
    const Floats added = test::widened(s.type, bias);
    Doubles sums(data.dy.size(), 0.0), exact, stepwise;
    forEachProduct(s, [&](int64_t x, int64_t w, int64_t y) { sums[y] += static_cast<double>(data.x[x]) * data.w[w]; });
    for (size_t i = 0; i < sums.size(); ++i) {
      const float b = added[i % static_cast<size_t>(s.cout)];
      exact.push_back(static_cast<float>(sums[i]) + b);
      stepwise.push_back(
          std::max(0.0f, test::roundedTo(s.type, test::roundedTo(s.type, static_cast<float>(sums[i])) + b)));
    }
    for (int threads : kThreads)
      for (const bool isExact : {true, false}) {
        Epilogue epilogue;
        epilogue.type = s.type, epilogue.bias = bias.data(), epilogue.addsBiasExactly = isExact;
        if (!isExact) epilogue.step.op = ElementOp::kRelu;
        Halves y(sums.size(), 0x7fff);
        const ConvForward plan(s, threads);
        runAll(plan, threads, [&](int task, float *scratch) {
          plan.run(task, data.halfX.data(), data.packed.data(), y.data(), epilogue, scratch);
        });
        ASSERT_EQ(y, roundedHalves(s.type, isExact ? exact : stepwise)) << "shape " << index << " threads " << threads;
      }
    ++index;
  }
}

TEST(HalfConv, data_gradient_rounds_once) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    Doubles expected(data.x.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[x] += static_cast<double>(data.dy[y]) * data.w[w]; });
    Epilogue store;
    store.type = s.type;
    for (int threads : kThreads) {
      Halves dx(data.x.size(), 0x7fff);
      const ConvDataGradient plan(s, threads);
      runAll(plan, threads, [&](int task, float *scratch) {
        plan.run(task, data.halfDy.data(), data.transposed.data(), dx.data(), store, scratch);
      });
      ASSERT_EQ(dx, roundedHalves(s.type, expected)) << "shape " << index << " threads " << threads;
    }
    ++index;
  }
}

TEST(HalfConv, weight_gradient_rounds_once) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    Doubles expected(data.w.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[w] += static_cast<double>(data.x[x]) * data.dy[y]; });
    const Halves packed = halved(s.type, test::packedConvWeights(s, Floats(expected.begin(), expected.end())));
    for (int threads : kThreads) {
      const ConvWeightGradient plan(s, threads);
      Halves stored(packed.size(), 0x7fff);
      auto *base = reinterpret_cast<float *>(stored.data());
      const Update update{.base = base, .type = s.type};
      runRounds(plan, threads, [&](int task, float *scratch, float *shared) {
        plan.run(task, data.halfX.data(), data.halfDy.data(), base, update, scratch, shared);
      });
      ASSERT_EQ(stored, packed) << "shape " << index << " threads " << threads;
    }
    ++index;
  }
}

}  // namespace
}  // namespace popart::cpu
