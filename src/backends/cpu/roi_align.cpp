// RoiAlign and its gradient. A mean is separable: each axis of a box is a sparse matrix of bins by elements, computed
// once for all channels. Maxima are searched sample by sample, as in the reference, from the samples of each axis.
#include "ops/nn/roi_align.hpp"

#include <cassert>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/boxes.hpp"
#include "backends/cpu/vector/bins.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::RoiAxis;
using ops::RoiTaps;

// Shared by means and maxima.
struct AlignForm {
  BoxForm form;
  ops::RoiAlignSizes sizes;
  IndexOperand images;

  int64_t image(const KernelArgs &args, int64_t box, bool reports) const noexcept {
    IndexOperand operand = images;
    operand.reports = reports;
    return operand.place(args, box, form.images);
  }
  RoiAxis rows(const KernelArgs &args, int64_t box) const noexcept { return axis(args, box, 1, sizes.rows); }
  RoiAxis columns(const KernelArgs &args, int64_t box) const noexcept { return axis(args, box, 0, sizes.columns); }

 private:
  RoiAxis axis(const KernelArgs &args, int64_t box, int64_t first, int64_t bins) const noexcept {
    return {form.number(args, 4 * box + first), form.number(args, 4 * box + first + 2), bins, sizes};
  }
};

// ---- means

// BinTaps of one axis of any box.
struct MeanAxis {
  int64_t bins, size, room;
  int32_t *begin, *index;
  double *sums;
  float *weight;

  // Neighbouring bins share at most one element, so there are at most `room` elements in all.
  MeanAxis(Arrays &arrays, int64_t axisBins, int64_t axisSize)
      : bins(axisBins),
        size(axisSize),
        room(axisSize + 2 * axisBins),
        begin(arrays.next<int32_t>(axisBins + 1)),
        index(arrays.next<int32_t>(room)),
        sums(arrays.next<double>(room)),
        weight(arrays.next<float>(room)) {}

  BinTaps find(const RoiAxis &axis) const noexcept {
    const ops::RoiSamples samples(axis, bins, size);
    int32_t count = 0;
    int64_t bin = 0;
    begin[0] = 0;
    for (int64_t s = samples.begin; s < samples.end; ++s) {
      for (const int64_t of = s / axis.perBin; bin < of;) begin[++bin] = count;
      const RoiTaps taps(axis.first + static_cast<double>(s) * axis.step, size);
      for (const int k : {0, 1})
        if (taps.weight[k] != 0) add(begin[bin], count, taps.at[k], taps.weight[k]);
    }
    while (bin < bins) begin[++bin] = count;
    BinTaps result{bins, begin, index, weight, count == 0 ? 0 : size, 0};
    for (int32_t t = 0; t < count; ++t) {
      weight[t] = static_cast<float>(sums[t] / static_cast<double>(axis.perBin));
      result.low = std::min<int64_t>(result.low, index[t]);
      result.high = std::max<int64_t>(result.high, index[t] + 1);
    }
    return result;
  }

 private:
  // Samples are in order, so an element that is already present is one of the last three.
  void add(int32_t first, int32_t &count, int64_t at, double value) const noexcept {
    for (int32_t t = std::max(first, count - 3); t < count; ++t)
      if (index[t] == at) return void(sums[t] += value);
    assert(count < room);
    index[count] = static_cast<int32_t>(at);
    sums[count++] = value;
  }
};

struct AlignMeans : AlignForm {
  static constexpr const char *kName = "means of boxes";
  explicit AlignMeans(const AlignForm &f) : AlignForm(f) {}

