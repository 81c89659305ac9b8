// MaxRoiPool and its gradient. The largest element of a bin is found axis by axis; the gradient then searches its first
// position.
#include "ops/nn/roi_pool.hpp"

#include <popart/op.hpp>

#include "backends/cpu/boxes.hpp"
#include "backends/cpu/vector/bins.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

struct PoolMaxima {
  static constexpr const char *kName = "maxima of boxes";
  BoxForm form;
  float scale;

  int64_t scratchBytes() const {
    Arrays arrays;
    (void)Scratch(arrays, form);
    return arrays.bytes();
  }
  int64_t image(const KernelArgs &args, int64_t box, bool reports) const noexcept {
    const double number = form.number(args, 5 * box);
    if (number >= 0 && number < static_cast<double>(form.images)) return static_cast<int64_t>(number);
    const int64_t shown = std::abs(number) < 1e15 ? static_cast<int64_t>(std::floor(number)) : -1;
    if (reports) args.context.report({executable::FailureKind::Index, form.at, 5 * box, shown, 0, form.images - 1});
    return -1;
  }
  void enter(const KernelArgs &args, int64_t box) const noexcept {
    const Scratch scratch = scratchOf(args);
    const auto bins = [&](int64_t first, int64_t count, int64_t length) {
      return ops::RoiBins(form.number(args, 5 * box + first), form.number(args, 5 * box + first + 2), scale, count,
                          length);
    };
    *scratch.box = {scratch.rows.find(bins(2, form.rows, form.height)),
                    scratch.columns.find(bins(1, form.columns, form.width)), form.width};
  }
  void show(const KernelArgs &args, int64_t plane, float *y) const noexcept {
    const Scratch scratch = scratchOf(args);
    maximaOfBins(form.type, planeOf(args, plane), *scratch.box, scratch.work, y);
  }
  void spread(const KernelArgs &args, int64_t plane, const float *g, float *dx) const noexcept {
    const Scratch scratch = scratchOf(args);
    show(args, plane, scratch.maxima);
    for (int64_t i = 0; i < form.rows; ++i)
      for (int64_t j = 0; j < form.columns; ++j) {
        const int64_t bin = i * form.columns + j;
        const int64_t at = placeOf(planeOf(args, plane), *scratch.box, i, j, scratch.maxima[bin]);
        if (at >= 0) dx[at] += g[bin];
      }
  }

 private:
  // BinRanges of one axis of any box.
  struct RangeAxis {
    int64_t bins;
    int32_t *begin, *end;

    RangeAxis(Arrays &arrays, int64_t axisBins)
        : bins(axisBins), begin(arrays.next<int32_t>(axisBins)), end(arrays.next<int32_t>(axisBins)) {}
    BinRanges find(const ops::RoiBins &axis) const noexcept {
      BinRanges result{bins, begin, end, axis.limit, 0};
      for (int64_t b = 0; b < bins; ++b) {
        const int64_t first = axis.begin(b), last = axis.end(b);
        begin[b] = static_cast<int32_t>(first), end[b] = static_cast<int32_t>(last);
        if (first >= last) continue;
        result.low = std::min(result.low, first);
        result.high = std::max(result.high, last);
      }
      if (result.low >= result.high) result.low = result.high = 0;
      return result;
    }
  };
  struct Scratch {
    BinsOfBox<BinRanges> *box;
    RangeAxis rows, columns;
    float *work, *maxima;
    Scratch(Arrays &arrays, const BoxForm &f)
        : box(arrays.next<BinsOfBox<BinRanges>>(1)),
          rows(arrays, f.rows),
          columns(arrays, f.columns),
          work(arrays.next<float>(workOfBins(f.width))),
          maxima(arrays.next<float>(f.bins())) {}
  };
  Scratch scratchOf(const KernelArgs &args) const noexcept {
    Arrays arrays(args.scratch);
    return {arrays, form};
  }
  const void *planeOf(const KernelArgs &args, int64_t plane) const noexcept {
    return elementAt(args.in[form.maps], plane * form.plane(), form.type);
  }

  // Position of the first element of a bin with the value `value`, its maximum; -1 for an empty bin.
  int64_t placeOf(const void *x, const BinsOfBox<BinRanges> &box, int64_t i, int64_t j, float value) const noexcept {
    for (int64_t row = box.rows.begin[i]; row < box.rows.end[i]; ++row)
      for (int64_t column = box.columns.begin[j]; column < box.columns.end[j]; ++column) {
        const int64_t at = row * form.width + column;
        const float element = numberAt(x, at, form.type);
        if (element == value || (element != element && value != value)) return at;
      }
    return -1;
  }
};

template <template <class> class Kernel>
std::unique_ptr<executable::Kernel> createRoiPoolOf(const KernelRequest &request, int maps, std::string &reason) {
  const TensorInfo &images = request.inputs[static_cast<size_t>(maps)].info,
                   &boxes = request.inputs[static_cast<size_t>(maps) + 1].info;
  const Shape &x = images.shape(), &bins = request.op->attrInts("pooled_shape");
  const BoxForm form{x[0], x[1],    x[2], x[3], boxes.shape()[0], bins[0], bins[1], images.dataType(), boxes.dataType(),
                     maps, maps + 1};
  if (!takesBoxes(request, form, reason)) return nullptr;
  return std::make_unique<Kernel<PoolMaxima>>(PoolMaxima{form, request.op->attrFloat("spatial_scale")},
                                              request.threads);
}

std::unique_ptr<executable::Kernel> createRoiPool(const KernelRequest &request, std::string &reason) {
  return createRoiPoolOf<BoxKernel>(request, 0, reason);
}
std::unique_ptr<executable::Kernel> createRoiPoolGradient(const KernelRequest &request, std::string &reason) {
  return createRoiPoolOf<BoxGradientKernel>(request, 1, reason);
}

constexpr Entry kRoiPoolKernels[] = {{"MaxRoiPool", createRoiPool}, {"MaxRoiPoolGrad", createRoiPoolGradient}};

}  // namespace

std::span<const Entry> roiPoolKernels() { return kRoiPoolKernels; }

}  // namespace popart::cpu
