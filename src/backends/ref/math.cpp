// Reference kernels of element-wise functions of several arguments: arithmetic, comparison, logic, bits, variadic,
// Cast, Where. Operands broadcast to the output's shape; integers wrap modulo their width.
#include <bit>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/loops.hpp"
#include "ops/math/cast.hpp"

namespace popart::ref {
namespace {

// f(output element, offset in operand 0, offset in operand 1) for every element of the output.
template <class F>
void forEachPair(const Context &c, F f) {
  const Shape &out = c.out[0].shape();
  Walk walk(out, {broadcastStrides(c.in[0].shape(), out), broadcastStrides(c.in[1].shape(), out)});
  for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) f(i, walk.offset(0), walk.offset(1));
}

template <auto F>
void binary(const Context &c) {
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    forEachPair(c, [a = c.in[0].as<T>(), b = c.in[1].as<T>(), y = c.out[0].as<T>()](int64_t i, int64_t ia, int64_t ib) {
      y[i] = toElement<T>(F(static_cast<V>(a[ia]), static_cast<V>(b[ib])));
    });
  });
}

// The operands that an integer operation excludes, in addition to divisor 0.
enum class Quotient { Fits, MayOverflow };

// Calls F. For integers, first reports divisors of 0 and, with MayOverflow, quotients that do not fit the type.
template <auto F, Quotient kQuotient>
void divideWith(const Context &c) {
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      constexpr T kSmallest = std::numeric_limits<T>::min();
      forEachPair(c, [&, a = c.in[0].as<T>(), b = c.in[1].as<T>()](int64_t i, int64_t ia, int64_t ib) {
        if (b[ib] == 0) c.report(executable::FailureKind::DivisionByZero, 1, i, 0, 0, 0);
        if (kQuotient == Quotient::MayOverflow && std::is_signed_v<T> && b[ib] == T(-1) && a[ia] == kSmallest)
          c.report(executable::FailureKind::QuotientOverflow, 0, i, static_cast<int64_t>(kSmallest),
                   static_cast<int64_t>(kSmallest) + 1, 0);
      });
    }
  });
  binary<F>(c);  // last, because the result may overwrite the operands
}

template <auto F>
void compare(const Context &c) {
  dispatchAll(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    forEachPair(c, [a = c.in[0].as<T>(), b = c.in[1].as<T>(), y = c.out[0].as<bool>()](
                       int64_t i, int64_t ia, int64_t ib) { y[i] = F(static_cast<V>(a[ia]), static_cast<V>(b[ib])); });
  });
}

template <auto F>
void logical(const Context &c) {
  forEachPair(c, [a = c.in[0].as<bool>(), b = c.in[1].as<bool>(), y = c.out[0].as<bool>()](
                     int64_t i, int64_t ia, int64_t ib) { y[i] = F(a[ia], b[ib]); });
}

void logicalNot(const Context &c) {
  for (int64_t i = 0; i < c.in[0].size(); ++i) c.out[0].as<bool>()[i] = !c.in[0].as<bool>()[i];
}

template <auto F>
void bitwise(const Context &c) {
  dispatchInteger(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    forEachPair(c, [a = c.in[0].as<T>(), b = c.in[1].as<T>(), y = c.out[0].as<T>()](int64_t i, int64_t ia, int64_t ib) {
      y[i] = static_cast<T>(F(a[ia], b[ib]));
    });
  });
}

void bitwiseNot(const Context &c) {
  dispatchInteger(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < c.in[0].size(); ++i) c.out[0].as<T>()[i] = static_cast<T>(~c.in[0].as<T>()[i]);
  });
}

void bitShift(const Context &c) {
  const bool left = c.op.attrString("direction") == "LEFT";
  dispatchInteger(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    forEachPair(c,
                [=, a = c.in[0].as<T>(), b = c.in[1].as<T>(), y = c.out[0].as<T>()](int64_t i, int64_t ia, int64_t ib) {
                  const uint64_t value = static_cast<uint64_t>(a[ia]), count = static_cast<uint64_t>(b[ib]);
                  y[i] = count >= 8 * sizeof(T) ? T(0) : static_cast<T>(left ? value << count : value >> count);
                });
  });
}

