// Reference kernels of element-wise functions of one argument. Values are computed in double (integers in 64 bits) and
// converted to the element type once, at the end.
#include <algorithm>
#include <numbers>

#include "backends/ref/families.hpp"
#include "backends/ref/loops.hpp"

namespace popart::ref {
namespace {

template <class F>
void mapElements(const Context &c, F f) {
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    const T *x = c.in[0].as<T>();
    T *y = c.out[0].as<T>();
    for (int64_t i = 0; i < c.in[0].size(); ++i) y[i] = toElement<T>(f(static_cast<AccumulatorT<T>>(x[i])));
  });
}

// Kernel of a function without attributes; F takes double, int64_t or uint64_t.
template <auto F>
void unary(const Context &c) {
  mapElements(c, F);
}
// Kernel of a function that F makes from the op's attributes.
template <auto F>
void unaryWith(const Context &c) {
  mapElements(c, F(c.op));
}

double number(const OpValues &op, const char *name) { return op.attrFloat(name); }

constexpr auto kAbs = [](auto x) {
  if constexpr (std::is_unsigned_v<decltype(x)>)
    return x;
  else if constexpr (std::is_floating_point_v<decltype(x)>)
    return std::fabs(x);
  else
    return x < 0 ? subtract(decltype(x)(0), x) : x;
};
constexpr auto kSign = [](auto x) {
  if (isNan(x)) return x;
  return decltype(x)(x > 0) - decltype(x)(x < 0);
};
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }
double geluErf(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
constexpr auto kRelu = [](auto x) { return x > 0 || isNan(x) ? x : decltype(x)(0); };

auto clip(const OpValues &op) {
  const bool hasMin = op.hasAttr("min"), hasMax = op.hasAttr("max");
  const double min = hasMin ? number(op, "min") : 0, max = hasMax ? number(op, "max") : 0;
  return [=](auto x) {
    using V = decltype(x);
    if (hasMin && static_cast<double>(x) < min) x = toElement<V>(min);
    if (hasMax && static_cast<double>(x) > max) x = toElement<V>(max);
    return x;
  };
}

auto leakyRelu(const OpValues &op) {
  const double alpha = number(op, "alpha");
  return [=](double x) { return x >= 0 || isNan(x) ? x : alpha * x; };
}
auto thresholdedRelu(const OpValues &op) {
  const double alpha = number(op, "alpha");
  return [=](double x) { return x > alpha || isNan(x) ? x : 0.0; };
}
auto elu(const OpValues &op) {
  const double alpha = number(op, "alpha");
  return [=](double x) { return x >= 0 ? x : alpha * std::expm1(x); };
}
auto selu(const OpValues &op) {
  const double alpha = number(op, "alpha"), gamma = number(op, "gamma");
  return [=](double x) { return x > 0 ? gamma * x : gamma * alpha * std::expm1(x); };
}
auto celu(const OpValues &op) {
  const double alpha = number(op, "alpha");
  return [=](double x) { return x >= 0 ? x : alpha * std::expm1(x / alpha); };
}
auto shrink(const OpValues &op) {
  const double bias = number(op, "bias"), lambd = number(op, "lambd");
  return [=](double x) { return isNan(x) ? x : x < -lambd ? x + bias : x > lambd ? x - bias : 0.0; };
}
auto hardSigmoid(const OpValues &op) {
  const double alpha = number(op, "alpha"), beta = number(op, "beta");
  return [=](double x) {
    const double y = alpha * x + beta;
    return isNan(y) ? y : std::clamp(y, 0.0, 1.0);
  };
}
auto swish(const OpValues &op) {
  const double alpha = number(op, "alpha");
  return [=](double x) { return x * sigmoid(alpha * x); };
}
auto scale(const OpValues &op) {
  const double factor = number(op, "scale");
  return [=](double x) { return factor * x; };
}
auto incrementMod(const OpValues &op) {
  const double increment = number(op, "increment"), modulus = number(op, "modulus");
  return [=](double x) { return std::fmod(x + increment, modulus); };
}

template <auto F>
void predicate(const Context &c) {
  auto f = F(c.op);
  dispatchFloat(c.in[0].info.dataType(), [&](auto tag) {
    const auto *x = c.in[0].as<decltype(tag)>();
    for (int64_t i = 0; i < c.in[0].size(); ++i) c.out[0].as<bool>()[i] = f(static_cast<double>(x[i]));
  });
}
auto isNanOf(const OpValues &) {
  return [](double x) { return x != x; };
}
auto isInfOf(const OpValues &op) {
  const bool negative = op.attrInt("detect_negative") != 0, positive = op.attrInt("detect_positive") != 0;
  return [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); };
}

