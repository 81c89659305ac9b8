// Coordinates and weights of Resize, as in the text of the ONNX operator.
#include "ops/shape/resize_taps.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <popart/error.hpp>

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

std::vector<int> namedAxes(const Attributes &attributes, int rank) {
  std::vector<int> axes;
  const Ints given = attributes.getAttribute<Ints>("axes", {});
  for (int64_t axis : given) {
    axes.push_back(static_cast<int>(normalizeAxis(axis, rank, "axes")));
    check(std::ranges::count(axes, axes.back()) == 1, "axes: an axis is repeated: got {}, expected each axis once",
          given);
  }
  for (int i = 0; given.empty() && i < rank; ++i) axes.push_back(i);
  return axes;
}

// The coordinate in the input of element `o` of the output.
double coordinate(const ResizeAxis &a, const std::string &mode, int64_t o) {
  const double width = a.scale * static_cast<double>(a.in), last = static_cast<double>(a.in - 1);
  const double x = static_cast<double>(o), centred = (x + 0.5) / a.scale - 0.5;
  if (mode == "align_corners") return width == 1 ? 0 : x * last / (width - 1);
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (mode == "pytorch_half_pixel") return width <= 1 ? -0.5 : centred;
  if (mode == "half_pixel_symmetric")
    return static_cast<double>(a.in) / 2 * (1 - static_cast<double>(a.out) / width) + (x + 0.5) / a.scale - 0.5;
  if (mode == "tf_crop_and_resize")
    return a.roiStart * last +
           (width == 1 ? (a.roiEnd - a.roiStart) * last / 2 : x * (a.roiEnd - a.roiStart) * last / (width - 1));
  return centred;
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// o / scale: exact if sizes determine the scale, otherwise in float32, in which the scale is given.
double overScale(const ResizeAxis &a, int64_t o) {
  const auto in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  if (a.scale == out / in) return static_cast<double>(o) * in / out;
  return static_cast<double>(static_cast<float>(o) / static_cast<float>(a.scale));
}

// The element of the input nearest to element `o` of the output. The rule "pytorch" is floor(o / scale) for all
// coordinates. It and tf_half_pixel_for_nn do not change an axis whose size stays the same.
int64_t nearest(const ResizeAxis &a, const std::string &transformation, const std::string &rule, int64_t o) {
  const bool isKept = a.in == a.out && (rule == "pytorch" || transformation == "tf_half_pixel_for_nn");
  if (isKept) return o;
  if (rule == "pytorch") return static_cast<int64_t>(overScale(a, o));
  const double x = coordinate(a, transformation, o), below = std::floor(x);
  if (rule == "floor") return static_cast<int64_t>(below);
  if (rule == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (rule == "round_prefer_ceil") return static_cast<int64_t>(x - below < 0.5 ? below : below + 1);
  return static_cast<int64_t>(x - below <= 0.5 ? below : below + 1);
}

// The taps of one row: a kernel of half width `reach` around x, stretched when antialiasing reduces the size.
void addKernelRow(AxisTaps &taps, const ResizeAxis &a, double x, double stretch, bool isCubic,
                  const Attributes &attributes) {
  const double reach = (isCubic ? 2 : 1) / stretch, factor = attributes.getAttribute<float>("cubic_coeff_a");
  const int64_t first = static_cast<int64_t>(std::floor(x)) + 1 - taps.count / 2;
  const bool exclude = attributes.getAttribute<int64_t>("exclude_outside") != 0;
  double total = 0;
  const size_t begin = taps.weight.size();
  for (int64_t i = first; i < first + taps.count; ++i) {
    const double distance = (static_cast<double>(i) - x) * stretch;
    const bool outside = i < 0 || i >= a.in;
    const bool counts = std::abs(static_cast<double>(i) - x) < reach && !(exclude && outside);
    const double weight = !counts ? 0 : isCubic ? cubic(distance, factor) : triangle(distance);
    taps.index.push_back(std::clamp<int64_t>(i, 0, a.in - 1));
    taps.weight.push_back(weight);
    total += weight;
  }
  const bool normalise = exclude || stretch < 1;
  for (size_t i = begin; normalise && total != 0 && i < taps.weight.size(); ++i) taps.weight[i] /= total;
}

void checkScale(double scale) {
  check(scale > 0 && std::isfinite(scale), "a scale is not positive or not finite: got {}", scale);
}

AxisTaps axisTaps(const ResizeAxis &axis, const Attributes &attributes) {
  const auto mode = attributes.getAttribute<std::string>("mode");
  const auto transformation = attributes.getAttribute<std::string>("coordinate_transformation_mode");
  const auto rule = attributes.getAttribute<std::string>("nearest_mode");
  const bool antialias = attributes.getAttribute<int64_t>("antialias") != 0;
  const double stretch = antialias ? std::min(axis.scale, 1.0) : 1;
  const bool isCubic = mode == "cubic";
  AxisTaps taps;
  taps.count = mode == "nearest" ? 1 : 2 * static_cast<int64_t>(std::ceil((isCubic ? 2 : 1) / stretch));
  for (int64_t o = 0; o < axis.out; ++o) {
    const double x = coordinate(axis, transformation, o);
    const bool outside = transformation == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(axis.in - 1));
    if (outside) {
      taps.offset.resize(static_cast<size_t>(axis.out));
      taps.offset[o] = attributes.getAttribute<float>("extrapolation_value");
      taps.index.insert(taps.index.end(), static_cast<size_t>(taps.count), 0);
      taps.weight.insert(taps.weight.end(), static_cast<size_t>(taps.count), 0);
    } else if (mode == "nearest") {
      taps.index.push_back(std::clamp<int64_t>(nearest(axis, transformation, rule, o), 0, axis.in - 1));
      taps.weight.push_back(1);
    } else {
      addKernelRow(taps, axis, x, stretch, isCubic, attributes);
    }
  }
  return taps;
}

// The transposed map, back to the `in` elements, without offsets.
AxisTaps transposedTaps(const AxisTaps &taps, int64_t in) {
  std::vector<std::vector<std::pair<int64_t, double>>> rows(static_cast<size_t>(in));
  for (size_t i = 0; i < taps.index.size(); ++i)
    if (taps.weight[i] != 0) rows[taps.index[i]].emplace_back(static_cast<int64_t>(i) / taps.count, taps.weight[i]);
  AxisTaps result;
  result.count = 1;
  for (const auto &row : rows) result.count = std::max(result.count, static_cast<int64_t>(row.size()));
  constexpr int64_t kMostTaps = int64_t{1} << 28;  // rows are as long as the longest one
  check(result.count <= kMostTaps / std::max<int64_t>(in, 1),
        "the gradient of a Resize needs too many taps: one element of {} is read {} times. Resize in two steps, or to "
        "fewer elements",
        in, result.count);
  for (const auto &row : rows)
    for (int64_t k = 0; k < result.count; ++k) {
      const bool used = k < static_cast<int64_t>(row.size());
      result.index.push_back(used ? row[k].first : 0);
      result.weight.push_back(used ? row[k].second : 0);
    }
  return result;
}

}  // namespace

