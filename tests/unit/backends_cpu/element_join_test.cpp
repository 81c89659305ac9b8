// Sequences that the element engine joins to one instruction: which programs have it, and that it gives the bits of the
// separate instructions, for quantisation as the reference backend states them.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "backends/cpu/element_operands.hpp"
#include "executable/kernel.hpp"
#include "executable/run_context.hpp"

namespace popart {
namespace {

constexpr int64_t kRows = 3, kColumns = 205;  // not whole vectors

struct Chain {
  bool divides = true, moves = true, keepsRounded = false;
  DataType type = DataType::UINT8;
  Shape scale = {}, zero = {};
  float least = 0, most = 255;
  float zeroStep = 1;
};

// x -> y, and on request what is rounded; constants of the graph are no inputs.
void build(test::GraphBuilder &b, const Chain &c) {
  const TensorIndex x = b.input("x", {kRows, kColumns});
  TensorIndex v = x;
  if (c.divides) v = b.op("Div", {v, b.input("scale", c.scale)}, "quotient");
  const TensorIndex rounded = v = b.op("NearbyInt", {v}, "rounded");
  if (c.moves) v = b.op("Add", {v, b.input("zero", c.zero)}, "moved");
  v = b.op("Clip", {v}, "clipped", {{"min", c.least}, {"max", c.most}});
  b.graph().markOutput(b.op("Cast", {v}, "y", {{"to", int64_t{toOnnxDataType(c.type)}}}));
  if (c.keepsRounded) b.graph().markOutput(rounded);
}

std::optional<cpu::ElementProgram> compiled(const Graph &graph) {
  std::vector<executable::OperandDesc> inputs, outputs;
  for (TensorIndex t : graph.inputs()) inputs.push_back({.info = graph.info(t)});
  for (TensorIndex t : graph.outputs()) outputs.push_back({.info = graph.info(t)});
  std::string reason;
  auto program = cpu::makeElementProgram(cpu::elementSource(graph), inputs, outputs, reason);
  EXPECT_EQ(reason, "");
  return program;
}

// Halves, ends of the ranges, and what no type has.
std::vector<float> numbers() {
  std::vector<float> x = test::numbers(kRows * kColumns, 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? static_cast<float>(i) * 0.25f - 70.0f : x[i] * 90.0f;
  const float special[] = {INFINITY, -INFINITY, NAN, 1e30f, -1e30f, -0.0f, 0.5f, -0.5f, 127.5f, -128.5f, 65535.5f};
  std::copy(std::begin(special), std::end(special), x.begin() + 100);
  return x;
}

double expected(const Chain &c, float x, float scale, float zero) {
  const float quotient = c.divides ? x / scale : x, rounded = std::nearbyint(quotient);
  const float moved = c.moves ? rounded + zero : rounded;
  return std::isnan(moved) ? 0 : std::trunc(static_cast<double>(std::min(std::max(moved, c.least), c.most)));
}

// Of an operand that is broadcast to the result.
std::vector<float> valuesOf(const Shape &shape, float step) {
  std::vector<float> v(static_cast<size_t>(elementCount(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = step * static_cast<float>(1 + i % 7);
  return v;
}
float at(const std::vector<float> &v, const Shape &shape, int64_t i) {
  if (v.size() == 1) return v[0];
  return v[static_cast<size_t>(shape.back() == 1 ? i / kColumns : shape.size() == 1 ? i % kColumns : i)];
}
const Shape kForms[] = {{}, {kRows, 1}, {kColumns}, {kRows, kColumns}};

void runProgram(const cpu::ElementProgram &program, const std::vector<const void *> &in,
                const std::vector<void *> &out) {
  std::vector<char> scratch(static_cast<size_t>(program.scratchBytes()) + 64);
  std::atomic<bool> failed = false;
  executable::RunContext context(failed);
  for (int task = 0; task < program.tasks(); ++task) program.run(in.data(), out.data(), scratch.data(), context, task);
}

template <class T>
void expectValues(const Chain &c, const cpu::ElementProgram &program) {
  const std::vector<float> x = numbers();
  const std::vector<float> scale = valuesOf(c.scale, 0.37f), zero = valuesOf(c.zero, c.zeroStep);
  std::vector<const void *> in{x.data()};
  if (c.divides) in.push_back(scale.data());
  if (c.moves) in.push_back(zero.data());
  std::vector<T> y(x.size());
  runProgram(program, in, {y.data()});
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    ASSERT_EQ(static_cast<double>(y[static_cast<size_t>(i)]),
              expected(c, x[static_cast<size_t>(i)], at(scale, c.scale, i), at(zero, c.zero, i)))
        << i << ": of " << x[static_cast<size_t>(i)];
}

void expectOneInstruction(const Chain &c) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  build(b, c);
  const auto program = compiled(b.graph());
  ASSERT_TRUE(program);
  EXPECT_EQ(program->code.size(), 1u);
  EXPECT_EQ(program->temporaries, 0);
  switch (c.type) {
    case DataType::UINT8:
      return expectValues<uint8_t>(c, *program);
    case DataType::INT8:
      return expectValues<int8_t>(c, *program);
    case DataType::UINT16:
      return expectValues<uint16_t>(c, *program);
    default:
      return expectValues<int16_t>(c, *program);
  }
}

TEST(ElementQuantise, is_one_instruction_for_every_form_of_scale_and_zero_point) {
  for (const Shape &scale : kForms)
    for (const Shape &zero : kForms) expectOneInstruction({.scale = scale, .zero = zero});
  expectOneInstruction({.divides = false});
  expectOneInstruction({.moves = false});
  expectOneInstruction({.divides = false, .moves = false});
}

TEST(ElementQuantise, zero_points_may_be_any_numbers) {
  for (float step : {0.75f, -3.0f, 4e6f, 3e9f, -1e30f, INFINITY, NAN}) {
    expectOneInstruction({.zeroStep = step});
    expectOneInstruction({.zero = {kColumns}, .zeroStep = step});
  }
}

TEST(ElementQuantise, saturates_to_every_type) {
  expectOneInstruction({.type = DataType::INT8, .least = -128, .most = 127});
  expectOneInstruction({.type = DataType::INT8, .least = -5.5f, .most = 6.5f});
  expectOneInstruction({.type = DataType::UINT16, .least = 0, .most = 65535});
  expectOneInstruction({.type = DataType::INT16, .zero = {kColumns}, .least = -32768, .most = 32767});
  expectOneInstruction({.type = DataType::UINT8, .least = 4, .most = 9});
}

template <class T>
void expectDequantised(DataType type, const Shape &scale, const Shape &zero, bool moves) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  TensorIndex v = b.op("Cast", {b.input("x", {kRows, kColumns}, type)}, "f", {{"to", int64_t{1}}});
  if (moves) v = b.op("Sub", {v, b.input("zero", zero)}, "moved");
  b.graph().markOutput(b.op("Mul", {b.input("scale", scale), v}, "y"));
  const auto program = compiled(b.graph());
  ASSERT_TRUE(program);
  EXPECT_EQ(program->code.size(), 1u);
  std::vector<T> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 37u);
  const std::vector<float> scales = valuesOf(scale, 0.37f), zeros = valuesOf(zero, 1.0f);
  std::vector<float> y(x.size());
  std::vector<const void *> in{x.data()};
  if (moves) in.push_back(zeros.data());
  in.push_back(scales.data());
  runProgram(*program, in, {y.data()});
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const auto f = static_cast<float>(x[static_cast<size_t>(i)]);
    ASSERT_EQ(y[static_cast<size_t>(i)], (moves ? f - at(zeros, zero, i) : f) * at(scales, scale, i)) << i;
  }
}

TEST(ElementQuantise, the_way_back_is_one_instruction) {
  for (const Shape &scale : kForms)
    for (const Shape &zero : kForms) expectDequantised<uint8_t>(DataType::UINT8, scale, zero, true);
  expectDequantised<int8_t>(DataType::INT8, {}, {}, false);
  expectDequantised<int8_t>(DataType::INT8, {kRows, 1}, {kRows, 1}, true);
  expectDequantised<int16_t>(DataType::INT16, {}, {}, true);
  expectDequantised<uint16_t>(DataType::UINT16, {kColumns}, {}, true);
}

TEST(ElementQuantise, what_others_read_stays_apart) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  build(b, {.keepsRounded = true});
  const auto program = compiled(b.graph());
  ASSERT_TRUE(program);
  EXPECT_GT(program->code.size(), 2u);
}

// ---- scale, shift and bounds

struct Scaled {
  const char *bound = "";  // operator
  bool multiplies = true, adds = true, exchanged = false;
  Shape scale = {kColumns}, shift = {kColumns};
};
enum class Intermediates { kDropped, kKept };  // kept: they are results, so that no instructions are joined

cpu::ElementProgram scaledProgram(const Scaled &c, Intermediates intermediates) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  std::vector<TensorIndex> values{b.input("x", {kRows, kColumns})};
  const auto apply = [&](const char *type, const Shape &shape, const char *name) {
    const TensorIndex other = b.input(name, shape), v = values.back();
    values.push_back(b.op(type, c.exchanged ? std::vector{other, v} : std::vector{v, other}, type));
  };
  if (c.multiplies) apply("Mul", c.scale, "scale");
  if (c.adds) apply("Add", c.shift, "shift");
  const std::string bound = c.bound;
  if (bound == "Relu") values.push_back(b.op("Relu", {values.back()}, "y"));
  if (bound == "Clip") values.push_back(b.op("Clip", {values.back()}, "y", {{"min", -1.5f}, {"max", 20.0f}}));
  b.graph().markOutput(values.back());
  for (size_t i = 1; i + 1 < values.size() && intermediates == Intermediates::kKept; ++i)
    b.graph().markOutput(values[i]);
  auto program = compiled(b.graph());
  EXPECT_TRUE(program);
  return std::move(*program);
}

