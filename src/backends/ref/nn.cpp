// Reference kernels of MatMul and of softmax, hardmax and their gradients along one axis.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/integer_sum.hpp"
#include "backends/ref/loops.hpp"

namespace popart::ref {
namespace {

// Offset (in matrices) of batch `index` of a broadcast result of shape `out` in an operand of shape `shape`.
int64_t batchOffset(int64_t index, const Shape &out, const Shape &shape) {
  int64_t offset = 0, stride = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t axis = out.size() - 1 - i;
    const int64_t position = index % out[axis];
    index /= out[axis];
    if (i >= shape.size()) continue;
    const int64_t dim = shape[shape.size() - 1 - i];
    if (dim != 1) offset += position * stride;
    stride *= dim;
  }
  return offset;
}

// The zero point of line `i` of an operand.
int64_t zeroPoint(const Context &c, int input, int64_t i) {
  return c.hasIn(input) ? loadInt(c.in[input], c.in[input].size() == 1 ? 0 : i) : 0;
}

// Sums modulo 2^32.
void integerMatMul(const Context &c) {
  Shape a = c.in[0].shape(), b = c.in[1].shape();
  const int64_t m = a[a.size() - 2], depth = a.back(), n = b.back();
  a.resize(a.size() - 2), b.resize(b.size() - 2);
  const Shape batch = npOut(a, b);
  for (int64_t i = 0; i < elementCount(batch); ++i) {
    const int64_t left = batchOffset(i, batch, a) * m, right = batchOffset(i, batch, b);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t col = 0; col < n; ++col) {
        const int64_t leftZero = zeroPoint(c, 2, left + r), rightZero = zeroPoint(c, 3, right * n + col);
        int64_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum = add(sum, (loadInt(c.in[0], (left + r) * depth + k) - leftZero) *
                             (loadInt(c.in[1], (right * depth + k) * n + col) - rightZero));
        storeIntegerSum(c, sum, col, (i * m + r) * n + col);
      }
  }
}

void matMul(const Context &c) {
  Shape a = c.in[0].shape(), b = c.in[1].shape();
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  a.resize(a.size() - 2), b.resize(b.size() - 2);
  const Shape batch = npOut(a, b);
  const int64_t batches = elementCount(batch);
  dispatchNumeric(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    using Sum = AccumulatorT<T>;
    const T *left = c.in[0].as<T>(), *right = c.in[1].as<T>();
    std::vector<Sum> row(n);
    for (int64_t i = 0; i < batches; ++i) {
      const T *lhs = left + batchOffset(i, batch, a) * m * k;
      const T *rhs = right + batchOffset(i, batch, b) * k * n;
      for (int64_t r = 0; r < m; ++r) {
        std::fill(row.begin(), row.end(), Sum{});
        for (int64_t j = 0; j < k; ++j) {
          const Sum x = static_cast<Sum>(lhs[r * k + j]);
          for (int64_t col = 0; col < n; ++col) row[col] += x * static_cast<Sum>(rhs[j * n + col]);
        }
        if (c.out[0].info.dataType() == c.in[0].info.dataType()) {
          T *out = c.out[0].as<T>() + (i * m + r) * n;
          for (int64_t col = 0; col < n; ++col) out[col] = static_cast<T>(row[col]);
        } else {
          for (int64_t col = 0; col < n; ++col) store(c.out[0], (i * m + r) * n + col, static_cast<double>(row[col]));
        }
      }
    }
  });
}

// Calls f(base, stride, length) for every line of elements along the op's axis, or from the axis on (flatten).
template <class F>
void forLines(const Context &c, const View &v, F &&f) {
  const Shape &shape = v.shape();
  const int64_t axis = normalizeAxis(c.op.attrInt("axis"), static_cast<int64_t>(shape.size()), "axis");
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  int64_t length = shape[axis];
  if (c.op.hasAttr("flatten")) length *= std::exchange(inner, 1);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) f(o * length * inner + i, inner, length);
}

template <class T>
double maximum(const T *x, int64_t stride, int64_t length) {
  double best = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < length; ++i) best = std::max(best, static_cast<double>(x[i * stride]));
  return best;
}

void softmax(const Context &c) {
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forLines(c, c.in[0], [&](int64_t base, int64_t stride, int64_t length) {
      const T *x = c.in[0].as<T>() + base;
      T *y = c.out[0].as<T>() + base;
      const double top = maximum(x, stride, length);
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - top);
      for (int64_t i = 0; i < length; ++i)
        y[i * stride] = static_cast<T>(std::exp(static_cast<double>(x[i * stride]) - top) / sum);
    });
  });
}

