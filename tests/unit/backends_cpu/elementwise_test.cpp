// The element-wise engine against the reference backend: every operator with an instruction, in every element type both
// take, over operand shapes that lead to each kind of loop; fused chains; packed storage; threads.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <popart/ir.hpp>

#include "../support/against_reference.hpp"
#include "../support/instruction_sets.hpp"
#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/element_table.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/vector/element_program.hpp"
#include "backends/ref/ref.hpp"
#include "executable/run_context.hpp"
#include "support/run_op.hpp"

namespace popart {
namespace {

using cpu::ElementRow;
using cpu::RegisterForm;

constexpr DataType kTypes[] = {DataType::FLOAT,  DataType::FLOAT16, DataType::BFLOAT16, DataType::INT8,
                               DataType::INT16,  DataType::INT32,   DataType::INT64,    DataType::UINT8,
                               DataType::UINT16, DataType::UINT32,  DataType::UINT64,   DataType::BOOL};

// Numbers in (-4, 4); integers and the bools made from them include 0.
TensorData values(DataType type, const Shape &shape, int seed) {
  TensorData data(TensorInfo(type, shape));
  auto source = test::numbers(data.info().nelms(), seed);
  ref::dispatchAll(type, [&](auto tag) {
    using T = decltype(tag);
    auto *to = static_cast<T *>(data.mutableData());
    for (size_t i = 0; i < source.size(); ++i) {
      const float v = 4 * source[i];
      if constexpr (std::is_same_v<T, bool>)
        to[i] = v > 0;
      else if constexpr (std::is_unsigned_v<T>)
        to[i] = static_cast<T>(std::fabs(3 * v));
      else if constexpr (std::is_integral_v<T>)
        to[i] = static_cast<T>(3 * v);
      else
        to[i] = T(v);
    }
  });
  return data;
}

double tolerance(DataType type) {
  switch (type) {
    case DataType::FLOAT:
      return 2e-6;
    case DataType::FLOAT16:
      return 2e-3;
    case DataType::BFLOAT16:
      return 1.6e-2;
    default:
      return 0;
  }
}

void expectEqual(const TensorData &got, const TensorData &want, const std::string &what) {
  ASSERT_EQ(got.info(), want.info()) << what;
  if (want.info().dataType() == DataType::BOOL) {
    EXPECT_TRUE(got == want) << what;
    return;
  }
  const auto a = got.asDoubles(), b = want.asDoubles();
  int shown = 0;
  for (size_t i = 0; i < a.size() && shown < 3; ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::fabs(a[i] - b[i]) <= tolerance(want.info().dataType()) * std::max(1.0, std::fabs(b[i]));
    EXPECT_TRUE(same) << what << " [" << i << "]: got " << a[i] << ", expected " << b[i];
    shown += !same;
  }
}

Attributes attributesOf(const OpDef &def) {
  Attributes given;
  for (const AttributeDef &a : def.attributes()) {
    if (!a.required) continue;
    if (a.type == AttributeType::String)
      given.set(a.name, std::string("LEFT"));
    else if (a.type == AttributeType::Float)
      given.set(a.name, 1.75f);
  }
  return given;
}

bool accepts(const OpDef &def, DataType type) { return (def.inputs()[0].types & typeBit(type)) != 0; }

TensorData converted(const TensorData &x, DataType to) {
  return runOp({"Cast", {{"to", int64_t{toOnnxDataType(to)}}}, {x}, 1}, OpBackend::Reference)[0];
}

// Gradients of 16-bit floats: the reference rounds every step of the formula, the engine only the result.
void compareGradient(const OpDef &def, DataType type, const Shape &shape) {
  SingleOp op{def.type(), attributesOf(def), {values(type, shape, 3), values(type, shape, 4)}, 1}, exact = op;
  if (!test::refusalOf(op).empty()) return;
  for (TensorData &x : exact.inputs) x = converted(x, DataType::FLOAT);
  expectEqual(runOp(op, OpBackend::Best)[0], converted(runOp(exact, OpBackend::Reference)[0], type),
              def.type() + " of " + toText(type));
}

// x where it is not 0, else 1.
TensorData nonZero(const TensorData &x) {
  const SingleOp isZero{"Equal", {}, {x, TensorData(TensorInfo(x.info().dataType(), {}))}, 1};
  const TensorData one = converted(TensorData::scalar(1.0f), x.info().dataType());
  return runOp({"Where", {}, {runOp(isZero, OpBackend::Reference)[0], one, x}, 1}, OpBackend::Reference)[0];
}

void compareOp(const OpDef &def, DataType type, const std::vector<Shape> &shapes) {
  SingleOp op{def.type(), attributesOf(def), {}, 1};
  for (size_t i = 0; i < shapes.size(); ++i) op.inputs.push_back(values(type, shapes[i], static_cast<int>(i) + 3));
  if (!test::refusalOf(op).empty()) return;
  if (def.type() == "Div" || def.type() == "Fmod" || def.type() == "Remainder") op.inputs[1] = nonZero(op.inputs[1]);
  std::string what = def.type() + " of " + toText(type);
  for (const Shape &s : shapes) what += " " + toText(s);
  expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0], what);
}

