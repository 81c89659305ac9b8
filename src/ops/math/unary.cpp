// Element-wise functions of one argument, y[i] = f(x[i]): powers, logarithms, trigonometry, rounding, sign.
// Each differentiable row has a row "<Op>Grad", given as a formula of the incoming gradient g and v = x or y.
#include <numbers>

#include <popart/op.hpp>

#include "ops/math/unary_rows.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using E = Expression;
using A = Attributes;

E square(E v) { return v * v; }

void addAlgebra(OpDefs &rows) {
  addDifferentiable(rows, unaryRow("ai.onnx", "Abs", {6, 13}, kNumeric).precision(Precision::Follows).doc("|x|."),
                    Reads::Input, [](E g, E x, const A &) { return g * x.apply("Sign"); });
  addDifferentiable(rows,
                    unaryRow("ai.onnx", "Neg", {6, 13}, kFloats | kSignedInts)
                        .precision(Precision::Follows)
                        .role(Role::Neg)
                        .doc("-x."),
                    Reads::Nothing, [](E g, E, const A &) { return -g; });
  addDifferentiable(rows, unaryRow("ai.onnx", "Reciprocal", {6, 13}, kFloats).doc("1 / x."), Reads::Output,
                    [](E g, E y, const A &) { return -(g * y * y); });
  addDifferentiable(rows, unaryRow("ai.onnx", "Sqrt", {6, 13}, kFloats).doc("Square root; NaN for x < 0."),
                    Reads::Output, [](E g, E y, const A &) { return 0.5 * g / y; });
  addDifferentiable(rows, unaryRow("ai.onnx", "Exp", {6, 13}, kFloats).doc("e^x."), Reads::Output,
                    [](E g, E y, const A &) { return g * y; });
  addDifferentiable(rows, unaryRow("ai.graphcore", "Expm1", {1}, kFloats).doc("e^x - 1, accurate near 0."),
                    Reads::Output, [](E g, E y, const A &) { return g * (y + 1.0); });
  addDifferentiable(rows, unaryRow("ai.onnx", "Log", {6, 13}, kFloats).doc("Natural logarithm."), Reads::Input,
                    [](E g, E x, const A &) { return g / x; });
  addDifferentiable(rows, unaryRow("ai.graphcore", "Log1p", {1}, kFloats).doc("log(1 + x), accurate near 0."),
                    Reads::Input, [](E g, E x, const A &) { return g / (x + 1.0); });
  addDifferentiable(
      rows, unaryRow("ai.onnx", "Erf", {9, 13}, kNumeric).precision(Precision::Follows).doc("Error function."),
      Reads::Input, [](E g, E x, const A &) { return g * (std::numbers::inv_sqrtpi * 2.0) * exp(-square(x)); });
}

void addTrigonometry(OpDefs &rows) {
  auto add = [&rows](const char *type, std::vector<OpVersion> versions, Reads reads, GradientFormula formula,
                     Precision precision = Precision::Full) {
    OpDef row = unaryRow("ai.onnx", type, std::move(versions), kFloats);
    row.precision(precision).doc(std::string(type) + " of x, in radians.");
    addDifferentiable(rows, std::move(row), reads, formula);
  };
  add("Sin", {7, 22}, Reads::Input, [](E g, E x, const A &) { return g * x.apply("Cos"); });
  add("Cos", {7, 22}, Reads::Input, [](E g, E x, const A &) { return -(g * x.apply("Sin")); });
  add("Tan", {7, 22}, Reads::Output, [](E g, E y, const A &) { return g * (1.0 + square(y)); });
  add("Asin", {7, 22}, Reads::Input, [](E g, E x, const A &) { return g / sqrt(1.0 - square(x)); });
  add("Acos", {7, 22}, Reads::Input, [](E g, E x, const A &) { return -(g / sqrt(1.0 - square(x))); });
  add("Atan", {7, 22}, Reads::Input, [](E g, E x, const A &) { return g / (1.0 + square(x)); });
  add("Sinh", {9, 22}, Reads::Input, [](E g, E x, const A &) { return g * x.apply("Cosh"); });
  add("Cosh", {9, 22}, Reads::Input, [](E g, E x, const A &) { return g * x.apply("Sinh"); });
  const auto tanhGradient = [](E g, E y, const A &) { return g * (1.0 - square(y)); };
  add("Tanh", {6, 13}, Reads::Output, tanhGradient, Precision::Follows);  // an activation
  add("Asinh", {9, 22}, Reads::Input, [](E g, E x, const A &) { return g / sqrt(square(x) + 1.0); });
  add("Acosh", {9, 22}, Reads::Input, [](E g, E x, const A &) { return g / sqrt(square(x) - 1.0); });
  add("Atanh", {9, 22}, Reads::Input, [](E g, E x, const A &) { return g / (1.0 - square(x)); });
}

