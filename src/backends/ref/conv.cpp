// Reference kernels of convolution and its gradients for any number of spatial dimensions.
#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/integer_sum.hpp"
#include "backends/ref/loops.hpp"
#include "backends/ref/window_taps.hpp"

namespace popart::ref {
namespace {

// Sizes of one convolution x (N, C, in…), w (M, C / group, k…), y (N, M, out…).
struct ConvSizes {
  ops::Window window;
  Shape input, output;
  int64_t batch, channels, outChannels, groups, inputSize, outputSize, kernelSize;

  ConvSizes(const Context &c, const Shape &x, const Shape &y)
      : window(ops::windowOf(c.op.attributes)),
        input(ops::spatialShape(x)),
        output(ops::spatialShape(y)),
        batch(x[0]),
        channels(x[1]),
        outChannels(y[1]),
        groups(c.op.attrInt("group")),
        inputSize(elementCount(input)),
        outputSize(elementCount(output)),
        kernelSize(elementCount(window.kernel)) {}
  int64_t groupChannels() const { return channels / groups; }
  // Offset of the input plane of channel `local` of the group that output channel m belongs to.
  int64_t inputPlane(int64_t n, int64_t m, int64_t local) const {
    return (n * channels + m / (outChannels / groups) * groupChannels() + local) * inputSize;
  }
  int64_t weightPlane(int64_t m, int64_t local) const { return (m * groupChannels() + local) * kernelSize; }
  int64_t outputPlane(int64_t n, int64_t m) const { return (n * outChannels + m) * outputSize; }
};

void conv(const Context &c) {
  const ConvSizes s(c, c.in[0].shape(), c.out[0].shape());
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    const T *x = c.in[0].as<T>(), *w = c.in[1].as<T>(), *bias = c.hasIn(2) ? c.in[2].as<T>() : nullptr;
    T *y = c.out[0].as<T>();
    forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t m = 0; m < s.outChannels; ++m) {
          double sum = 0;
          for (int64_t local = 0; local < s.groupChannels(); ++local) {
            const T *plane = x + s.inputPlane(n, m, local), *weights = w + s.weightPlane(m, local);
            for (const Tap &t : at.taps)
              sum += static_cast<double>(plane[t.input]) * static_cast<double>(weights[t.kernel]);
          }
          if (bias) sum += static_cast<double>(bias[m]);
          y[s.outputPlane(n, m) + at.output] = static_cast<T>(sum);
        }
      }
    });
  });
}

// Sums modulo 2^32. Positions outside the image have the value of the zero point, so they add nothing.
void integerConv(const Context &c) {
  const ConvSizes s(c, c.in[0].shape(), c.out[0].shape());
  const int64_t xZero = c.hasIn(2) ? loadInt(c.in[2], 0) : 0;
  forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t m = 0; m < s.outChannels; ++m) {
        const int64_t wZero = c.hasIn(3) ? loadInt(c.in[3], c.in[3].size() == 1 ? 0 : m) : 0;
        int64_t sum = 0;
        for (int64_t local = 0; local < s.groupChannels(); ++local)
          for (const Tap &t : at.taps)
            sum = add(sum, (loadInt(c.in[0], s.inputPlane(n, m, local) + t.input) - xZero) *
                               (loadInt(c.in[1], s.weightPlane(m, local) + t.kernel) - wZero));
        storeIntegerSum(c, sum, m, s.outputPlane(n, m) + at.output);
      }
  });
}

void convDataGrad(const Context &c) {
  const ConvSizes s(c, c.out[0].shape(), c.in[0].shape());
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    const T *g = c.in[0].as<T>(), *w = c.in[1].as<T>();
    std::vector<double> dx(static_cast<size_t>(c.out[0].size()), 0.0);
    forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t m = 0; m < s.outChannels; ++m) {
          const double gradient = static_cast<double>(g[s.outputPlane(n, m) + at.output]);
          for (int64_t local = 0; local < s.groupChannels(); ++local) {
            double *plane = dx.data() + s.inputPlane(n, m, local);
            const T *weights = w + s.weightPlane(m, local);
            for (const Tap &t : at.taps) plane[t.input] += gradient * static_cast<double>(weights[t.kernel]);
          }
        }
      }
    });
    T *out = c.out[0].as<T>();
    for (size_t i = 0; i < dx.size(); ++i) out[i] = static_cast<T>(dx[i]);
  });
}

void convWeightsGrad(const Context &c) {
  const ConvSizes s(c, c.in[1].shape(), c.in[0].shape());
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    const T *g = c.in[0].as<T>(), *x = c.in[1].as<T>();
    std::vector<double> dw(static_cast<size_t>(c.out[0].size()), 0.0);
    forWindows(s.window, s.input, s.output, [&](const WindowAt &at) {
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t m = 0; m < s.outChannels; ++m) {
          const double gradient = static_cast<double>(g[s.outputPlane(n, m) + at.output]);
          for (int64_t local = 0; local < s.groupChannels(); ++local) {
            const T *plane = x + s.inputPlane(n, m, local);
            double *weights = dw.data() + s.weightPlane(m, local);
            for (const Tap &t : at.taps) weights[t.kernel] += gradient * static_cast<double>(plane[t.input]);
          }
        }
      }
    });
    T *out = c.out[0].as<T>();
    for (size_t i = 0; i < dw.size(); ++i) out[i] = static_cast<T>(dw[i]);
  });
}

constexpr Entry kConvKernels[] = {
    {"Conv", conv},
    {"IntegerConv", integerConv},
    {"ConvDataGrad", convDataGrad},
    {"ConvWeightsGrad", convWeightsGrad},
};

}  // namespace

std::span<const Entry> convKernels() { return kConvKernels; }

}  // namespace popart::ref
