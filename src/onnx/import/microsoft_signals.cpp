// Signals and images of com.microsoft: Fourier transforms, complex products, sampling.
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

constexpr int64_t kTransformVersion = 17;

Value transformed(const Value &x, int64_t axis, bool inverse, bool oneSided) {
  return x.composer().node({"DFT", kTransformVersion}, {x},
                           {{"axis", axis}, {"inverse", int64_t{inverse}}, {"onesided", int64_t{oneSided}}});
}

int64_t signalDims(const NodeContext &n, int64_t rank) {
  const auto dims = n.attr<int64_t>("signal_ndim", 1);
  n.require(dims >= 1 && dims <= rank, "attribute signal_ndim: got {}, expected 1 to {}", dims, rank);
  n.require(n.attr<int64_t>("normalized", 0) == 0 && n.attr<int64_t>("onesided", 1) == 1,
            "attributes normalized and onesided must be 0 and 1");
  return dims;
}

// Transforms the last dimension to the half that a real signal has, then the dimensions before: (…, n / 2 + 1, 2).
void importRfft(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const int64_t dims = signalDims(n, x.rank());
  Shape shape = x.shape();
  shape.push_back(1);
  Value y = transformed(x.reshape(shape), x.rank() - 1, false, true);
  for (int64_t d = 1; d < dims; ++d) y = transformed(y, x.rank() - 1 - d, false, false);
  to.result(0, y);
}

// The inverse, divided by the number of elements; the last dimension becomes even.
void importIrfft(NodeContext &n) {
  Composer to(n);
  Value y = to.input(0);
  const int64_t rank = y.rank() - 1, dims = signalDims(n, rank);
  n.require(y.dim(-1) == 2 && y.dim(-2) >= 2, "the input must be (…, n / 2 + 1, 2): got {}", y.info());
  for (int64_t d = dims - 1; d >= 1; --d) y = transformed(y, rank - 1 - d, true, false);
  // From version 20 on DFT has the inverse of a one-sided transform.
  constexpr int64_t kVersion = 20;
  const Value back = to.node({"DFT", kVersion}, {y, Value(), to.constant(TensorData::scalar<int64_t>(rank - 1))},
                             {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}});
  to.result(0, back.reshape(Shape(back.shape().begin(), back.shape().end() - 1)));
}

// The last dimension holds real and imaginary part; the conjugate of b is used if the node says so.
void importComplexMul(NodeContext &n) {
  Composer to(n);
  const Value a = to.input(0), b = to.input(1);
  n.require(a.rank() >= 1 && b.rank() >= 1 && a.dim(-1) == 2 && b.dim(-1) == 2,
            "the last dimensions must be 2 (real, imaginary): got {} and {}", a.info(), b.info());
  const auto part = [](const Value &x, int64_t i) { return x.slice(x.rank() - 1, i, i + 1); };
  const Value ar = part(a, 0), ai = part(a, 1), br = part(b, 0);
  const Value bi = n.type() == "ComplexMulConj" ? part(b, 1) * -1.0 : part(b, 1);
  const Value real = ar * br - ai * bi;
  to.result(0, concat({real, ar * bi + ai * br}, real.rank() - 1));
}

void importGridSample(NodeContext &n) {
  constexpr int64_t kVersion = 16;
  n.importAs({"GridSample", kVersion}, {n.in(0), n.in(1)}, n.attributes());
}

// One axis of CropAndResize: `count` positions between `low` and `high`, which are fractions of the axis.
struct CropAxis {
  Value places, inside;  // (boxes, count); inside: BOOL
  Value first, second;   // the integer positions around
  Value weight;          // of the second position

  CropAxis(const Value &low, const Value &high, int64_t count, int64_t size, bool nearest) {
    Composer &to = low.composer();
    const auto last = static_cast<double>(size - 1);
    if (count > 1)
      places =
          low * last + to.countUp(count).cast(low.type()) * ((high - low) * (last / static_cast<double>(count - 1)));
    else
      places = (low + high) * (0.5 * last);
    inside =
        places.op("GreaterOrEqual", {places.number(0)}).op("And", {places.op("LessOrEqual", {places.number(last)})});
    const Value safe = places.clamp(0, last);
    const Value below = nearest ? (safe + 0.5).op("Floor") : safe.op("Floor");
    first = below.cast(DataType::INT64);
    second = safe.op("Ceil").cast(DataType::INT64);
    weight = safe - below;
  }
};

// x (N, C, H, W), boxes (n, 4) as fractions (y1, x1, y2, x2), their images (n), the size (2): (n, C, size).
void importCropAndResize(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), boxes = to.input(1), images = to.input(2);
  const std::vector<int64_t> size = n.constantInts(3);
  const std::string mode = n.attr<std::string>("mode", "bilinear");
  n.require(mode == "bilinear" || mode == "nearest", "attribute mode: got '{}', expected bilinear or nearest", mode);
  n.require(x.rank() == 4 && boxes.rank() == 2 && boxes.dim(1) == 4 && images.shape() == Shape{boxes.dim(0)},
            "expected images (N, C, H, W), boxes (n, 4) and their images (n): got {}, {} and {}", x.info(),
            boxes.info(), images.info());
  n.require(size.size() == 2 && size[0] > 0 && size[1] > 0, "crop_size must be two numbers greater than 0: got {}",
            size);
  const int64_t height = x.dim(2), width = x.dim(3), count = boxes.dim(0);
  const bool isNearest = mode == "nearest";
  const auto corner = [&](int64_t i) { return boxes.slice(1, i, i + 1); };
  const CropAxis rows(corner(0), corner(2), size[0], height, isNearest);
  const CropAxis columns(corner(1), corner(3), size[1], width, isNearest);
  const Value table = channelsLast(x).reshape({x.dim(0) * height * width, x.dim(1)});
  const Value image = (images.cast(DataType::INT64) * static_cast<double>(height * width)).reshape({count, 1, 1});
  const auto at = [&](const Value &row, const Value &column) {
    const Value place =
        image + (row * static_cast<double>(width)).reshape({count, size[0], 1}) + column.reshape({count, 1, size[1]});
    return table.gather(place, 0);
  };
  Value y = at(rows.first, columns.first);
  if (!isNearest) {
    const Value across = columns.weight.reshape({count, 1, size[1], 1}),
                down = rows.weight.reshape({count, size[0], 1, 1});
    const Value top = y + (at(rows.first, columns.second) - y) * across;
    const Value left = at(rows.second, columns.first);
    const Value bottom = left + (at(rows.second, columns.second) - left) * across;
    y = top + (bottom - top) * down;
  }
  const Value inside =
      rows.inside.reshape({count, size[0], 1, 1}).op("And", {columns.inside.reshape({count, 1, size[1], 1})});
  to.result(0, channelsFirst(where(inside, y, y.number(n.attr("extrapolation_value", 0.0f)))));
}

}  // namespace

std::vector<ImportRule> signalRules() {
  const char *const transform = "normalized onesided signal_ndim";
  return {{kDomain, "Rfft", importRfft, {"X", "Y", transform}},
          {kDomain, "Irfft", importIrfft, {"X", "Y", transform}},
          {kDomain, "ComplexMul", importComplexMul, {"A B", "C"}},
          {kDomain, "ComplexMulConj", importComplexMul, {"A B", "C"}},
          {kDomain, "GridSample", importGridSample, {"X Grid", "Y", "align_corners mode padding_mode"}},
          {kDomain,
           "CropAndResize",
           importCropAndResize,
           {"X rois batch_indices crop_size", "Y", "extrapolation_value mode"}}};
}

}  // namespace popart::onnx::microsoft