// Piecewise constant functions: their gradient is zero wherever it exists.
void addSteps(OpDefs &rows) {
  auto add = [&rows](const char *domain, const char *type, std::vector<OpVersion> versions, TypeSet types,
                     const char *doc) {
    OpDef row = unaryRow(domain, type, std::move(versions), types).doc(doc);
    row.vjp([](VjpBuilder &b) { b.grad(0, b.emit("UnaryZeroGrad", {b.gradOut(0)})); });
    rows.push_back(std::move(row));
  };
  add("ai.onnx", "Ceil", {1, 6, 13}, kFloats, "Smallest integer >= x.");
  add("ai.onnx", "Floor", {1, 6, 13}, kFloats, "Largest integer <= x.");
  add("ai.onnx", "Sign", {9, 13}, kNumeric, "-1, 0 or 1; NaN stays NaN.");
  add("ai.graphcore", "Round", {1}, kFloats, "Nearest integer, halves away from zero.");
  add("ai.graphcore", "NearbyInt", {1}, kFloats, "Nearest integer, halves to even (ONNX Round).");
  rows.back().onnx("ai.onnx", "Round", {11, 22});
  rows.push_back(OpDef("ai.graphcore", "UnaryZeroGrad", {1})
                     .input("grad", kNumeric)
                     .output("dx")
                     .traits(Trait::Gradient)
                     .pieces(alignedPieces)
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) {
                       b.result(0, emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape()));
                     })
                     .doc("Zero gradient of piecewise constant functions."));
}

}  // namespace

OpDefs unaryOps() {
  OpDefs rows;
  addAlgebra(rows);
  addTrigonometry(rows);
  addSteps(rows);
  addDifferentiable(rows,
                    unaryRow("ai.graphcore", "Scale", {1}, kNumeric)
                        .role(Role::Scale)
                        .precision(Precision::Follows)
                        .attrRequired("scale", AttributeType::Float)
                        .identityIf([](const Op &op) { return op.attrFloat("scale") == 1.0f; })
                        .doc("scale * x."),
                    Reads::Nothing,
                    [](E g, E, const A &a) { return g * static_cast<double>(a.getAttribute<float>("scale")); });
  rows.push_back(unaryRow("ai.graphcore", "IncrementMod", {1}, kNumeric)
                     .attrRequired("increment", AttributeType::Float)
                     .attrRequired("modulus", AttributeType::Float)
                     .stopsGrad()
                     .doc("fmod(x + increment, modulus): the remainder has the sign of x + increment."));
  rows.push_back(OpDef("ai.onnx", "IsNaN", {9, 13, 20})
                     .input("x", kFloats)
                     .output("y")
                     .infer(inferLikeBool)
                     .traits(Trait::Elementwise)
                     .stopsGrad()
                     .doc("Whether x is not a number."));
  rows.push_back(OpDef("ai.onnx", "IsInf", {10, 20})
                     .input("x", kFloats)
                     .output("y")
                     .attr("detect_negative", int64_t{1})
                     .attr("detect_positive", int64_t{1})
                     .infer(inferLikeBool)
                     .traits(Trait::Elementwise)
                     .stopsGrad()
                     .doc("Whether x is infinite, with one of the requested signs."));
  return rows;
}

}  // namespace popart::ops