  int64_t scratchBytes() const {
    Arrays arrays;
    (void)Scratch(arrays, form);
    return arrays.bytes();
  }
  void enter(const KernelArgs &args, int64_t box) const noexcept {
    const Scratch scratch = scratchOf(args);
    *scratch.box = {scratch.rows.find(rows(args, box)), scratch.columns.find(columns(args, box)), form.width};
  }
  void show(const KernelArgs &args, int64_t plane, float *y) const noexcept {
    const Scratch scratch = scratchOf(args);
    sumBins(form.type, elementAt(args.in[0], plane * form.plane(), form.type), *scratch.box, scratch.work, y);
  }
  void spread(const KernelArgs &args, int64_t, const float *g, float *dx) const noexcept {
    const Scratch scratch = scratchOf(args);
    spreadBins(g, *scratch.box, scratch.work, dx);
  }

 private:
  struct Scratch {
    BinsOfBox<BinTaps> *box;
    MeanAxis rows, columns;
    float *work;
    Scratch(Arrays &arrays, const BoxForm &f)
        : box(arrays.next<BinsOfBox<BinTaps>>(1)),
          rows(arrays, f.rows, f.height),
          columns(arrays, f.columns, f.width),
          work(arrays.next<float>(workOfBins(f.width))) {}
  };
  Scratch scratchOf(const KernelArgs &args) const noexcept {
    Arrays arrays(args.scratch);
    return {arrays, form};
  }
};

// ---- maxima

// The samples of one axis of any box, bin by bin: bin b has [begin[b], begin[b + 1]). Samples outside the image, whose
// value is 0, are merged into one per side.
struct SampledAxis {
  int64_t bins, size;
  int32_t *begin;
  RoiTaps *taps;

  SampledAxis(Arrays &arrays, int64_t axisBins, int64_t axisSize, int64_t ratio)
      : bins(axisBins),
        size(axisSize),
        begin(arrays.next<int32_t>(axisBins + 1)),
        taps(arrays.next<RoiTaps>(room(axisBins, axisSize, ratio))) {}

  // The largest number of samples inside the image: if bins have several, they are more than half an element apart.
  // Each bin may have one more sample outside at both ends.
  static int64_t room(int64_t bins, int64_t size, int64_t ratio) {
    return (ratio > 0 ? bins * ratio : std::max(bins, 2 * size + 16)) + 2 * bins;
  }

  void find(const RoiAxis &axis) const noexcept {
    int32_t count = 0;
    int64_t bin = 0;
    begin[0] = 0;
    ops::forRoiSamples(axis, bins, size, [&](int64_t of, const RoiTaps &sample) {
      while (bin < of) begin[++bin] = count;
      taps[count++] = sample;
    });
    while (bin < bins) begin[++bin] = count;
  }
};

struct AlignMaxima : AlignForm {
  static constexpr const char *kName = "maxima of samples of boxes";
  explicit AlignMaxima(const AlignForm &f) : AlignForm(f) {}
  static int64_t samples(const ops::RoiAlignSizes &s) {
    return SampledAxis::room(s.rows, s.height, s.ratio) + SampledAxis::room(s.columns, s.width, s.ratio);
  }

  int64_t scratchBytes() const {
    Arrays arrays;
    (void)Scratch(arrays, sizes);
    return arrays.bytes();
  }
  void enter(const KernelArgs &args, int64_t box) const noexcept {
    const Scratch scratch = scratchOf(args);
    scratch.rows.find(rows(args, box));
    scratch.columns.find(columns(args, box));
  }
  void show(const KernelArgs &args, int64_t plane, float *y) const noexcept {
    forBins(args, plane, [&](int64_t bin, const Largest &largest) { y[bin] = static_cast<float>(largest.value); });
  }
  void spread(const KernelArgs &args, int64_t plane, const float *g, float *dx) const noexcept {
    forBins(args, plane, [&](int64_t bin, const Largest &largest) {
      if (largest.weight != 0) dx[largest.at] += static_cast<float>(largest.weight * static_cast<double>(g[bin]));
    });
  }