std::vector<ResizeAxis> resizeAxes(const Attributes &attributes, const Shape &shape) {
  const int rank = static_cast<int>(shape.size());
  const std::vector<int> axes = namedAxes(attributes, rank);
  const auto scales = attributes.getAttribute<Floats>("scales", {});
  const auto sizes = attributes.getAttribute<Ints>("sizes", {});
  const auto roi = attributes.getAttribute<Floats>("roi", {});
  check(scales.empty() != sizes.empty() || axes.empty(),
        "exactly one of scales and sizes is needed: got {} scales and {} sizes. An empty name ('') instead of "
        "scales leaves it out: [X, roi, '', sizes]",
        scales.size(), sizes.size());
  check((scales.empty() ? sizes.size() : scales.size()) == axes.size(),
        "scales or sizes need one number per axis: got {} for {} axes of input {}",
        scales.empty() ? sizes.size() : scales.size(), axes.size(), shape);
  check(roi.empty() || roi.size() == 2 * axes.size(),
        "roi needs a start and an end per axis: got {} numbers for {} axes", roi.size(), axes.size());
  const std::string policy = attributes.getAttribute<std::string>("keep_aspect_ratio_policy");
  check(policy == "stretch" || policy == "not_larger" || policy == "not_smaller",
        "keep_aspect_ratio_policy: got '{}', expected stretch, not_larger or not_smaller", policy);
  std::vector<ResizeAxis> result;
  for (int64_t d : shape) result.push_back({d, d, 1, 0, 1});
  std::optional<double> common;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis &a = result[axes[i]];
    if (!roi.empty()) {
      a.roiStart = roi[i], a.roiEnd = roi[i + axes.size()];
      check(std::isfinite(a.roiStart) && std::isfinite(a.roiEnd), "roi must hold finite numbers: got {} and {}",
            a.roiStart, a.roiEnd);
    }
    if (sizes.empty()) {
      checkScale(scales[i]);
      a.scale = scales[i];
      const float size = std::floor(scales[i] * static_cast<float>(a.in));
      check(size < static_cast<float>(int64_t{1} << 48), "a resized axis is too large: got scale {}", scales[i]);
      a.out = static_cast<int64_t>(size);
    } else {
      check(sizes[i] >= 0, "a size is negative: got {}", sizes);
      a.out = sizes[i];
      check(a.in > 0 || a.out == 0, "an axis without elements gives none: got sizes {} for input {}", sizes, shape);
      if (a.in == 0) continue;
      a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
      if (!common || (policy == "not_larger" ? a.scale < *common : a.scale > *common)) common = a.scale;
    }
  }
  if (sizes.empty() || policy == "stretch" || !common) return result;
  checkScale(*common);
  for (int axis : axes) {
    result[axis].scale = *common;
    result[axis].out = static_cast<int64_t>(*common * static_cast<double>(result[axis].in) + 0.5);
  }
  return result;
}

std::vector<AxisTaps> forwardMaps(const Attributes &attributes, const Shape &in) {
  std::vector<AxisTaps> maps;
  for (const ResizeAxis &axis : resizeAxes(attributes, in)) maps.push_back(axisTaps(axis, attributes));
  return maps;
}

std::vector<AxisTaps> gradientMaps(const Attributes &attributes, const Shape &in) {
  std::vector<AxisTaps> maps = forwardMaps(attributes, in);
  for (size_t axis = 0; axis < maps.size(); ++axis) maps[axis] = transposedTaps(maps[axis], in[axis]);
  return maps;
}

bool AxisTaps::selects() const {
  return count == 1 && offset.empty() && std::ranges::all_of(weight, [](double w) { return w == 1; });
}

bool AxisTaps::changesNothing(int64_t in) const {
  if (rows() != in || !offset.empty()) return false;
  for (int64_t o = 0; o < rows(); ++o)
    for (int64_t k = o * count; k < (o + 1) * count; ++k)
      if (weight[k] != 0 && (index[k] != o || weight[k] != 1)) return false;
  return std::ranges::count(weight, 1.0) == in;
}

}  // namespace popart::ops
