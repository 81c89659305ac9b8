// GridSample, AffineGrid, DeformConv and MaxUnpool of ai.onnx: positions, and weighted rows gathered at them.
#include <algorithm>
#include <cmath>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
enum class Padding { Zeros, Border, Reflection };
constexpr int64_t kLargest = int64_t{1} << 31;  // of strides, pads, dilations and kernels: sums of products fit 64 bits

// The factor of tap `k` (-1, 0, 1 or 2) in cubic interpolation at `t` after tap 0 (Keys, with a = -0.75).
Value cubicFactor(const Value &t, int k) {
  constexpr double a = -0.75;
  const Value x = k == -1 ? t + 1.0 : k == 0 ? t : k == 1 ? 1.0 - t : 2.0 - t;
  if (k == 0 || k == 1) return (x * (a + 2) - (a + 3)) * x * x + 1.0;
  return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
}

// Rows of pixels, interpolated between the integer positions around the given ones.
class Sampler {
 public:
  // `sizes`: of the image; `corners`: whether reflection is at the centres of the outermost pixels.
  Sampler(Shape sizes, std::vector<int> taps, Padding padding, bool corners)
      : sizes_(std::move(sizes)), taps_(std::move(taps)), padding_(padding), corners_(corners) {}

  // image: (samples, channels, sizes…); positions: one value of shape (samples, …) for each dimension of the image.
  // Returns (samples, …, channels).
  Value sample(const Value &image, const std::vector<Value> &positions) {
    const int64_t samples = image.dim(0);
    rows_ = samples;
    for (int64_t s : sizes_) rows_ *= s;
    all_.clear();
    for (size_t d = 0; d < sizes_.size(); ++d) all_.push_back(tapsOf(positions[d], static_cast<double>(sizes_[d])));
    Ints order = {0};  // channels last, a row per pixel
    for (size_t d = 0; d < sizes_.size(); ++d) order.push_back(2 + static_cast<int64_t>(d));
    order.push_back(1);
    column_ = positions[0].shape();
    Shape offsets(column_.size(), 1);
    offsets[0] = samples;
    column_.push_back(1);
    const int64_t pixels = rows_ / std::max<int64_t>(samples, 1);
    const Value row = (image.composer().countUp(samples) * static_cast<double>(pixels)).reshape(offsets);
    return total(image.transpose(order).reshape({rows_, image.dim(1)}), {{}, {}, {}}, row, 0);
  }

 private:
  struct Tap {
    Value index, inside, factor;  // of one dimension: position, whether it is in the image, and its weight
  };

  std::vector<Tap> tapsOf(const Value &x, double size) const {
    const Value first = x.op(taps_.size() == 1 ? "NearbyInt" : "Floor"), behind = x - first;
    std::vector<Tap> taps;
    for (int k : taps_) {
      Tap tap = placed(first + static_cast<double>(k), size);
      if (taps_.size() == 2) tap.factor = k == 0 ? 1.0 - behind : behind;
      if (taps_.size() == 4) tap.factor = cubicFactor(behind, k);
      taps.push_back(tap);
    }
    return taps;
  }

  Tap placed(const Value &at, double size) const {
    Tap tap;
    Value place = at;
    if (padding_ == Padding::Reflection && size > 1) {
      const double period = corners_ ? 2 * (size - 1) : 2 * size, last = corners_ ? period : period - 1;
      place = place.op("Remainder", {place.number(period)});
      place = place.op("Min", {last - place});
    }
    place = place.clamp(0, size - 1);
    if (padding_ == Padding::Zeros) tap.inside = place.op("Equal", {at});
    tap.index = place.cast(DataType::INT64);
    return tap;
  }

  // The sum over the taps of the dimensions from `d` on; `chosen`: the product of those before.
  Value total(const Value &pixels, const Tap &chosen, const Value &row, size_t d) const {
    pixels.composer().node().importer().countNode();  // their number is exponential in the dimensions
    if (d == sizes_.size()) {
      const bool masked = chosen.inside.valid();
      const Value at = masked ? where(chosen.inside, row, row.number(static_cast<double>(rows_))) : row;
      const Value taken = pixels.op("Gather", {at}, {{"axis", int64_t{0}}, {"zero_OOR", int64_t{masked}}});
      return chosen.factor.valid() ? taken * chosen.factor.reshape(column_).cast(pixels.type()) : taken;
    }
    int64_t stride = 1;
    for (size_t k = d + 1; k < sizes_.size(); ++k) stride *= sizes_[k];
    Value sum;
    for (const Tap &tap : all_[d]) {
      const Tap both{{},
                     chosen.inside.valid() ? chosen.inside.op("And", {tap.inside}) : tap.inside,
                     chosen.factor.valid() ? chosen.factor * tap.factor : tap.factor};
      const Value part = total(pixels, both, row + tap.index * static_cast<double>(stride), d + 1);
      sum = sum.valid() ? sum + part : part;
    }
    return sum;
  }