// a^b for integers, exact modulo 2^64; a negative exponent truncates the real power.
template <class V, class W>
V integerPower(V a, W b) {
  if (std::is_signed_v<W> && b < 0) return toElement<V>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  V result = 1;
  for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
    if (e & 1) result = multiply(result, a);
    a = multiply(a, a);
  }
  return result;
}

// A function that reads element i of a tensor as a W. Loops that are compiled for the type of one operand read the
// others with it.
template <class W>
using Reader = W (*)(const View &, int64_t);
template <class W>
Reader<W> readerOf(DataType type) {
  Reader<W> reader = nullptr;
  dispatchNumeric(type, [&](auto tag) {
    reader = [](const View &v, int64_t i) { return static_cast<W>(v.as<const decltype(tag)>()[i]); };
  });
  return reader;
}

void power(const Context &c) {
  const DataType exponentType = c.in[1].info.dataType();
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    const auto raise = [&](auto exponentTag) {
      using W = decltype(exponentTag);
      const Reader<W> exponentAt = readerOf<W>(exponentType);
      forEachPair(c, [&, a = c.in[0].as<T>(), y = c.out[0].as<T>()](int64_t i, int64_t ia, int64_t ib) {
        const AccumulatorT<T> base = static_cast<AccumulatorT<T>>(a[ia]);
        const W exponent = exponentAt(c.in[1], ib);
        if constexpr (std::is_integral_v<T> && std::is_integral_v<W>)
          y[i] = toElement<T>(integerPower(base, exponent));
        else
          y[i] = toElement<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
      });
    };
    if (std::is_integral_v<T> && isInteger(exponentType))
      dispatchInteger(exponentType, [&](auto integer) { raise(AccumulatorT<decltype(integer)>{}); });
    else
      raise(double{});
  });
}

void scaledAdd(const Context &c) {
  const double scale0 = parameter(c, 2, "scale0"), scale1 = parameter(c, 3, "scale1");
  for (int64_t i = 0; i < c.out[0].size(); ++i)
    store(c.out[0], i, scale0 * load(c.in[0], i) + scale1 * load(c.in[1], i));
}

// Folds all inputs element by element: f(accumulated, next), then finish(accumulated, number of inputs).
template <auto F, auto Finish>
void variadic(const Context &c) {
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    const Shape &out = c.out[0].shape();
    std::vector<Shape> strides;
    for (const View &v : c.in) strides.push_back(broadcastStrides(v.shape(), out));
    Walk walk(out, strides);
    for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) {
      V total = static_cast<V>(c.in[0].as<T>()[walk.offset(0)]);
      for (size_t k = 1; k < c.in.size(); ++k) total = F(total, static_cast<V>(c.in[k].as<T>()[walk.offset(k)]));
      c.out[0].as<T>()[i] = toElement<T>(Finish(total, c.in.size()));
    }
  });
}
constexpr auto kKeep = [](auto total, size_t) { return total; };
constexpr auto kMax = [](auto a, auto b) { return isNan(a) || a > b ? a : b; };
constexpr auto kMin = [](auto a, auto b) { return isNan(a) || a < b ? a : b; };

// From or to a small type. Integers keep their low bits, for any size.
void castSmall(const Context &c, const SmallFormat *from, const SmallFormat *to) {
  const View &x = c.in[0], &y = c.out[0];
  const SmallRounding rounding = to ? ops::smallRounding(c.op.attributes) : SmallRounding();
  const bool wholes = to && !to->isFloat && !from && getDataTypeInfo(x.info.dataType()).isFixedPoint;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (wholes)
      y.as<uint8_t>()[i] = static_cast<uint8_t>(loadInt(x, i) & ((1 << to->bits) - 1));
    else if (to)
      store(y, i, load(x, i), rounding);
    else
      dispatchAll(y.info.dataType(),
                  [&](auto tag) { y.as<decltype(tag)>()[i] = toElement<decltype(tag)>(load(x, i)); });
  }
}

