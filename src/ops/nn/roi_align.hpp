// Where RoiAlign reads: each box of the result is divided into bins, each bin has samples, and each sample is
// interpolated between four elements of the image. A bin is the mean of its samples or, with mode max, the largest of
// their elements times weight, as in ONNX's reference and ONNX Runtime.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include <popart/attributes.hpp>

namespace popart::ops {

struct RoiAlignSizes {
  int64_t height, width;                   // of the image
  int64_t rows, columns;                   // bins of a box
  int64_t ratio;                           // samples per bin and axis; 0: as many as elements fit
  double scale, offset;                    // box coordinates → positions in the image
  static constexpr double kLeastSize = 1;  // of a box, without the offset of half an element

  RoiAlignSizes(const Attributes &attributes, int64_t imageHeight, int64_t imageWidth)
      : height(imageHeight),
        width(imageWidth),
        rows(attributes.getAttribute<int64_t>("output_height")),
        columns(attributes.getAttribute<int64_t>("output_width")),
        ratio(attributes.getAttribute<int64_t>("sampling_ratio")),
        scale(static_cast<double>(attributes.getAttribute<float>("spatial_scale"))),
        offset(attributes.getAttribute<std::string>("coordinate_transformation_mode") == "half_pixel" ? 0.5 : 0) {}
};

// Samples along one axis of a box, `perBin` for each bin.
struct RoiAxis {
  double first, step;
  int64_t perBin;

  static constexpr double kMost = 9e18;  // largest number of samples that are counted

  RoiAxis(double low, double high, int64_t bins, const RoiAlignSizes &s) {
    const double from = low * s.scale - s.offset, size = high * s.scale - s.offset - from;
    const double length = s.offset > 0 ? size : std::max(size, RoiAlignSizes::kLeastSize);
    const double bin = length / static_cast<double>(bins);
    perBin = s.ratio > 0 ? s.ratio : bin > 0 ? static_cast<int64_t>(std::min(std::ceil(bin), kMost)) : 0;
    step = perBin > 0 ? bin / static_cast<double>(perBin) : 0;
    first = from + step / 2;
  }
};

// The two elements around a position and their weights; none if it is more than one element outside the image.
struct RoiTaps {
  int64_t at[2] = {0, 0};
  double weight[2] = {0, 0};

  RoiTaps(double position, int64_t size) {
    if (!(position >= -1 && position <= static_cast<double>(size)) || size == 0) return;
    const double inside = std::clamp(position, 0.0, static_cast<double>(size - 1));
    at[0] = static_cast<int64_t>(inside);
    at[1] = std::min(at[0] + 1, size - 1);
    weight[1] = inside - static_cast<double>(at[0]);
    weight[0] = 1 - weight[1];
  }
};

// Samples [begin, end), numbered over all bins; they include all samples that are within one element of an axis of
// `size` elements. If a box is far larger than the image, most of its samples are skipped.
struct RoiSamples {
  int64_t begin, end;

  RoiSamples(const RoiAxis &axis, int64_t bins, int64_t size) {
    const double all = std::min(static_cast<double>(bins) * static_cast<double>(axis.perBin), RoiAxis::kMost);
    const auto inside = [&](double s) { return s > 0 ? static_cast<int64_t>(std::min(s, all)) : int64_t{0}; };
    begin = 0, end = inside(all);
    if (!(axis.step != 0)) return;
    const double a = (-2 - axis.first) / axis.step, b = (static_cast<double>(size) + 1 - axis.first) / axis.step;
    begin = inside(std::floor(std::min(a, b)));
    end = inside(std::ceil(std::max(a, b)) + 1);
  }
};

// Calls f(bin, taps) for the samples along an axis, in order. Neighbouring samples of one bin that are outside the
// image, and have the value 0, are combined.
template <class F>
void forRoiSamples(const RoiAxis &axis, int64_t bins, int64_t size, F &&f) {
  if (axis.perBin <= 0) return;
  const RoiSamples samples(axis, bins, size);
  const auto beginOf = [&](int64_t bin) {
    return static_cast<int64_t>(std::min(static_cast<double>(bin) * static_cast<double>(axis.perBin), RoiAxis::kMost));
  };
  for (int64_t b = 0; b < bins; ++b) {
    bool followsOutside = false;
    const auto add = [&](const RoiTaps &taps) {
      const bool isOutside = taps.weight[0] == 0 && taps.weight[1] == 0;
      if (!isOutside || !followsOutside) f(b, taps);
      followsOutside = isOutside;
    };
    const RoiTaps outside(-2, size);
    const int64_t first = std::max(samples.begin, beginOf(b)), last = std::min(samples.end, beginOf(b + 1));
    if (first >= last || first > beginOf(b)) add(outside);
    for (int64_t s = first; s < last; ++s) add({axis.first + static_cast<double>(s) * axis.step, size});
    if (first < last && last < beginOf(b + 1)) add(outside);
  }
}

// Calls f(bin, position in the image, weight in the sample, samples of the bin) for every element that the box
// (x1, y1, x2, y2) reads; weights may be 0.
template <class F>
void forRoiElements(const RoiAlignSizes &s, const std::array<double, 4> &box, F &&f) {
  const RoiAxis x(box[0], box[2], s.columns, s), y(box[1], box[3], s.rows, s);
  const double samples = std::max(static_cast<double>(x.perBin) * static_cast<double>(y.perBin), 1.0);
  forRoiSamples(y, s.rows, s.height, [&](int64_t i, const RoiTaps &row) {
    forRoiSamples(x, s.columns, s.width, [&](int64_t k, const RoiTaps &column) {
      for (int a : {0, 1})
        for (int b : {0, 1})
          f(i * s.columns + k, row.at[a] * s.width + column.at[b], row.weight[a] * column.weight[b], samples);
    });
  });
}

}  // namespace popart::ops