  Shape sizes_, column_;
  std::vector<int> taps_;
  Padding padding_;
  bool corners_;
  int64_t rows_ = 0;
  std::vector<std::vector<Tap>> all_;
};

Padding paddingOf(const NodeContext &n) {
  const std::string padding = n.attr<std::string>("padding_mode", "zeros");
  n.require(padding == "zeros" || padding == "border" || padding == "reflection",
            "attribute padding_mode: got '{}', expected zeros, border or reflection", padding);
  return padding == "zeros" ? Padding::Zeros : padding == "border" ? Padding::Border : Padding::Reflection;
}

std::vector<int> tapsOfMode(const NodeContext &n) {
  const std::string mode = n.attr<std::string>("mode", "linear");
  if (mode == "nearest") return {0};
  if (mode == "linear" || mode == "bilinear") return {0, 1};
  if (mode == "cubic" || mode == "bicubic") return {-1, 0, 1, 2};
  n.fail("attribute mode: got '{}', expected nearest, linear (bilinear) or cubic (bicubic)", mode);
}

void importGridSample(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), grid = to.input(1);
  const int64_t spatial = x.rank() - 2;
  n.require(spatial >= 1 && grid.rank() == x.rank() && grid.dim(0) == x.dim(0) && grid.dim(-1) == spatial &&
                isFloatingPoint(grid.type()),
            "X must be (N, C, spatial…) and grid (N, spatial of the output…, number of spatial dimensions) of a float "
            "type: got {} and {}",
            x.info(), grid.info());
  const Shape sizes(x.shape().begin() + 2, x.shape().end());
  n.require(std::ranges::all_of(sizes, [](int64_t s) { return s > 0; }), "X has nothing to sample: got {}", x.info());
  const std::vector<int> taps = tapsOfMode(n);
  const bool corners = n.attr<int64_t>("align_corners", 0) != 0;
  const Shape places(grid.shape().begin(), grid.shape().end() - 1);
  std::vector<Value> positions;  // the grid lists dimensions from the last one on
  for (int64_t d = 0; d < spatial; ++d) {
    const auto size = static_cast<double>(sizes[d]);
    const Value g = grid.slice(grid.rank() - 1, spatial - 1 - d, spatial - d).reshape(places);
    positions.push_back(corners ? (g + 1.0) * ((size - 1) / 2) : ((g + 1.0) * size - 1.0) / 2.0);
  }
  const DataType inner = isFloatingPoint(x.type()) || taps.size() == 1 ? x.type() : DataType::FLOAT;
  const Value y = Sampler(sizes, taps, paddingOf(n), corners).sample(x.cast(inner), positions);
  Ints back = {0, spatial + 1};
  for (int64_t d = 0; d < spatial; ++d) back.push_back(1 + d);
  to.result(0, y.transpose(back).cast(x.type()));
}

// The positions of an image of `size`, each as (…, y, x, 1) in reversed order, times theta.
void importAffineGrid(NodeContext &n) {
  Composer to(n);
  const Value theta = to.input(0);
  const Shape size = n.constantInts(1);
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  n.require(spatial == 2 || spatial == 3, "size must be (N, C, H, W) or (N, C, D, H, W): got {}", size);
  n.require(theta.shape() == Shape{size[0], spatial, spatial + 1}, "theta: got {}, expected shape {}", theta.info(),
            Shape{size[0], spatial, spatial + 1});
  const int64_t places = elementCount(Shape(size.begin() + 2, size.end()));
  const bool corners = n.attr<int64_t>("align_corners", 0) != 0;
  n.importer().takeFromBudget(TensorInfo(DataType::DOUBLE, {places, spatial + 1}).nbytes(),
                              "The positions of AffineGrid");
  std::vector<double> positions;
  positions.reserve(static_cast<size_t>(places * (spatial + 1)));
  for (int64_t p = 0; p < places; ++p) {
    int64_t rest = p;
    for (int64_t d = spatial - 1; d >= 0; --d) {
      const auto length = static_cast<double>(size[2 + d]);
      const auto i = static_cast<double>(rest % size[2 + d]);
      const double last = corners ? -1 + 2 * i / (length - 1) : (2 * i + 1) / length - 1;
      positions.push_back(corners && length == 1 ? 0 : last);
      rest /= size[2 + d];
    }
    positions.push_back(1);
  }
  const Value base = to.constant(TensorData::fromDoubles(TensorInfo(theta.type(), {places, spatial + 1}), positions));
  Shape shape(size.begin() + 2, size.end());
  shape.insert(shape.begin(), size[0]);
  shape.push_back(spatial);
  to.result(0, matmul(base, theta.transpose({0, 2, 1})).reshape(shape));
}