void logSoftmax(const Context &c) {
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forLines(c, c.in[0], [&](int64_t base, int64_t stride, int64_t length) {
      const T *x = c.in[0].as<T>() + base;
      T *y = c.out[0].as<T>() + base;
      const double top = maximum(x, stride, length);
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - top);
      const double logSum = std::log(sum);  // not top + logSum, which would lose the digits of logSum when top is large
      for (int64_t i = 0; i < length; ++i)
        y[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) - top - logSum);
    });
  });
}

void hardmax(const Context &c) {
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forLines(c, c.in[0], [&](int64_t base, int64_t stride, int64_t length) {
      const T *x = c.in[0].as<T>() + base;
      T *y = c.out[0].as<T>() + base;
      int64_t best = 0;
      for (int64_t i = 1; i < length; ++i)
        if (static_cast<double>(x[i * stride]) > static_cast<double>(x[best * stride])) best = i;
      for (int64_t i = 0; i < length; ++i) y[i * stride] = static_cast<T>(i == best ? 1.0f : 0.0f);
    });
  });
}

void softmaxGrad(const Context &c) {
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forLines(c, c.in[1], [&](int64_t base, int64_t stride, int64_t length) {
      const T *g = c.in[0].as<T>() + base, *y = c.in[1].as<T>() + base;
      T *dx = c.out[0].as<T>() + base;
      // Probabilities add up to 1, so the result does not change when a constant is subtracted from all g. With the g
      // of the largest probability, gradients that are exactly zero in mathematics are zero here, independent of how y
      // was rounded.
      int64_t largest = 0;
      for (int64_t i = 1; i < length; ++i)
        if (static_cast<double>(y[i * stride]) > static_cast<double>(y[largest * stride])) largest = i;
      const double shift = length > 0 ? static_cast<double>(g[largest * stride]) : 0;
      const auto shifted = [&](int64_t i) { return static_cast<double>(g[i * stride]) - shift; };
      // Fully masked rows have NaN in y. If nothing reads them, g is 0, and the gradient is 0 as well.
      const auto weighted = [&](int64_t i, double factor) {
        return factor == 0 ? 0.0 : static_cast<double>(y[i * stride]) * factor;
      };
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += weighted(i, shifted(i));
      for (int64_t i = 0; i < length; ++i) dx[i * stride] = static_cast<T>(weighted(i, shifted(i) - sum));
    });
  });
}

void logSoftmaxGrad(const Context &c) {
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forLines(c, c.in[1], [&](int64_t base, int64_t stride, int64_t length) {
      const T *g = c.in[0].as<T>() + base, *y = c.in[1].as<T>() + base;
      T *dx = c.out[0].as<T>() + base;
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += static_cast<double>(g[i * stride]);
      for (int64_t i = 0; i < length; ++i) {  // if the sum is 0, the gradient is g, even if y is NaN
        const double taken = sum == 0 ? 0.0 : std::exp(static_cast<double>(y[i * stride])) * sum;
        dx[i * stride] = static_cast<T>(static_cast<double>(g[i * stride]) - taken);
      }
    });
  });
}

void dequantizePacked(const Context &c) {
  const int64_t bits = c.op.attrInt("bits"), block = c.op.attrInt("block_size"), perByte = 8 / bits;
  const int64_t rows = c.out[0].shape()[0], columns = c.out[0].shape()[1], bytes = c.in[0].shape()[1],
                blocks = c.in[1].shape()[1];
  const auto middle = static_cast<double>(c.op.attrFloat("zero_point"));
  dispatchFloat(c.in[1].info.dataType(), [&](auto kind) {
    using T = decltype(kind);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < columns; ++i) {
        const int byte = c.in[0].as<uint8_t>()[r * bytes + i / perByte];
        const int number = (byte >> (i % perByte * bits)) & ((1 << bits) - 1);
        const int64_t at = r * blocks + i / block;
        const double zero = c.hasIn(2) ? static_cast<double>(c.in[2].as<T>()[at]) : middle;
        c.out[0].as<T>()[r * columns + i] = static_cast<T>((number - zero) * static_cast<double>(c.in[1].as<T>()[at]));
      }
  });
}

constexpr Entry kNnKernels[] = {
    {"MatMul", matMul},
    {"IntegerMatMul", integerMatMul},
    {"Softmax", softmax},
    {"LogSoftmax", logSoftmax},
    {"Hardmax", hardmax},
    {"SoftmaxGrad", softmaxGrad},
    {"LogSoftmaxGrad", logSoftmaxGrad},
    {"DequantizePacked", dequantizePacked},
};

}  // namespace

std::span<const Entry> nnKernels() { return kNnKernels; }

}  // namespace popart::ref
