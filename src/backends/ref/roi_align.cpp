// Reference kernels of RoiAlign and its gradient. An image number that is out of range ends the run.
#include "ops/nn/roi_align.hpp"

#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

// Calls f(box, image, bin, position, weight) for every element that a box reads.
template <class F>
void forBoxes(const Context &c, const Shape &images, F &&f) {
  const ops::RoiAlignSizes sizes(c.op.attributes, images[2], images[3]);
  for (int64_t n = 0; n < c.in[2].size(); ++n) {
    const int64_t image = loadInt(c.in[2], n);
    if (image < 0 || image >= images[0]) {
      c.report(executable::FailureKind::Index, 2, n, image, 0, images[0] - 1);
      continue;
    }
    std::array<double, 4> box{};
    for (int64_t i = 0; i < 4; ++i) box[static_cast<size_t>(i)] = load(c.in[1], 4 * n + i);
    ops::forRoiElements(sizes, box, [&](int64_t bin, int64_t at, double weight) { f(n, image, bin, at, weight); });
  }
}

void roiAlign(const Context &c) {
  const Shape &x = c.in[0].shape(), &y = c.out[0].shape();
  const int64_t channels = x[1], plane = x[2] * x[3], bins = y[2] * y[3];
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(static_cast<size_t>(c.out[0].size()), 0.0);
    forBoxes(c, x, [&](int64_t n, int64_t image, int64_t bin, int64_t at, double weight) {
      for (int64_t k = 0; k < channels; ++k)
        sums[static_cast<size_t>((n * channels + k) * bins + bin)] +=
            weight * static_cast<double>(c.in[0].as<T>()[(image * channels + k) * plane + at]);
    });
    for (size_t i = 0; i < sums.size(); ++i) c.out[0].as<T>()[i] = static_cast<T>(sums[i]);
  });
}

void roiAlignGrad(const Context &c) {
  const Shape &x = c.out[0].shape(), &y = c.in[0].shape();
  const int64_t channels = x[1], plane = x[2] * x[3], bins = y[2] * y[3];
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(static_cast<size_t>(c.out[0].size()), 0.0);
    forBoxes(c, x, [&](int64_t n, int64_t image, int64_t bin, int64_t at, double weight) {
      for (int64_t k = 0; k < channels; ++k)
        sums[static_cast<size_t>((image * channels + k) * plane + at)] +=
            weight * static_cast<double>(c.in[0].as<T>()[(n * channels + k) * bins + bin]);
    });
    for (size_t i = 0; i < sums.size(); ++i) c.out[0].as<T>()[i] = static_cast<T>(sums[i]);
  });
}

constexpr Entry kRoiAlignKernels[] = {{"RoiAlign", roiAlign}, {"RoiAlignGrad", roiAlignGrad}};

}  // namespace

std::span<const Entry> roiAlignKernels() { return kRoiAlignKernels; }

}  // namespace popart::ref