// A convolution whose taps are moved by offsets: samples columns between pixels, then computes a product.
class DeformConvNode {
 public:
  explicit DeformConvNode(NodeContext &n) : n_(n), to_(n) {}

  void import() {
    const Value x = to_.input(0), weight = to_.input(1), offset = to_.input(2);
    n_.require(x.rank() == 4 && weight.rank() == 4 && offset.rank() == 4,
               "X, W and offset must have four dimensions: got {}, {} and {}", x.info(), weight.info(), offset.info());
    const auto group = n_.attr<int64_t>("group", 1), parts = n_.attr<int64_t>("offset_group", 1);
    const int64_t taps = weight.dim(2) * weight.dim(3), channels = x.dim(1);
    height_ = size(x, weight, 0), width_ = size(x, weight, 1);
    n_.require(group > 0 && parts > 0 && channels % group == 0 && channels / group == weight.dim(1) &&
                   weight.dim(0) % group == 0 && channels % parts == 0,
               "channels do not fit {} groups and {} offset groups: got {} and {}", group, parts, x.info(),
               weight.info());
    samples_ = x.dim(0) * parts;
    n_.require(taps < kLargest, "W: got {}, expected less than {} taps", weight.info(), kLargest);
    requireShape(offset, {x.dim(0), parts * taps * 2, height_, width_}, "offset");
    const Value apart = offset.reshape({samples_, taps, 2, height_, width_});
    std::vector<Value> positions;
    for (int64_t d : {0, 1})
      positions.push_back(apart.slice(2, d, d + 1).reshape({samples_, taps, height_, width_}) + base(weight, d));
    const Value image = x.reshape({samples_, channels / parts, x.dim(2), x.dim(3)});
    Value columns = Sampler({x.dim(2), x.dim(3)}, {0, 1}, Padding::Zeros, true).sample(image, positions);
    if (n_.hasIn(4)) {
      requireShape(to_.input(4), {x.dim(0), parts * taps, height_, width_}, "mask");
      columns = columns * to_.input(4).reshape({samples_, taps, height_, width_, 1});
    }
    const int64_t rows = weight.dim(1) * taps;
    columns = columns.transpose({0, 4, 1, 2, 3}).reshape({x.dim(0), group, rows, height_ * width_});
    Value y = matmul(weight.reshape({group, weight.dim(0) / group, rows}), columns);
    y = y.reshape({x.dim(0), weight.dim(0), height_, width_});
    if (n_.hasIn(3)) {
      requireShape(to_.input(3), {weight.dim(0)}, "B");
      y = y + to_.input(3).reshape({weight.dim(0), 1, 1});
    }
    to_.result(0, y);
  }

 private:
  void requireShape(const Value &v, const Shape &expected, const char *name) const {
    n_.require(v.shape() == expected, "{}: got {}, expected shape {}", name, v.info(), expected);
  }

  int64_t parameter(const char *name, size_t length, size_t i, int64_t fallback) const {
    const Ints given = n_.attr<Ints>(name, Ints(length, fallback));
    n_.require(
        given.size() == length && std::ranges::all_of(given, [&](int64_t v) { return v >= fallback && v < kLargest; }),
        "attribute {}: got {}, expected {} numbers of {} or more, less than {}", name, given,
        static_cast<int64_t>(length), fallback, kLargest);
    return given[i];
  }

  int64_t size(const Value &x, const Value &weight, int d) const {
    const Ints kernel = {weight.dim(2), weight.dim(3)};
    n_.require(n_.attr<Ints>("kernel_shape", kernel) == kernel,
               "attribute kernel_shape contradicts W: got {}, expected {}", n_.attr<Ints>("kernel_shape", kernel),
               kernel);
    n_.require(kernel[d] < kLargest, "W: got {}, expected a kernel smaller than {}", weight.info(), kLargest);
    const int64_t room = x.dim(2 + d) + parameter("pads", 4, d, 0) + parameter("pads", 4, 2 + d, 0) -
                         parameter("dilations", 2, d, 1) * (kernel[d] - 1) - 1;
    n_.require(room >= 0 && x.dim(2 + d) > 0, "the window is larger than the padded image: got {} for {}",
               weight.info(), x.info());
    return room / parameter("strides", 2, d, 1) + 1;
  }