TEST(Elementwise, EveryRowAgreesWithReference) {
  int compared = 0;
  for (const ElementRow &row : cpu::elementRows()) {
    const OpDef *def = findOpDef(row.type);
    ASSERT_NE(def, nullptr) << row.type;
    EXPECT_TRUE(row.operands == 2 || def->inputs().size() == 1) << row.type;
    for (DataType type : kTypes) {
      if (!accepts(*def, type) || cpu::registerForm(type) != row.form) continue;
      ++compared;
      if (row.operands == 1) {
        compareOp(*def, type, {{7, 151}});
      } else if (def->has(Trait::Gradient)) {
        compareGradient(*def, type, {7, 151});
      } else {
        for (const Shape &second : std::vector<Shape>{{3, 7, 5}, {}, {5}, {7, 1}, {3, 1, 1}})
          compareOp(*def, type, {{3, 7, 5}, second});
        compareOp(*def, type, {{2, 3, 200}, {2, 1, 200}});
        compareOp(*def, type, {{2, 3, 200}, {3, 1}});
      }
    }
  }
  EXPECT_GT(compared, 150);
}

TEST(Elementwise, BroadcastsBothOperands) {
  for (const char *type : {"Add", "Sub", "Less", "Max"})
    for (const auto &shapes : std::vector<std::vector<Shape>>{{{}, {4, 3}},
                                                              {{3}, {4, 1}},
                                                              {{6, 1, 300}, {5, 1}},
                                                              {{1, 1, 130}, {7, 3, 1}},
                                                              {{0, 3}, {3}},
                                                              {{5, 1}, {5, 1}}})
      compareOp(opDef(type), DataType::FLOAT, shapes);
}

TEST(Elementwise, CastsAgreeWithReference) {
  for (DataType from : kTypes)
    for (DataType to : kTypes) {
      SingleOp op{"Cast", {{"to", int64_t{toOnnxDataType(to)}}}, {values(from, {3, 333}, 5)}, 1};
      expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0],
                  "Cast " + toText(from) + " to " + toText(to));
    }
}

TEST(Elementwise, SpecialNumbersPassThrough) {
  const float inf = INFINITY, nan = NAN;
  const TensorData x = TensorData::of<float>(
      {10}, std::vector<float>{inf, -inf, nan, 0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, 88.8f, -103.9f});
  for (const ElementRow &row : cpu::elementRows()) {
    if (row.operands != 1 || row.form != RegisterForm::kFloat) continue;
    SingleOp op{row.type, attributesOf(opDef(row.type)), {x}, 1};
    const std::string type = row.type;
    if (type == "Gelu" || type == "GeluErf" || type == "HardSwish" || type == "Softsign" || type == "Mish" ||
        type == "Swish")
      continue;
    const auto got = runOp(op, OpBackend::Best)[0], want = runOp(op, OpBackend::Reference)[0];
    if (want.info().dataType() == DataType::FLOAT)
      expectEqual(got, want, type);
    else
      EXPECT_TRUE(got == want) << type;
  }
}

