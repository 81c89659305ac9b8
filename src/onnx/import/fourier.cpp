// Signals: windows, MelWeightMatrix, DFT and STFT of ai.onnx. A transform of length n1 n2 consists of one of length n1,
// a rotation of its results, and one of length n2; a length without factors is a product with the matrix of the
// transform.
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
constexpr double kPi = std::numbers::pi;
constexpr int64_t kShort = 64;                  // up to this length a product is as fast as factors
constexpr int64_t kLongest = int64_t{1} << 40;  // larger than any memory; its factors are found at once

// The real and imaginary parts of rows; without imaginary part the signal is real.
struct Complex {
  Value real, imaginary;
};

int64_t factorOf(int64_t n) {
  for (auto f = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); f > 1; --f)
    if (n % f == 0) return f;
  return 1;
}

class Transform {
 public:
  Transform(Composer &to, DataType type, bool inverse) : to_(to), type_(type), sign_(inverse ? 1 : -1) {}

  // The transform along the last of two dimensions; the first `wanted` results.
  Complex of(const Complex &x, int64_t wanted) {
    const int64_t rows = x.real.dim(0), n = x.real.dim(1), n1 = n <= kShort ? 1 : factorOf(n), n2 = n / n1;
    if (n1 == 1) return dense(x, wanted);
    const auto each = [&](const Complex &z, auto change) {
      return Complex{change(z.real), z.imaginary.valid() ? change(z.imaginary) : Value()};
    };
    const Complex columns = each(x, [&](const Value &v) {
      return v.reshape({rows, n1, n2}).transpose({0, 2, 1}).reshape({rows * n2, n1});
    });
    Complex inner = each(of(columns, n1), [&](const Value &v) { return v.reshape({rows, n2, n1}); });
    const Complex turn = turns(n, n2, n1);
    inner = {inner.real * turn.real - inner.imaginary * turn.imaginary,
             inner.real * turn.imaginary + inner.imaginary * turn.real};
    inner = each(inner, [&](const Value &v) { return v.transpose({0, 2, 1}).reshape({rows * n1, n2}); });
    return each(of(inner, n2), [&](const Value &v) {
      return v.reshape({rows, n1, n2}).transpose({0, 2, 1}).reshape({rows, n}).slice(1, 0, wanted);
    });
  }

 private:
  // e^(± 2 pi i j k / n) of all j < rows, k < columns.
  Complex turns(int64_t n, int64_t rows, int64_t columns) {
    to_.node().importer().takeFromBudget(TensorInfo(DataType::COMPLEX128, {rows, columns}).nbytes(),
                                         "The factors of a Fourier transform");
    std::vector<double> real, imaginary;
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t k = 0; k < columns; ++k) {
        const double angle = 2 * kPi * static_cast<double>(j * k % n) / static_cast<double>(n);
        real.push_back(std::cos(angle)), imaginary.push_back(sign_ * std::sin(angle));
      }
    const TensorInfo info(type_, {rows, columns});
    return {to_.constant(TensorData::fromDoubles(info, real)), to_.constant(TensorData::fromDoubles(info, imaginary))};
  }

  Complex dense(const Complex &x, int64_t wanted) {
    const int64_t n = x.real.dim(1);
    const Complex w = turns(n, n, wanted);
    Value product = matmul(x.real, concat({w.real, w.imaginary}, 1));
    if (x.imaginary.valid()) product = product + matmul(x.imaginary, concat({w.imaginary * -1.0, w.real}, 1));
    return {product.slice(1, 0, wanted), product.slice(1, wanted, 2 * wanted)};
  }

  Composer &to_;
  DataType type_;
  double sign_;
};

struct Request {
  int64_t axis, length;
  bool inverse, oneSided;
};

Value fitted(const Value &x, int64_t axis, int64_t length) {
  const int64_t size = x.shape()[axis];
  if (size >= length) return x.slice(axis, 0, length);
  Ints pads(static_cast<size_t>(2 * x.rank()), 0);
  pads[x.rank() + axis] = length - size;
  return x.op("Pad", {}, {{"pads", pads}});
}

