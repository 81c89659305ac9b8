// Reference kernels of pooling and its gradients for any number of spatial dimensions.
#include <cmath>
#include <limits>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/window_taps.hpp"

namespace popart::ref {
namespace {

// Sizes of a pooling x (N, C, in…) → y (N, C, out…); planes = N C.
struct PoolSizes {
  ops::Window window;
  Shape input, output;
  int64_t planes, inputSize, outputSize;

  PoolSizes(const Context &c, const Shape &x, const Shape &y)
      : window(ops::windowOf(c.op.attributes)),
        input(ops::spatialShape(x)),
        output(ops::spatialShape(y)),
        planes(x[0] * x[1]),
        inputSize(elementCount(input)),
        outputSize(elementCount(output)) {}
};

template <class T>
T least() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::min();
  return static_cast<T>(-std::numeric_limits<float>::infinity());
}

// First maximum under the window (the first NaN wins); -1 for a window wholly in the padding.
template <class T>
int64_t firstMaximum(const T *plane, const WindowAt &at) {
  int64_t best = -1;
  for (const Tap &t : at.taps) {
    const double value = static_cast<double>(plane[t.input]);
    if (best < 0) {
      best = t.input;
      continue;
    }
    const double top = static_cast<double>(plane[best]);
    if (!std::isnan(top) && (value > top || std::isnan(value))) best = t.input;
  }
  return best;
}

// Row-major spatial position as a column-major one.
int64_t columnMajor(int64_t position, const Shape &shape) {
  int64_t result = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t stride = 1;
    for (size_t k = 0; k < i; ++k) stride *= shape[k];
    result += position % shape[i] * stride;
    position /= shape[i];
  }
  return result;
}

void maxPool(const Context &c) {
  const PoolSizes s(c, c.in[0].shape(), c.out[0].shape());
  const bool columns = c.op.attrInt("storage_order") != 0;
  dispatchNumeric(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
      for (int64_t p = 0; p < s.planes; ++p) {
        const T *plane = c.in[0].as<T>() + p * s.inputSize;
        const int64_t best = firstMaximum(plane, at), to = p * s.outputSize + at.output;
        c.out[0].as<T>()[to] = best < 0 ? least<T>() : plane[best];
        if (c.hasOut(1))
          c.out[1].as<int64_t>()[to] = best < 0 ? -1 : p * s.inputSize + (columns ? columnMajor(best, s.input) : best);
      }
    });
  });
}

// Runs body(window, plane, gradient of the output element, dx plane) over all windows and planes and writes dx.
template <class F>
void spreadGradient(const Context &c, F &&body) {
  const PoolSizes s(c, c.out[0].shape(), c.in[0].shape());
  std::vector<double> dx(static_cast<size_t>(c.out[0].size()), 0.0);
  forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
    for (int64_t p = 0; p < s.planes; ++p) {
      const int64_t from = p * s.outputSize + at.output;
      body(at, p * s.inputSize, from, load(c.in[0], from), dx.data() + p * s.inputSize);
    }
  });
  for (size_t i = 0; i < dx.size(); ++i) store(c.out[0], static_cast<int64_t>(i), dx[i]);
}

void maxPoolGrad(const Context &c) {
  dispatchFloat(c.in[1].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    spreadGradient(c, [&](const WindowAt &at, int64_t plane, int64_t, double g, double *dx) {
      const int64_t best = firstMaximum(c.in[1].as<T>() + plane, at);
      if (best >= 0) dx[best] += g;
    });
  });
}

double averageCount(const Context &c, const WindowAt &at) {
  const bool padded = c.op.attrInt("count_include_pad") != 0;
  return static_cast<double>(padded ? at.paddedCount : static_cast<int64_t>(at.taps.size()));
}

void averagePool(const Context &c) {
  const PoolSizes s(c, c.in[0].shape(), c.out[0].shape());
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
      const double count = averageCount(c, at);
      for (int64_t p = 0; p < s.planes; ++p) {
        const T *plane = c.in[0].as<T>() + p * s.inputSize;
        double sum = 0;
        for (const Tap &t : at.taps) sum += static_cast<double>(plane[t.input]);
        c.out[0].as<T>()[p * s.outputSize + at.output] = static_cast<T>(count == 0 ? 0.0 : sum / count);
      }
    });
  });
}

void averagePoolGrad(const Context &c) {
  spreadGradient(c, [&](const WindowAt &at, int64_t, int64_t, double g, double *dx) {
    for (const Tap &t : at.taps) dx[t.input] += g / averageCount(c, at);
  });
}

void lpPool(const Context &c) {
  const PoolSizes s(c, c.in[0].shape(), c.out[0].shape());
  const double power = static_cast<double>(c.op.attrInt("p"));
  forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
    for (int64_t p = 0; p < s.planes; ++p) {
      double sum = 0;
      for (const Tap &t : at.taps) sum += std::pow(std::abs(load(c.in[0], p * s.inputSize + t.input)), power);
      store(c.out[0], p * s.outputSize + at.output, std::pow(sum, 1.0 / power));
    }
  });
}

void lpPoolGrad(const Context &c) {
  const double power = static_cast<double>(c.op.attrInt("p"));
  spreadGradient(c, [&](const WindowAt &at, int64_t plane, int64_t from, double g, double *dx) {
    const double y = load(c.in[2], from);
    if (y == 0) return;
    for (const Tap &t : at.taps) {
      const double x = load(c.in[1], plane + t.input);
      dx[t.input] += g * std::copysign(std::pow(std::abs(x) / y, power - 1), x) * (x != 0);
    }
  });
}

constexpr Entry kPoolKernels[] = {
    {"MaxPool", maxPool},         {"MaxPoolGrad", maxPoolGrad},
    {"AveragePool", averagePool}, {"AveragePoolGrad", averagePoolGrad},
    {"LpPool", lpPool},           {"LpPoolGrad", lpPoolGrad},
};

}  // namespace

std::span<const Entry> poolKernels() { return kPoolKernels; }

}  // namespace popart::ref