// Numbers of every size, dense around zero and at the ends of what the vector functions reduce.
TensorData numbersOfEverySize() {
  std::vector<float> x;
  for (double v = -110; v <= 110; v += 0.0137) x.push_back(static_cast<float>(v));
  for (double v = -1.01; v <= 1.01; v += 0.00031) x.push_back(static_cast<float>(v));
  for (double v = 1e-38; v < 1e38; v *= 1.07) x.push_back(static_cast<float>(v)), x.push_back(static_cast<float>(-v));
  for (int i = 1; i < 24000; i += 7)  // next to zeros and poles
    x.push_back(static_cast<float>(i * M_PI_2)), x.push_back(std::nextafter(static_cast<float>(i * M_PI_2), 0.0f));
  return TensorData::of<float>({static_cast<int64_t>(x.size())}, x);
}

TEST(Elementwise, UnaryRowsAgreeWithReferenceForNumbersOfEverySize) {
  const TensorData x = numbersOfEverySize();
  for (const ElementRow &row : cpu::elementRows()) {
    if (row.operands != 1 || row.form != RegisterForm::kFloat) continue;
    SingleOp op{row.type, attributesOf(opDef(row.type)), {x}, 1};
    expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0], row.type);
  }
}

// To the bit, also where quotients round up to a whole number, are too large for the vector form, or do not exist.
TEST(Elementwise, RemaindersAreExact) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f,       -0.0f, 1.0f,          -3.0f,     0.1f,       1e-45f,     -1e-45f, 1.1754944e-38f,
                           4194304.0f, NAN,   3.4028235e38f, kInfinity, -kInfinity, 8388607.0f, 5e-39f};
  std::mt19937 engine(3);
  std::vector<float> a, b;
  for (float x : special)
    for (float y : special) a.push_back(x), b.push_back(y);
  for (int i = 0; i < 200000; ++i) {
    a.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine())));
    b.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine())));
    // Near a whole multiple of a divisor of about the same size.
    const float divisor =
        std::ldexp(1.0f + static_cast<float>(engine() % 8388608) / 8388608.0f, int(engine() % 64) - 32);
    const float multiple = divisor * static_cast<float>(engine() % (1u << (engine() % 24)));
    a.push_back(std::nextafter(multiple, engine() % 2 ? kInfinity : -kInfinity));
    b.push_back(engine() % 2 ? divisor : -divisor);
  }
  const Shape shape{static_cast<int64_t>(a.size())};
  const std::vector<TensorData> in{TensorData(TensorInfo(DataType::FLOAT, shape), a.data()),
                                   TensorData(TensorInfo(DataType::FLOAT, shape), b.data())};
  const TensorData truncated = runOp({"Fmod", {}, in, 1}, OpBackend::Best)[0],
                   floored = runOp({"Remainder", {}, in, 1}, OpBackend::Best)[0];
  const auto *fmods = static_cast<const float *>(truncated.data()),
             *remainders = static_cast<const float *>(floored.data());
  for (size_t i = 0; i < a.size(); ++i) {
    const float r = std::fmod(a[i], b[i]), shifted = r != 0 && (r < 0) != (b[i] < 0) ? r + b[i] : r;
    for (const auto &[got, want] : {std::pair(fmods[i], r), {remainders[i], shifted}})
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want))
          << a[i] << ", " << b[i] << ": got " << got << ", expected " << want;
  }
}