constexpr Entry kUnaryKernels[] = {
    {"Abs", unary<kAbs>},
    {"Neg", unary<[](auto x) { return std::is_floating_point_v<decltype(x)> ? -x : subtract(decltype(x)(0), x); }>},
    {"Reciprocal", unary<[](double x) { return 1 / x; }>},
    {"Sqrt", unary<[](double x) { return std::sqrt(x); }>},
    {"Exp", unary<[](double x) { return std::exp(x); }>},
    {"Expm1", unary<[](double x) { return std::expm1(x); }>},
    {"Log", unary<[](double x) { return std::log(x); }>},
    {"Log1p", unary<[](double x) { return std::log1p(x); }>},
    {"Erf", unary<[](double x) { return std::erf(x); }>},
    {"Sin", unary<[](double x) { return std::sin(x); }>},
    {"Cos", unary<[](double x) { return std::cos(x); }>},
    {"Tan", unary<[](double x) { return std::tan(x); }>},
    {"Asin", unary<[](double x) { return std::asin(x); }>},
    {"Acos", unary<[](double x) { return std::acos(x); }>},
    {"Atan", unary<[](double x) { return std::atan(x); }>},
    {"Sinh", unary<[](double x) { return std::sinh(x); }>},
    {"Cosh", unary<[](double x) { return std::cosh(x); }>},
    {"Tanh", unary<[](double x) { return std::tanh(x); }>},
    {"Asinh", unary<[](double x) { return std::asinh(x); }>},
    {"Acosh", unary<[](double x) { return std::acosh(x); }>},
    {"Atanh", unary<[](double x) { return std::atanh(x); }>},
    {"Ceil", unary<[](double x) { return std::ceil(x); }>},
    {"Floor", unary<[](double x) { return std::floor(x); }>},
    {"Sign", unary<kSign>},
    {"Round", unary<[](double x) { return std::round(x); }>},
    {"NearbyInt", unary<[](double x) { return std::nearbyint(x); }>},
    {"Scale", unaryWith<scale>},
    {"IncrementMod", unaryWith<incrementMod>},
    {"IsNaN", predicate<isNanOf>},
    {"IsInf", predicate<isInfOf>},
    {"Relu", unary<kRelu>},
    {"LeakyRelu", unaryWith<leakyRelu>},
    {"ThresholdedRelu", unaryWith<thresholdedRelu>},
    {"Elu", unaryWith<elu>},
    {"Selu", unaryWith<selu>},
    {"Celu", unaryWith<celu>},
    {"Shrink", unaryWith<shrink>},
    {"Clip", unaryWith<clip>},
    {"Sigmoid", unary<sigmoid>},
    {"HardSigmoid", unaryWith<hardSigmoid>},
    {"HardSwish", unary<[](double x) { return x <= -3  ? 0.0
                                              : x >= 3 ? x
                                                       : x * (x / 6 + 0.5); }>},
    {"Softplus", unary<softplus>},
    {"Softsign", unary<[](double x) { return x / (1 + std::abs(x)); }>},
    {"Mish", unary<[](double x) { return x * std::tanh(softplus(x)); }>},
    {"Swish", unaryWith<swish>},
    {"Gelu", unary<gelu>},
    {"GeluErf", unary<geluErf>},
};

}  // namespace

std::span<const Entry> unaryKernels() { return kUnaryKernels; }

}  // namespace popart::ref