// The last dimension of `given` is 1 (real) or 2 (real, imaginary), and so is that of the result.
Value transformed(Composer &to, const Value &given, const Request &r) {
  const DataType inner = given.type() == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
  const int64_t half = r.length / 2 + 1, rank = given.rank();
  const bool toReal = r.inverse && r.oneSided;
  Value x = fitted(given.cast(inner), r.axis, toReal ? half : r.length);
  // The axis comes last, except for the parts, which come first.
  Ints order = {rank - 1}, back;
  for (int64_t d = 0; d + 1 < rank; ++d)
    if (d != r.axis) order.push_back(d);
  order.push_back(r.axis);
  x = x.transpose(order);
  Shape shape(x.shape().begin() + 1, x.shape().end());
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  const auto part = [&](int64_t i) { return x.slice(0, i, i + 1).reshape({rows, shape.back()}); };
  Complex z{part(0), given.dim(-1) == 2 ? part(1) : Value()};
  if (toReal) {  // the other half is mirrored, with the sign of the imaginary part changed
    const int64_t mirrored = r.length - half;
    const auto whole = [&](const Value &v, double sign) {
      if (mirrored <= 0) return v;
      return concat({v, v.slice(1, 1, mirrored + 1).reverse(1) * sign}, 1);
    };
    z = {whole(z.real, 1), z.imaginary.valid() ? whole(z.imaginary, -1) : Value()};
  }
  const int64_t wanted = r.oneSided && !r.inverse ? half : r.length;
  const Complex y = Transform(to, inner, r.inverse).of(z, wanted);
  shape.back() = wanted;
  shape.insert(shape.begin(), 1);
  Value result = y.real.reshape(shape);
  if (!toReal) result = concat({result, y.imaginary.reshape(shape)}, 0);
  if (r.inverse) result = result / static_cast<double>(r.length);
  back.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return result.transpose(back).cast(given.type());
}

void requireSignal(const NodeContext &n) {
  const TensorInfo &info = n.info(0);
  n.require(
      info.rank() >= 2 && (info.shape().back() == 1 || info.shape().back() == 2) && isFloatingPoint(info.dataType()),
      "the signal must be of a float type with a last dimension of 1 (real) or 2 (complex): got {}", info);
}

// The axis is an attribute in version 17, and input 2 from version 20 on.
void importDft(NodeContext &n) {
  Composer to(n);
  requireSignal(n);
  const Value x = to.input(0);
  int64_t axis = n.opset() < 20 ? n.attr<int64_t>("axis", 1) : n.hasIn(2) ? n.constantInt(2) : -2;
  n.require(axis >= -x.rank() && axis < x.rank() && axis != -1 && axis != x.rank() - 1,
            "axis: got {}, expected one of {} but the last", axis, x.info());
  if (axis < 0) axis += x.rank();
  Request r{axis, x.shape()[axis], n.attr<int64_t>("inverse", 0) != 0, n.attr<int64_t>("onesided", 0) != 0};
  if (r.inverse && r.oneSided) r.length = 2 * (r.length - 1);
  if (n.hasIn(1)) r.length = n.constantInt(1);
  n.require(r.length > 0 && r.length <= kLongest, "dft_length must be greater than 0 and at most {}: got {}", kLongest,
            r.length);
  n.require(!r.oneSided || r.inverse || x.dim(-1) == 1, "onesided takes a real signal: got {}", x.info());
  to.result(0, transformed(to, x, r));
}

void importStft(NodeContext &n) {
  Composer to(n);
  requireSignal(n);
  const Value x = to.input(0), window = to.optionalInput(2);
  n.require(x.rank() == 3, "the signal must be (batch, length, 1 or 2): got {}", x.info());
  n.require(!window.valid() || window.rank() == 1, "window must have one dimension: got {}",
            n.hasIn(2) ? n.info(2) : x.info());
  const int64_t step = n.constantInt(1);
  const int64_t length = n.hasIn(3) ? n.constantInt(3) : window.valid() ? window.dim(0) : x.dim(1);
  n.require(step > 0 && length > 0 && length <= std::min(x.dim(1), kLongest),
            "frame_step and the length of frames must be greater than 0, the latter at most that of the signal: got "
            "{} and {} for {}",
            step, length, x.info());
  n.require(!window.valid() || window.dim(0) == length, "window must have the length of frames: got {}, expected {}",
            window.valid() ? window.dim(0) : 0, length);
  const bool oneSided = n.attr<int64_t>("onesided", 1) != 0;
  n.require(!oneSided || x.dim(-1) == 1, "onesided takes a real signal: got {}. Set it to 0", x.info());
  const int64_t frames = (x.dim(1) - length) / step + 1;
  const Value starts = (to.countUp(frames) * static_cast<double>(step)).reshape({frames, 1});
  Value framed = x.gather(starts + to.countUp(length), 1);
  if (window.valid()) framed = framed * window.reshape({length, 1});
  to.result(0, transformed(to, framed, {2, length, false, oneSided}));
}