// The numbers of a type, its ends and small ones densely.
template <class T>
std::vector<T> integers(int seed) {
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  std::vector<T> x;
  for (int i = 0; i < 700; ++i) {
    const T ends[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1), T(-1), T(2), T(7)};
    x.push_back(engine() % 2 ? ends[engine() % std::size(ends)] : static_cast<T>(engine() >> engine() % 64));
  }
  return x;
}

void expectSameBits(const SingleOp &op, const std::string &what) {
  EXPECT_TRUE(runOp(op, OpBackend::Best)[0] == runOp(op, OpBackend::Reference)[0]) << what;
}

// Quotients beyond the type are refused: no divisor is -1 or 0.
template <class T>
void compareIntegers(DataType type) {
  const std::vector<T> a = integers<T>(1), b = integers<T>(2);
  std::vector<T> divisors = b;
  for (T &d : divisors)
    if (d == T(0) || d == T(-1)) d = T(3);
  const TensorInfo info(type, {static_cast<int64_t>(a.size())});
  const TensorData x(info, a.data()), y(info, b.data()), divisor(info, divisors.data());
  int compared = 0;
  for (const ElementRow &row : cpu::elementRows()) {
    if (row.form != RegisterForm::kInt || !accepts(opDef(row.type), type)) continue;
    const std::string name = row.type;
    const bool divides = name == "Div" || name == "Fmod" || name == "Remainder";
    SingleOp op{name, attributesOf(opDef(row.type)), {x}, 1};
    if (row.operands == 2) op.inputs.push_back(divides ? divisor : y);
    if (!test::refusalOf(op).empty()) continue;
    ++compared;
    expectSameBits(op, name + " of " + toText(type));
  }
  EXPECT_GT(compared, 15) << toText(type);
  for (const char *direction : {"LEFT", "RIGHT"})
    if (accepts(opDef("BitShift"), type))
      expectSameBits({"BitShift", {{"direction", std::string(direction)}}, {x, y}, 1},
                     std::string(direction) + " of " + toText(type));
  for (DataType to : kTypes)
    if (cpu::registerForm(to) == RegisterForm::kInt)
      expectSameBits({"Cast", {{"to", int64_t{toOnnxDataType(to)}}}, {x}, 1},
                     "Cast " + toText(type) + " to " + toText(to));
}

// Every byte by every other one, and some more that fill no vector.
TEST(Elementwise, BytesAreShiftedByAnyNumber) {
  std::vector<uint8_t> x, by;
  for (int i = 0; i < 256 * 256 + 13; ++i)
    x.push_back(static_cast<uint8_t>(i)), by.push_back(static_cast<uint8_t>(i >> 8));
  const Shape shape{static_cast<int64_t>(x.size())};
  const TensorData bytes = TensorData::of<uint8_t>(shape, x), bits = TensorData::of<uint8_t>(shape, by);
  test::forAllInstructionSets([&] {
    for (const std::string direction : {"LEFT", "RIGHT"})
      expectSameBits({"BitShift", {{"direction", direction}}, {bytes, bits}, 1}, direction);
  });
}

// Bit for bit over whole types, in which sums and products wrap.
TEST(Elementwise, IntegersOfEveryTypeAgreeToTheBit) {
  test::forAllInstructionSets([] {
    for (DataType type : kTypes)
      ref::dispatchAll(type, [&](auto tag) {
        using T = decltype(tag);
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) compareIntegers<T>(type);
      });
  });
}

