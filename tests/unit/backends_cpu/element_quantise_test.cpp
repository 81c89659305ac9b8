// Quantisation as one instruction of the element engine: which programs have it, and that it gives the bits of the
// instructions apart, which the reference backend states.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

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

void runProgram(const cpu::ElementProgram &program, const std::vector<const void *> &in, void *y) {
  void *out[] = {y};
  std::vector<char> scratch(static_cast<size_t>(program.scratchBytes()) + 64);
  std::atomic<bool> failed = false;
  executable::RunContext context(failed);
  for (int task = 0; task < program.tasks(); ++task) program.run(in.data(), out, scratch.data(), context, task);
}

template <class T>
void expectValues(const Chain &c, const cpu::ElementProgram &program) {
  const std::vector<float> x = numbers();
  const std::vector<float> scale = valuesOf(c.scale, 0.37f), zero = valuesOf(c.zero, c.zeroStep);
  std::vector<const void *> in{x.data()};
  if (c.divides) in.push_back(scale.data());
  if (c.moves) in.push_back(zero.data());
  std::vector<T> y(x.size());
  runProgram(program, in, y.data());
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
  runProgram(*program, in, y.data());
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

}  // namespace
}  // namespace popart