std::vector<float> scaledValues(const Scaled &c, const cpu::ElementProgram &program) {
  const std::vector<float> x = numbers(), scale = valuesOf(c.scale, 0.37f), shift = valuesOf(c.shift, -1.9f);
  std::vector<const void *> in{x.data()};
  if (c.multiplies) in.push_back(scale.data());
  if (c.adds) in.push_back(shift.data());
  std::vector<std::vector<float>> results(program.outputBytes.size(), std::vector<float>(x.size()));
  std::vector<void *> out;
  for (std::vector<float> &y : results) out.push_back(y.data());
  runProgram(program, in, out);
  return results.front();
}

void expectJoined(const Scaled &c) {
  const cpu::ElementProgram joined = scaledProgram(c, Intermediates::kDropped),
                            apart = scaledProgram(c, Intermediates::kKept);
  EXPECT_EQ(joined.code.size(), 1u);
  EXPECT_EQ(joined.temporaries, 0);
  EXPECT_EQ(apart.code.size(), size_t{c.multiplies} + size_t{c.adds} + (*c.bound != 0));
  const std::vector<float> y = scaledValues(c, joined), expected = scaledValues(c, apart);
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0) << c.bound;
}

TEST(ElementScaled, is_one_instruction_for_every_form_of_scale_and_shift) {
  for (const char *bound : {"", "Relu", "Clip"})
    for (const bool exchanged : {false, true})
      for (const Shape &scale : kForms)
        for (const Shape &shift : kForms) expectJoined({bound, true, true, exchanged, scale, shift});
}

TEST(ElementScaled, one_of_the_three_steps_may_be_missing) {
  for (const Shape &shape : kForms) {
    expectJoined({.bound = "Relu", .adds = false, .scale = shape});
    expectJoined({.bound = "Clip", .multiplies = false, .shift = shape});
  }
}

TEST(ElementScaled, products_that_others_read_stay) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  const TensorIndex x = b.input("x", {kRows, kColumns}), scale = b.input("scale", {kColumns});
  const TensorIndex product = b.op("Mul", {x, scale}, "product");
  b.graph().markOutput(b.op("Add", {product, b.op("Exp", {product}, "e")}, "y"));
  EXPECT_EQ(compiled(b.graph())->code.size(), 3u);
}

TEST(ElementScaled, one_of_two_products_joins_their_sum) {
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  const TensorIndex x = b.input("x", {kRows, kColumns}), scale = b.input("scale", {kColumns});
  const TensorIndex one = b.op("Mul", {x, scale}, "one"), two = b.op("Mul", {x, x}, "two");
  b.graph().markOutput(b.op("Add", {one, two}, "y"));
  EXPECT_EQ(compiled(b.graph())->code.size(), 2u);
}

}  // namespace
}  // namespace popart