// Logic on bytes and on masks in one loop: operands that only logic reads and one that a selection reads as well,
// results that are read again and stored. Every byte but 0 is true.
TEST(Elementwise, LogicOfBytesAndMasksInOneLoop) {
  constexpr int64_t kCount = 1333;
  Ir ir;
  test::GraphBuilder b(ir.createGraph(GraphId("body")));
  const TensorIndex p = b.input("p", {kCount}, DataType::BOOL), q = b.input("q", {kCount}, DataType::BOOL),
                    x = b.input("x", {kCount});
  const TensorIndex both = b.op("And", {p, q}, "both"), other = b.op("Xor", {b.op("Not", {both}, "not"), q}, "other");
  const TensorIndex chosen = b.op("Where", {both, x, b.op("Neg", {x}, "negative")}, "chosen");
  const TensorIndex mixed = b.op("Or", {other, b.op("Less", {chosen, x}, "less")}, "mixed");
  for (const TensorIndex t : {other, mixed, chosen, both}) b.graph().markOutput(t);
  std::vector<executable::OperandDesc> inputs, outputs;
  for (TensorIndex t : b.graph().inputs()) inputs.push_back({.info = b.graph().info(t)});
  for (TensorIndex t : b.graph().outputs()) outputs.push_back({.info = b.graph().info(t)});
  std::string reason;
  const auto program = cpu::makeElementProgram(cpu::elementSource(b.graph()), inputs, outputs, reason);
  ASSERT_TRUE(program) << reason;

  std::vector<uint8_t> ps, qs, others(kCount), mixeds(kCount), boths(kCount);
  std::vector<float> chosens(kCount);
  for (int i = 0; i < kCount; ++i)
    ps.push_back(static_cast<uint8_t>("\0\1\2\377\0"[i % 5])), qs.push_back(i % 3 ? 4 : 0);
  const std::vector<float> xs = test::numbers(kCount, 4);
  const void *in[] = {ps.data(), qs.data(), xs.data()};
  void *out[] = {others.data(), mixeds.data(), chosens.data(), boths.data()};
  std::vector<char> scratch(static_cast<size_t>(program->scratchBytes()) + 64);
  std::atomic<bool> failed = false;
  executable::RunContext context(failed);
  for (int task = 0; task < program->tasks(); ++task) program->run(in, out, scratch.data(), context, task);
  for (size_t i = 0; i < kCount; ++i) {
    const bool wantBoth = ps[i] && qs[i], wantOther = !wantBoth != (qs[i] != 0);
    const float wantChosen = wantBoth ? xs[i] : -xs[i];
    ASSERT_EQ(boths[i], wantBoth) << i;
    ASSERT_EQ(others[i], wantOther) << i;
    ASSERT_EQ(chosens[i], wantChosen) << i;
    ASSERT_EQ(mixeds[i], wantOther || wantChosen < xs[i]) << i;
  }
}

// One instruction, without a temporary.
TEST(Elementwise, IntegersAndBoolsAreComputedWhereTheyLie) {
  for (const auto &[type, data] : {std::pair("BitwiseXor", DataType::INT32),
                                   {"BitwiseAnd", DataType::UINT8},
                                   {"Add", DataType::INT16},
                                   {"Mul", DataType::UINT32},
                                   {"And", DataType::BOOL}}) {
    Ir ir;
    test::GraphBuilder b(ir.createGraph(GraphId("body")));
    b.graph().markOutput(b.op(type, {b.input("a", {9}, data), b.input("b", {9}, data)}, "y"));
    const executable::OperandDesc operand{.info = TensorInfo(data, {9})};
    std::string reason;
    const auto program = cpu::makeElementProgram(cpu::elementSource(b.graph()), {operand, operand}, {operand}, reason);
    ASSERT_TRUE(program) << reason;
    EXPECT_EQ(program->code.size(), 1u) << type;
    EXPECT_EQ(program->temporaries, 0) << type;
    EXPECT_TRUE(program->canOverwrite(0, 0)) << type;
  }
}

