// Reference kernels of RoiAlign and its gradient. An image index out of range ends the run.
#include "ops/nn/roi_align.hpp"

#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

// Calls f(box, image, bin, position, weight, samples of the bin) for every element that a box reads.
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
    ops::forRoiElements(sizes, box, [&](int64_t bin, int64_t at, double weight, double samples) {
      f(n, image, bin, at, weight, samples);
    });
  }
}

// The largest product of an image element and its weight, for mode max. `at` < 0: none yet.
struct Largest {
  double value = 0, weight = 0;
  int64_t at = -1;
};

// The largest product for each element of y.
std::vector<Largest> largestOf(const Context &c, const View &images, const Shape &y) {
  const Shape &x = images.shape();
  const int64_t channels = x[1], plane = x[2] * x[3], bins = y[2] * y[3];
  std::vector<Largest> all(static_cast<size_t>(elementCount(y)));
  forBoxes(c, x, [&](int64_t n, int64_t image, int64_t bin, int64_t at, double weight, double) {
    for (int64_t k = 0; k < channels; ++k) {
      Largest &largest = all[static_cast<size_t>((n * channels + k) * bins + bin)];
      const int64_t place = (image * channels + k) * plane + at;
      const double value = weight == 0 ? 0 : weight * load(images, place);
      if (largest.at < 0 || value > largest.value) largest = {value, weight, place};
    }
  });
  return all;
}

void roiAlign(const Context &c) {
  const Shape &x = c.in[0].shape(), &y = c.out[0].shape();
  if (c.op.attrString("mode") == "max") {
    const std::vector<Largest> all = largestOf(c, c.in[0], y);
    for (size_t i = 0; i < all.size(); ++i) store(c.out[0], static_cast<int64_t>(i), all[i].value);
    return;
  }
  const int64_t channels = x[1], plane = x[2] * x[3], bins = y[2] * y[3];
  dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(static_cast<size_t>(c.out[0].size()), 0.0);
    forBoxes(c, x, [&](int64_t n, int64_t image, int64_t bin, int64_t at, double weight, double samples) {
      if (weight == 0) return;
      for (int64_t k = 0; k < channels; ++k)
        sums[static_cast<size_t>((n * channels + k) * bins + bin)] +=
            weight / samples * static_cast<double>(c.in[0].as<T>()[(image * channels + k) * plane + at]);
    });
    for (size_t i = 0; i < sums.size(); ++i) c.out[0].as<T>()[i] = static_cast<T>(sums[i]);
  });
}

void roiAlignGrad(const Context &c) {
  const Shape &x = c.out[0].shape(), &y = c.in[0].shape();
  const int64_t channels = x[1], plane = x[2] * x[3], bins = y[2] * y[3];
  std::vector<double> sums(static_cast<size_t>(c.out[0].size()), 0.0);
  if (c.op.attrString("mode") == "max") {
    const std::vector<Largest> all = largestOf(c, c.in[3], y);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].weight != 0)
        sums[static_cast<size_t>(all[i].at)] += all[i].weight * load(c.in[0], static_cast<int64_t>(i));
  } else {
    dispatchFloat(c.in[0].info.dataType(), [&](auto zero) {
      using T = decltype(zero);
      forBoxes(c, x, [&](int64_t n, int64_t image, int64_t bin, int64_t at, double weight, double samples) {
        if (weight == 0) return;  // images without elements have no position 0
        for (int64_t k = 0; k < channels; ++k)
          sums[static_cast<size_t>((image * channels + k) * plane + at)] +=
              weight / samples * static_cast<double>(c.in[0].as<T>()[(n * channels + k) * bins + bin]);
      });
    });
  }
  for (size_t i = 0; i < sums.size(); ++i) store(c.out[0], static_cast<int64_t>(i), sums[i]);
}

constexpr Entry kRoiAlignKernels[] = {{"RoiAlign", roiAlign}, {"RoiAlignGrad", roiAlignGrad}};

}  // namespace

std::span<const Entry> roiAlignKernels() { return kRoiAlignKernels; }

}  // namespace popart::ref
