// The element-wise engine against the reference backend: every operator with an instruction, in every element type both
// take, over operand shapes that lead to each kind of loop; fused chains; packed storage; threads.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <popart/ir.hpp>

#include "../support/against_reference.hpp"
#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_table.hpp"
#include "backends/ref/ref.hpp"
#include "support/run_op.hpp"

namespace popart {
namespace {

using cpu::ElementRow;
using cpu::RegisterForm;

constexpr DataType kTypes[] = {DataType::FLOAT,  DataType::FLOAT16, DataType::BFLOAT16, DataType::INT8,
                               DataType::INT16,  DataType::INT32,   DataType::INT64,    DataType::UINT8,
                               DataType::UINT32, DataType::UINT64,  DataType::BOOL};

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
    if (type == "IncrementMod" || type == "Gelu" || type == "GeluErf" || type == "HardSwish" || type == "Softsign" ||
        type == "Mish" || type == "Swish")
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