// To the bit, on both sides of multiples of the modulus, and where the quotient is too large for the vector form.
// Operands that exceed the caches are computed in shorter blocks. y = a b + a.
TEST(Elementwise, BlocksOfLongOperandsNeverChangeABit) {
  constexpr int64_t kOperands = 3, kSlice = 1000;
  const int64_t count = cpu::lastLevelCacheBytes() / 2 / (kOperands * static_cast<int64_t>(sizeof(float))) + 1234;
  cpu::ElementProgram program;
  for (int i = 0; i < 2; ++i) {
    cpu::ElementOperand operand;
    operand.access = cpu::ElementOperand::Access::kFull, operand.operand = i;
    program.inputs.push_back(operand);
  }
  program.outputBytes = {sizeof(float)};
  program.temporaries = 1;
  const auto add = [&](cpu::ElementOp op, int16_t left, int16_t right, int16_t to) {
    cpu::ElementInstruction instruction;
    instruction.fn = cpu::elementFunction(op, 0), instruction.in = {left, right, -1}, instruction.out = to;
    program.code.push_back(instruction);
  };
  add(cpu::ElementOp::kMul, 0, 1, 3);  // inputs 0 and 1, result 2, temporary 3
  add(cpu::ElementOp::kAdd, 3, 0, 2);
  program.loop.elements = count;
  ASSERT_TRUE(program.finish(2));
  const auto a = test::numbers(count, 1), b = test::numbers(count, 2);
  std::vector<float> y(static_cast<size_t>(count)), slice(kSlice), scratch(program.scratchBytes() / sizeof(float));
  std::atomic<bool> failed{false};
  executable::RunContext context(failed);
  const void *const in[] = {a.data(), b.data()};
  void *const out[] = {y.data()};
  for (int task = 0; task < program.tasks(); ++task) program.run(in, out, scratch.data(), context, task);
  for (int64_t at = 0; at < count; at += kSlice) {
    const int64_t size = std::min(kSlice, count - at);
    const void *const from[] = {a.data() + at, b.data() + at};
    void *const to[] = {slice.data()};
    program.runSpan(from, to, scratch.data(), context, size);
    ASSERT_TRUE(std::equal(slice.begin(), slice.begin() + size, y.begin() + at)) << "from element " << at << " on";
  }
  EXPECT_NEAR(y.back(), a.back() * (b.back() + 1.0), 1e-6);
}

TEST(Elementwise, IncrementModIsExact) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 engine(7);
  for (const auto &[increment, modulus] : {std::pair(1.0f, 3.0f),
                                           {0.1f, 0.7f},
                                           {-2.5f, -1.1f},
                                           {0.0f, 1e-45f},
                                           {1e30f, 3e-5f},
                                           {1.0f, 0.0f},
                                           {1.0f, kInfinity},
                                           {kInfinity, 2.0f},
                                           {1.0f, NAN},
                                           {0.3f, 3e38f}}) {
    std::vector<float> x = {0.0f, -0.0f, -increment, kInfinity, -kInfinity, NAN, 1e-45f, 3.4028235e38f};
    for (int i = 0; i < 40000; ++i) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine())));
      const float multiple = modulus * static_cast<float>(static_cast<int>(engine() % 2000) - 1000) - increment;
      x.push_back(std::nextafter(multiple, engine() % 2 ? kInfinity : -kInfinity));
      x.push_back(multiple);
    }
    const TensorData in(TensorInfo(DataType::FLOAT, {static_cast<int64_t>(x.size())}), x.data());
    const SingleOp op{"IncrementMod", {{"increment", increment}, {"modulus", modulus}}, {in}, 1};
    test::forAllInstructionSets([&] {
      const TensorData out = runOp(op, OpBackend::Best)[0];
      const auto *y = static_cast<const float *>(out.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const auto want = static_cast<float>(
            std::fmod(static_cast<double>(x[i]) + static_cast<double>(increment), static_cast<double>(modulus)));
        ASSERT_TRUE(std::isnan(want) ? std::isnan(y[i])
                                     : std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(want))
            << x[i] << " + " << increment << " by " << modulus << ": got " << y[i] << ", expected " << want;
      }
    });
  }
}

