// Activation functions, element-wise. Formulas are those of the newest ONNX operator with the name; Gelu is the tanh
// approximation and GeluErf the exact one, as in ai.graphcore. Gradients at kinks are those of PyTorch
// (docs/decisions/0086-ties-and-kinks.md).
#include <numbers>

#include "ops/math/unary_rows.hpp"

namespace popart::ops {
namespace {

using E = Expression;
using A = Attributes;

double attribute(const A &a, const char *name) { return a.getAttribute<float>(name); }
E zero(E like) { return like.number(0); }

// 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
E geluGradient(E g, E x, const A &) {
  constexpr double kRoot = 0.79788456080286535588;  // sqrt(2/pi)
  constexpr double kCubic = 0.044715;
  E t = tanh(kRoot * (x + kCubic * x * x * x));
  E slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (kRoot + 3.0 * kRoot * kCubic * x * x);
  return g * slope;
}

E geluErfGradient(E g, E x, const A &) {
  E cdf = 0.5 * (1.0 + (x * (1.0 / std::numbers::sqrt2)).apply("Erf"));
  E pdf = (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-0.5 * x * x);
  return g * (cdf + x * pdf);
}

E swishGradient(E g, E x, const A &a) {
  const double alpha = attribute(a, "alpha");
  E s = sigmoid(alpha == 1.0 ? x : alpha * x);
  E y = x * s;
  return g * (s + (alpha == 1.0 ? y : alpha * y) * (1.0 - s));
}

E mishGradient(E g, E x, const A &) {
  E t = tanh(x.apply("Softplus"));
  return g * (t + x * (1.0 - t * t) * sigmoid(x));
}

void addRectifiers(OpDefs &rows) {
  addDifferentiable(rows, unaryRow("ai.onnx", "Relu", {6, 13, 14}, kFloats | kSignedInts).doc("max(x, 0)."),
                    Reads::Output, [](E g, E y, const A &) { return select(y > 0.0, g, zero(g)); });
  addDifferentiable(
      rows,
      unaryRow("ai.onnx", "LeakyRelu", {1, 6, 16}, kFloats).attr("alpha", 0.01f).doc("x for x >= 0, else alpha x."),
      Reads::Input, [](E g, E x, const A &a) { return select(x > 0.0, g, g * attribute(a, "alpha")); });
  addDifferentiable(
      rows,
      unaryRow("ai.onnx", "ThresholdedRelu", {10, 22}, kNumeric).attr("alpha", 1.0f).doc("x for x > alpha, else 0."),
      Reads::Input, [](E g, E x, const A &a) { return select(x > attribute(a, "alpha"), g, zero(g)); });
  addDifferentiable(
      rows,
      unaryRow("ai.onnx", "Elu", {1, 6, 22}, kNumeric).attr("alpha", 1.0f).doc("x for x >= 0, else alpha (e^x - 1)."),
      Reads::Input, [](E g, E x, const A &a) { return select(x > 0.0, g, g * attribute(a, "alpha") * exp(x)); });
  addDifferentiable(rows,
                    unaryRow("ai.onnx", "Selu", {1, 6, 22}, kNumeric)
                        .attr("alpha", 1.67326319217681884765625f)
                        .attr("gamma", 1.05070102214813232421875f)
                        .doc("gamma x for x > 0, else gamma alpha (e^x - 1)."),
                    Reads::Input, [](E g, E x, const A &a) {
                      const double gamma = attribute(a, "gamma");
                      return select(x > 0.0, g * gamma, g * (gamma * attribute(a, "alpha")) * exp(x));
                    });
  addDifferentiable(rows,
                    unaryRow("ai.onnx", "Celu", {12, 28}, kFloats)
                        .attr("alpha", 1.0f)
                        .doc("max(0, x) + min(0, alpha (e^(x / alpha) - 1))."),
                    Reads::Input,
                    [](E g, E x, const A &a) { return select(x >= 0.0, g, g * exp(x / attribute(a, "alpha"))); });
  addDifferentiable(rows,
                    unaryRow("ai.onnx", "Shrink", {9}, kNumeric)
                        .attr("bias", 0.0f)
                        .attr("lambd", 0.5f)
                        .doc("x + bias for x < -lambd, x - bias for x > lambd, else 0."),
                    Reads::Input,
                    [](E g, E x, const A &a) { return select(x.apply("Abs") > attribute(a, "lambd"), g, zero(g)); });
  addDifferentiable(
      rows,
      unaryRow("ai.onnx", "Clip", {6, 11, 12, 13}, kNumeric)
          .attrOptional("min", AttributeType::Float)
          .attrOptional("max", AttributeType::Float)
          .constInput(1, "min", 11)
          .constInput(2, "max", 11)
          .doc("min(max(x, min), max); an absent bound has no effect. The gradient passes where min <= x <= max."),
      Reads::Input, [](E g, E x, const A &a) {
        E result = g;
        if (a.hasAttribute("min")) result = select(x >= attribute(a, "min"), result, zero(g));
        if (a.hasAttribute("max")) result = select(x <= attribute(a, "max"), result, zero(g));
        return result;
      });
}

void addSigmoids(OpDefs &rows) {
  addDifferentiable(rows, unaryRow("ai.onnx", "Sigmoid", {6, 13}, kFloats).doc("1 / (1 + e^-x)."), Reads::Output,
                    [](E g, E y, const A &) { return g * y * (1.0 - y); });
  addDifferentiable(rows,
                    unaryRow("ai.onnx", "HardSigmoid", {1, 6, 22}, kNumeric)
                        .attr("alpha", 0.2f)
                        .attr("beta", 0.5f)
                        .doc("max(0, min(1, alpha x + beta))."),
                    Reads::Output, [](E g, E y, const A &a) {
                      return select((y > 0.0) && (y < 1.0), g * attribute(a, "alpha"), zero(g));
                    });
  addDifferentiable(rows, unaryRow("ai.onnx", "HardSwish", {14, 22}, kFloats).doc("x max(0, min(1, x / 6 + 1/2))."),
                    Reads::Input, [](E g, E x, const A &) {
                      E inside = g * (x * (1.0 / 3.0) + 0.5);
                      return select(x <= -3.0, zero(g), select(x >= 3.0, g, inside));
                    });
  addDifferentiable(rows, unaryRow("ai.onnx", "Softplus", {1, 22}, kNumeric).doc("log(1 + e^x)."), Reads::Input,
                    [](E g, E x, const A &) { return g * sigmoid(x); });
  addDifferentiable(rows, unaryRow("ai.onnx", "Softsign", {1, 22}, kNumeric).doc("x / (1 + |x|)."), Reads::Input,
                    [](E g, E x, const A &) {
                      E d = 1.0 + x.apply("Abs");
                      return g / (d * d);
                    });
  addDifferentiable(rows, unaryRow("ai.onnx", "Mish", {18, 22}, kFloats).doc("x tanh(log(1 + e^x))."), Reads::Input,
                    mishGradient);
  addDifferentiable(rows,
                    unaryRow("ai.graphcore", "Swish", {1}, kFloats)
                        .attr("alpha", 1.0f)
                        .onnx("ai.onnx", "Swish", {24})
                        .doc("x sigmoid(alpha x)."),
                    Reads::Input, swishGradient);
  addDifferentiable(
      rows, unaryRow("ai.graphcore", "Gelu", {1}, kFloats).doc("Gaussian error linear unit, tanh approximation."),
      Reads::Input, geluGradient);
  addDifferentiable(
      rows, unaryRow("ai.graphcore", "GeluErf", {1}, kFloats).doc("x Phi(x): Gaussian error linear unit, exact."),
      Reads::Input, geluErfGradient);
}

}  // namespace

OpDefs activationOps() {
  OpDefs rows;
  addRectifiers(rows);
  addSigmoids(rows);
  for (OpDef &row : rows) row.precision(Precision::Follows);
  return rows;
}

}  // namespace popart::ops
