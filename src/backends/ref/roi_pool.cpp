// Reference kernels of MaxRoiPool and its gradient. An image index out of range ends the run.
#include "ops/nn/roi_pool.hpp"

#include <cmath>
#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

// Index in x of the largest element of a bin of `plane`, -1 for an empty bin. The first NaN wins, as in MaxPool.
template <class T>
int64_t firstLargest(const T *x, int64_t plane, const ops::RoiBins &rows, int64_t i, const ops::RoiBins &columns,
                     int64_t j) {
  int64_t best = -1;
  for (int64_t row = rows.begin(i); row < rows.end(i); ++row)
    for (int64_t column = columns.begin(j); column < columns.end(j); ++column) {
      const int64_t at = plane * rows.limit * columns.limit + row * columns.limit + column;
      const auto value = static_cast<double>(x[at]), top = best < 0 ? 0.0 : static_cast<double>(x[best]);
      if (best < 0 || (!std::isnan(top) && (value > top || std::isnan(value)))) best = at;
    }
  return best;
}

// Calls f(element of y, index of its largest element in x or -1) for all boxes, channels and bins. x is input `images`,
// and the boxes are the input after it.
template <class F>
void forLargest(const Context &c, int images, F &&f) {
  const View &x = c.in[images], &boxes = c.in[images + 1];
  const Shape &shape = x.shape(), &bins = c.op.attrInts("pooled_shape");
  const int64_t ofBox = shape[1] * bins[0] * bins[1];
  const float scale = c.op.attrFloat("spatial_scale");
  dispatchFloat(x.info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t n = 0; n < boxes.shape()[0]; ++n) {
      const double number = load(boxes, 5 * n);
      if (!(number >= 0 && number < static_cast<double>(shape[0]))) {
        const int64_t shown = std::abs(number) < 1e15 ? static_cast<int64_t>(std::floor(number)) : -1;
        c.report(executable::FailureKind::Index, images + 1, 5 * n, shown, 0, shape[0] - 1);
        continue;
      }
      const ops::RoiBins columns(load(boxes, 5 * n + 1), load(boxes, 5 * n + 3), scale, bins[1], shape[3]);
      const ops::RoiBins rows(load(boxes, 5 * n + 2), load(boxes, 5 * n + 4), scale, bins[0], shape[2]);
      for (int64_t e = 0; e < ofBox; ++e) {
        const int64_t plane = static_cast<int64_t>(number) * shape[1] + e / (bins[0] * bins[1]);
        f(n * ofBox + e, firstLargest(x.as<const T>(), plane, rows, e / bins[1] % bins[0], columns, e % bins[1]));
      }
    }
  });
}

void maxRoiPool(const Context &c) {
  forLargest(c, 0, [&](int64_t e, int64_t at) { store(c.out[0], e, at < 0 ? 0.0 : load(c.in[0], at)); });
}

void maxRoiPoolGrad(const Context &c) {
  std::vector<double> sums(static_cast<size_t>(c.out[0].size()), 0.0);
  forLargest(c, 1, [&](int64_t e, int64_t at) {
    if (at >= 0) sums[static_cast<size_t>(at)] += load(c.in[0], e);
  });
  for (size_t i = 0; i < sums.size(); ++i) store(c.out[0], static_cast<int64_t>(i), sums[i]);
}

constexpr Entry kRoiPoolKernels[] = {{"MaxRoiPool", maxRoiPool}, {"MaxRoiPoolGrad", maxRoiPoolGrad}};

}  // namespace

std::span<const Entry> roiPoolKernels() { return kRoiPoolKernels; }

}  // namespace popart::ref