// Every 4099th number of either sign, those of `more`, infinity and NaN.
std::vector<float> ofAllExponents(std::vector<float> more) {
  more.push_back(std::numeric_limits<float>::infinity());
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 4099) more.push_back(std::bit_cast<float>(bits));
  for (size_t i = more.size(); i-- > 0;) more.push_back(-more[i]);
  more.push_back(NAN);
  return more;
}

// `got` is within so many ulp of `want`, or what a float of that size is.
testing::AssertionResult isWithin(float got, double want, double ulps) {
  if (std::isnan(want) || std::isinf(static_cast<float>(want)) || want == 0) {
    const bool same =
        std::isnan(want) ? std::isnan(got) : got == static_cast<float>(want) && std::signbit(got) == std::signbit(want);
    return (same ? testing::AssertionSuccess() : testing::AssertionFailure()) << got << ", expected " << want;
  }
  const double ulp = std::max(std::ldexp(1.0, std::ilogb(want) - 23), std::ldexp(1.0, -149));
  const double error = std::fabs(got - want) / ulp;
  return (error <= ulps ? testing::AssertionSuccess() : testing::AssertionFailure())
         << got << ", expected " << want << ": " << error << " ulp";
}

void expectAccurate(const char *type, const std::vector<float> &x, double (*function)(double), double ulps) {
  const TensorData in(TensorInfo(DataType::FLOAT, {static_cast<int64_t>(x.size())}), x.data());
  const TensorData out = runOp({type, {}, {in}, 1}, OpBackend::Best)[0];
  const auto *y = static_cast<const float *>(out.data());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(isWithin(y[i], function(static_cast<double>(x[i])), ulps)) << type << " of " << x[i];
}

TEST(Elementwise, TanhIsAccurateOverAllExponents) {
  expectAccurate("Tanh", ofAllExponents({9.0f, 9.01f, 9.02f, 9.03f}), std::tanh, 2.7);
}

// Also where results are no longer normal numbers, or overflow.
TEST(Elementwise, ExpIsAccurateOverAllExponents) {
  std::vector<float> edges;
  for (int i = 0; i < 4000; ++i) edges.push_back(static_cast<float>(86.0 + i * 0.005));
  for (int i = 0; i < 20000; ++i) edges.push_back(static_cast<float>(i * 0.0007));
  expectAccurate("Exp", ofAllExponents(edges), std::exp, 1.0);
}

TEST(Elementwise, PowIsAccurateAndTakesSpecialNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0f,  1.0f, 2.0f,        3.0f,     0.5f,   1.5f,   1e-40f, 1e-3f,
                                      1e38f, 1e9f, 16777215.0f, infinity, 0.999f, 1.001f, NAN};
  std::vector<float> a, b;
  for (const float x : special)
    for (const float y : special)
      for (const int signs : {0, 1, 2, 3}) a.push_back(signs & 1 ? -x : x), b.push_back(signs & 2 ? -y : y);
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> exponents(-4.0f, 4.0f);
  for (int i = 0; i < 200000; ++i) {
    a.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine()) & 0x7fffffff));
    b.push_back(i % 3 == 0 ? std::round(exponents(engine)) : exponents(engine));
    if (i % 3 == 0 && i % 2 == 0) a.back() = -a.back();
  }
  const Shape shape{static_cast<int64_t>(a.size())};
  const TensorData x(TensorInfo(DataType::FLOAT, shape), a.data()), y(TensorInfo(DataType::FLOAT, shape), b.data());
  const TensorData out = runOp({"Pow", {}, {x, y}, 1}, OpBackend::Best)[0];
  const auto *power = static_cast<const float *>(out.data());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(isWithin(power[i], std::pow(static_cast<double>(a[i]), static_cast<double>(b[i])), 0.51))
        << a[i] << " to the power of " << b[i];
}