// value(x) at x = i / n: n is the size of a periodic window, and one less for a symmetric one.
void importWindow(NodeContext &n, const std::function<double(double)> &value) {
  const int64_t size = n.constantInt(0);
  n.require(size >= 0, "size must not be negative: got {}", size);
  const int64_t whole = n.attr<int64_t>("periodic", 1) != 0 ? size : size - 1;
  const TensorInfo info(fromOnnxDataType(static_cast<int>(n.attr<int64_t>("output_datatype", 1))), {size});
  n.importer().takeFromBudget(TensorInfo(DataType::DOUBLE, {size}).nbytes(), "A window of " + info.str());
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i)
    values.push_back(whole == 0 ? 1 : value(2 * kPi * static_cast<double>(i) / static_cast<double>(whole)));
  n.resultValue(0, TensorData::fromDoubles(info, values));
}

void importHann(NodeContext &n) {
  importWindow(n, [](double x) { return 0.5 - 0.5 * std::cos(x); });
}

void importHamming(NodeContext &n) {
  importWindow(n, [](double x) { return 25.0 / 46 - 21.0 / 46 * std::cos(x); });
}

void importBlackman(NodeContext &n) {
  importWindow(n, [](double x) { return 0.42 - 0.5 * std::cos(x) + 0.08 * std::cos(2 * x); });
}

// Triangles between bins that are equally far apart on the mel scale.
void importMelWeightMatrix(NodeContext &n) {
  const int64_t bins = n.constantInt(0), length = n.constantInt(1), rate = n.constantInt(2), spectrum = length / 2 + 1;
  n.require(bins > 0 && length > 0 && rate > 0,
            "num_mel_bins, dft_length and sample_rate must be greater than 0: got {}, {} and {}", bins, length, rate);
  const TensorInfo info(fromOnnxDataType(static_cast<int>(n.attr<int64_t>("output_datatype", 1))), {spectrum, bins});
  n.importer().takeFromBudget(TensorInfo(DataType::DOUBLE, info.shape()).nbytes(),
                              "A mel weight matrix of " + info.str());
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(n.constantNumber(3)), step = (mel(n.constantNumber(4)) - low) / static_cast<double>(bins + 2);
  Ints edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double edge = std::floor((static_cast<double>(length) + 1) * hertz / static_cast<double>(rate));
    n.require(edge >= 0 && edge <= static_cast<double>(spectrum),
              "the edges must be from 0 to half the sample rate: bin {} got {} of {}", i, edge, spectrum);
    edges.push_back(static_cast<int64_t>(edge));
  }
  std::vector<double> values(static_cast<size_t>(info.nelms()), 0);
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t left = edges[i], centre = edges[i + 1], right = edges[i + 2];
    const auto put = [&](int64_t row, double value) {
      if (row < spectrum) values[row * bins + i] = value;
    };
    for (int64_t j = left; j <= centre; ++j)
      put(j, left == centre ? 1 : static_cast<double>(j - left) / static_cast<double>(centre - left));
    for (int64_t j = centre; j < right; ++j)
      put(j, static_cast<double>(right - j) / static_cast<double>(right - centre));
  }
  n.resultValue(0, TensorData::fromDoubles(info, values));
}

}  // namespace

std::vector<ImportRule> fourierRules() {
  return {{"ai.onnx", "DFT", importDft},
          {"ai.onnx", "STFT", importStft},
          {"ai.onnx", "HannWindow", importHann},
          {"ai.onnx", "HammingWindow", importHamming},
          {"ai.onnx", "BlackmanWindow", importBlackman},
          {"ai.onnx", "MelWeightMatrix", importMelWeightMatrix}};
}

}  // namespace popart::onnx
