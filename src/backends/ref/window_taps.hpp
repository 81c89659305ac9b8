// The elements under a sliding window, for reference kernels of convolution and pooling with any number of spatial
// dimensions.
#pragma once
#include <span>
#include <vector>

#include "ops/nn/window.hpp"

namespace popart::ref {

struct Tap {
  int64_t kernel;  // flat position in the kernel
  int64_t input;   // flat spatial position in the input
};

struct WindowAt {
  int64_t output;             // flat spatial position in the output
  std::span<const Tap> taps;  // taps inside the input, in kernel order
  int64_t paddedCount;        // taps inside the padded input
};

// Calls f(WindowAt) for every output position in order.
template <class F>
void forWindows(const ops::Window &w, const Shape &input, const Shape &output, F &&f) {
  const size_t rank = w.rank();
  const int64_t positions = elementCount(output), kernelSize = elementCount(w.kernel);
  std::vector<Tap> taps;
  taps.reserve(static_cast<size_t>(kernelSize));
  for (int64_t o = 0; o < positions; ++o) {
    taps.clear();
    int64_t padded = 0;
    for (int64_t k = 0; k < kernelSize; ++k) {
      int64_t outRest = o, kernelRest = k, offset = 0, stride = 1;
      bool insidePadded = true, inside = true;
      for (size_t i = rank; i-- > 0;) {
        const int64_t at =
            outRest % output[i] * w.strides[i] + kernelRest % w.kernel[i] * w.dilations[i] - w.padsLow[i];
        outRest /= output[i], kernelRest /= w.kernel[i];
        insidePadded = insidePadded && at < input[i] + w.padsHigh[i];
        inside = inside && at >= 0 && at < input[i];
        offset += at * stride;
        stride *= input[i];
      }
      padded += insidePadded;
      if (inside) taps.push_back({k, offset});
    }
    f(WindowAt{o, taps, padded});
  }
}

}  // namespace popart::ref