 private:
  struct Scratch {
    SampledAxis rows, columns;
    Scratch(Arrays &arrays, const ops::RoiAlignSizes &s)
        : rows(arrays, s.rows, s.height, s.ratio), columns(arrays, s.columns, s.width, s.ratio) {}
  };
  Scratch scratchOf(const KernelArgs &args) const noexcept {
    Arrays arrays(args.scratch);
    return {arrays, sizes};
  }

  // An element of a plane multiplied by its weight. `at` < 0: none yet.
  struct Largest {
    double value = 0, weight = 0;
    int64_t at = -1;
  };

  template <class F>
  void forBins(const KernelArgs &args, int64_t plane, F &&f) const noexcept {
    const Scratch scratch = scratchOf(args);
    const void *x = elementAt(args.in[form.maps], plane * form.plane(), form.type);
    for (int64_t i = 0; i < form.rows; ++i)
      for (int64_t j = 0; j < form.columns; ++j) f(i * form.columns + j, largestOf(x, scratch, i, j));
  }
  // The first largest one, sample by sample in C order. NaN is only chosen if it is the first of all.
  Largest largestOf(const void *x, const Scratch &scratch, int64_t i, int64_t j) const noexcept {
    Largest largest;
    const auto &[rows, columns] = scratch;
    for (int32_t r = rows.begin[i]; r < rows.begin[i + 1]; ++r)
      for (int32_t c = columns.begin[j]; c < columns.begin[j + 1]; ++c)
        for (const int a : {0, 1})
          for (const int b : {0, 1}) {
            const RoiTaps &row = rows.taps[r], &column = columns.taps[c];
            const double weight = row.weight[a] * column.weight[b];
            const int64_t at = row.at[a] * form.width + column.at[b];
            const double value = weight == 0 ? 0 : weight * static_cast<double>(numberAt(x, at, form.type));
            if (largest.at < 0 || value > largest.value) largest = {value, weight, at};
          }
    return largest;
  }
};

// ---- kernels

// `maps`: number of the input with the images, if there is one. Their shape is that of `images`.
AlignForm alignForm(const KernelRequest &request, const TensorInfo &images, int maps) {
  const Shape &x = images.shape();
  const ops::RoiAlignSizes sizes(request.op->attributes(), x[2], x[3]);
  const TensorInfo &boxes = request.inputs[1].info;
  IndexOperand index = IndexOperand::of(request, 2);
  index.negative = NegativeIndex::kOutOfRange;
  return {{x[0], x[1], x[2], x[3], boxes.shape()[0], sizes.rows, sizes.columns, images.dataType(), boxes.dataType(),
           maps, 1},
          sizes,
          index};
}

template <template <class> class Kernel>
std::unique_ptr<executable::Kernel> createAlign(const KernelRequest &request, const TensorInfo &images, int maps,
                                                std::string &reason) {
  const AlignForm form = alignForm(request, images, maps);
  if (!takesBoxes(request, form.form, reason)) return nullptr;
  if (request.op->attrString("mode") != "max")
    return std::make_unique<Kernel<AlignMeans>>(AlignMeans(form), request.threads);
  constexpr int64_t kMost = 1 << 20;
  if (AlignMaxima::samples(form.sizes) > kMost)
    return reason = "it takes no millions of samples along an axis", nullptr;
  return std::make_unique<Kernel<AlignMaxima>>(AlignMaxima(form), request.threads);
}

std::unique_ptr<executable::Kernel> createRoiAlign(const KernelRequest &request, std::string &reason) {
  return createAlign<BoxKernel>(request, request.inputs[0].info, 0, reason);
}
std::unique_ptr<executable::Kernel> createRoiAlignGradient(const KernelRequest &request, std::string &reason) {
  return createAlign<BoxGradientKernel>(request, request.outputs[0].info, 3, reason);
}

constexpr Entry kRoiAlignKernels[] = {{"RoiAlign", createRoiAlign}, {"RoiAlignGrad", createRoiAlignGradient}};

}  // namespace

std::span<const Entry> roiAlignKernels() { return kRoiAlignKernels; }

}  // namespace popart::cpu