void cast(const Context &c) {
  const SmallFormat *from = smallFormat(c.in[0].info.dataType()), *to = smallFormat(c.out[0].info.dataType());
  if (from || to) return castSmall(c, from, to);
  dispatchAll(c.in[0].info.dataType(), [&](auto from) {
    using S = decltype(from);
    dispatchAll(c.out[0].info.dataType(), [&](auto to) {
      using T = decltype(to);
      const S *x = c.in[0].as<S>();
      T *y = c.out[0].as<T>();
      for (int64_t i = 0; i < c.in[0].size(); ++i) y[i] = toElement<T>(static_cast<AccumulatorT<S>>(x[i]));
    });
  });
}

void where(const Context &c) {
  dispatchMoved(c.in[1].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    const Shape &out = c.out[0].shape();
    Walk walk(out, {broadcastStrides(c.in[0].shape(), out), broadcastStrides(c.in[1].shape(), out),
                    broadcastStrides(c.in[2].shape(), out)});
    for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) {
      c.out[0].as<T>()[i] =
          c.in[0].as<bool>()[walk.offset(0)] ? c.in[1].as<T>()[walk.offset(1)] : c.in[2].as<T>()[walk.offset(2)];
    }
  });
}

constexpr auto kPRelu = [](auto x, auto slope) {
  if constexpr (std::is_unsigned_v<decltype(x)>)
    return x;
  else
    return x < 0 ? multiply(slope, x) : x;
};

constexpr Entry kMathKernels[] = {
    {"Add", binary<[](auto a, auto b) { return add(a, b); }>},
    {"Sub", binary<[](auto a, auto b) { return subtract(a, b); }>},
    {"Mul", binary<[](auto a, auto b) { return multiply(a, b); }>},
    {"Div", divideWith<[](auto a, auto b) { return divide(a, b); }, Quotient::MayOverflow>},
    {"Fmod", divideWith<[](auto a, auto b) { return truncatedRemainder(a, b); }, Quotient::Fits>},
    {"Remainder", divideWith<[](auto a, auto b) { return flooredRemainder(a, b); }, Quotient::Fits>},
    {"Atan2", binary<[](double a, double b) { return std::atan2(a, b); }>},
    {"PRelu", binary<kPRelu>},
    {"Pow", power},
    {"ScaledAdd", scaledAdd},
    {"Equal", compare<[](auto a, auto b) { return a == b; }>},
    {"Less", compare<[](auto a, auto b) { return a < b; }>},
    {"LessOrEqual", compare<[](auto a, auto b) { return a <= b; }>},
    {"Greater", compare<[](auto a, auto b) { return b < a; }>},
    {"GreaterOrEqual", compare<[](auto a, auto b) { return b <= a; }>},
    {"And", logical<[](bool a, bool b) { return a && b; }>},
    {"Or", logical<[](bool a, bool b) { return a || b; }>},
    {"Xor", logical<[](bool a, bool b) { return a != b; }>},
    {"Not", logicalNot},
    {"BitwiseAnd", bitwise<[](auto a, auto b) { return a & b; }>},
    {"BitwiseOr", bitwise<[](auto a, auto b) { return a | b; }>},
    {"BitwiseXor", bitwise<[](auto a, auto b) { return a ^ b; }>},
    {"BitwiseXnor", bitwise<[](auto a, auto b) { return ~(a ^ b); }>},
    {"BitwiseNot", bitwiseNot},
    {"BitShift", bitShift},
    {"Sum", variadic<[](auto a, auto b) { return add(a, b); }, kKeep>},
    {"Mean", variadic<[](auto a, auto b) { return add(a, b); },
                      [](auto total, size_t count) { return total / static_cast<decltype(total)>(count); }>},
    {"Max", variadic<kMax, kKeep>},
    {"Min", variadic<kMin, kKeep>},
    {"Cast", cast},
    {"Where", where},
};

}  // namespace

std::span<const Entry> mathKernels() { return kMathKernels; }

}  // namespace popart::ref