// All quadrants, the axes with zeros of either sign, diagonals, and quotients that leave the normal numbers.
TEST(Elementwise, Atan2IsAccurateAndTakesSpecialNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0f,       1e-45f,        1e-38f,   1.0f, 0.99999994f,
                                      1.0000001f, 3.4028235e38f, infinity, NAN};
  std::vector<float> a, b;
  for (const float y : special)
    for (const float x : special)
      for (const int signs : {0, 1, 2, 3}) a.push_back(signs & 1 ? -y : y), b.push_back(signs & 2 ? -x : x);
  std::mt19937 engine(9);
  std::uniform_real_distribution<float> near(-2.0f, 2.0f);
  for (int i = 0; i < 300000; ++i) {
    a.push_back(i % 2 ? near(engine) : std::bit_cast<float>(static_cast<uint32_t>(engine())));
    b.push_back(i % 2 ? near(engine) : std::bit_cast<float>(static_cast<uint32_t>(engine())));
  }
  const Shape shape{static_cast<int64_t>(a.size())};
  const TensorData y(TensorInfo(DataType::FLOAT, shape), a.data()), x(TensorInfo(DataType::FLOAT, shape), b.data());
  test::forAllInstructionSets([&] {
    const TensorData out = runOp({"Atan2", {}, {y, x}, 1}, OpBackend::Best)[0];
    const auto *angles = static_cast<const float *>(out.data());
    for (size_t i = 0; i < a.size(); ++i) {
      const double want = std::atan2(static_cast<double>(a[i]), static_cast<double>(b[i]));
      ASSERT_TRUE(isWithin(angles[i], want, 2.0)) << "Atan2 of " << a[i] << ", " << b[i];
      const bool isOnAxis = a[i] == 0 || b[i] == 0;
      ASSERT_TRUE(!isOnAxis || isWithin(angles[i], static_cast<double>(static_cast<float>(want)), 0))
          << a[i] << ", " << b[i];
    }
  });
}

// What is a test of one sign only, and of both.
TEST(Elementwise, IsInfAsksForTheSignsWanted) {
  const float inf = INFINITY;
  const TensorData x = TensorData::of<float>({7}, std::vector<float>{inf, -inf, NAN, 0.0f, 3.4028235e38f, -1.0f, inf});
  for (const int64_t negative : {0, 1})
    for (const int64_t positive : {0, 1}) {
      const SingleOp op{"IsInf", {{"detect_negative", negative}, {"detect_positive", positive}}, {x}, 1};
      EXPECT_TRUE(runOp(op, OpBackend::Best)[0] == runOp(op, OpBackend::Reference)[0]) << negative << positive;
    }
}

TEST(Elementwise, WhereAndScaledAddAndPow) {
  for (const auto &shapes :
       std::vector<std::vector<Shape>>{{{4, 130}, {4, 130}, {}}, {{4, 1}, {130}, {4, 130}}, {{130}, {4, 1}, {}}})
    for (DataType type : {DataType::FLOAT, DataType::INT32, DataType::BOOL, DataType::FLOAT16}) {
      SingleOp op{"Where",
                  {},
                  {values(DataType::BOOL, shapes[0], 1), values(type, shapes[1], 2), values(type, shapes[2], 3)},
                  1};
      ASSERT_EQ(test::refusalOf(op), "");
      expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0], "Where");
    }
  for (float exponent : {2.0f, 3.0f, -1.0f, 0.5f, 1.0f, 0.0f, 2.7f}) {
    SingleOp op{"Pow", {}, {values(DataType::FLOAT, {900}, 4), TensorData::scalar<float>(exponent)}, 1};
    expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0], "Pow " + toText(exponent));
  }
  SingleOp op{
      "ScaledAdd",
      {{"scale0", 0.5f}, {"scale1", 1.0f}},
      {values(DataType::FLOAT, {900}, 4), values(DataType::FLOAT, {900}, 5), {}, TensorData::scalar<float>(-2.0f)},
      1};
  expectEqual(runOp(op, OpBackend::Best)[0], runOp(op, OpBackend::Reference)[0], "ScaledAdd");
}

}  // namespace
}  // namespace popart