  // The positions of the taps without offsets, in dimension d: (taps, height, width).
  Value base(const Value &weight, int d) {
    const Shape shape = {weight.dim(2) * weight.dim(3), height_, width_};
    n_.importer().takeFromBudget(TensorInfo(DataType::DOUBLE, shape).nbytes(), "The positions of DeformConv");
    const int64_t stride = parameter("strides", 2, d, 1), pad = parameter("pads", 4, d, 0),
                  dilation = parameter("dilations", 2, d, 1);
    std::vector<double> places;
    for (int64_t i = 0; i < weight.dim(2); ++i)
      for (int64_t j = 0; j < weight.dim(3); ++j)
        for (int64_t y = 0; y < height_; ++y)
          for (int64_t x = 0; x < width_; ++x)
            places.push_back(static_cast<double>((d == 0 ? y : x) * stride - pad + (d == 0 ? i : j) * dilation));
    return to_.constant(TensorData::fromDoubles(TensorInfo(to_.input(2).type(), shape), places));
  }

  NodeContext &n_;
  Composer to_;
  int64_t height_ = 0, width_ = 0, samples_ = 0;
};

void importDeformConv(NodeContext &n) { DeformConvNode(n).import(); }

// Values at the positions that MaxPool returned, zeros elsewhere.
void importMaxUnpool(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), places = to.input(1);
  const int64_t spatial = x.rank() - 2;
  const Ints kernel = n.attr<Ints>("kernel_shape", {});
  const auto length = static_cast<size_t>(std::max<int64_t>(spatial, 0));
  const Ints strides = n.attr<Ints>("strides", Ints(length, 1)), pads = n.attr<Ints>("pads", Ints(2 * length, 0));
  n.require(spatial >= 1 && kernel.size() == length && strides.size() == length && pads.size() == 2 * length,
            "kernel_shape, strides and pads do not fit {}: got {}, {} and {}", x.info(), kernel, strides, pads);
  n.require(places.shape() == x.shape(), "X and I must have one shape: got {} and {}", x.info(), places.info());
  for (const Ints *list : {&kernel, &strides, &pads})
    n.require(std::ranges::all_of(*list, [](int64_t v) { return v >= 0 && v < kLargest; }),
              "kernel_shape, strides and pads must be 0 or more and less than {}: got {}", kLargest, *list);
  Shape shape(x.shape().begin(), x.shape().begin() + 2);
  for (int64_t d = 0; d < spatial; ++d) {
    n.require(x.shape()[d + 2] < kLargest, "X: got {}, expected dimensions smaller than {}", x.info(), kLargest);
    shape.push_back((x.shape()[d + 2] - 1) * strides[d] - pads[d] - pads[spatial + d] + kernel[d]);
    n.require(shape.back() >= 0, "the result has a negative size: got {}", shape);
  }
  const int64_t all = elementCount(shape);
  const Value flat = to.zeros(x.type(), {all})
                         .op("ScatterElements", {places.reshape({x.info().nelms()}), x.reshape({x.info().nelms()})},
                             {{"axis", int64_t{0}}});
  Value y = flat.reshape(shape);
  if (n.hasIn(2)) {
    const Shape wanted = n.constantInts(2);
    Ints grown(2 * shape.size(), 0);
    n.require(wanted.size() == shape.size(), "output_shape: got {}, expected {} numbers", wanted,
              static_cast<int64_t>(shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) {
      n.require(wanted[d] >= shape[d], "output_shape: got {}, expected at least {}", wanted, shape);
      grown[shape.size() + d] = wanted[d] - shape[d];
    }
    if (wanted != shape) y = y.op("Pad", {}, {{"pads", grown}});
  }
  to.result(0, y);
}

}  // namespace

std::vector<ImportRule> samplingRules() {
  return {{"ai.onnx", "GridSample", importGridSample},
          {"ai.onnx", "AffineGrid", importAffineGrid},
          {"ai.onnx", "DeformConv", importDeformConv},
          {"ai.onnx", "MaxUnpool", importMaxUnpool}};
}

}  // namespace popart::onnx
