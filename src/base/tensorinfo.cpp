// Shapes: sizes with overflow checks, broadcasting, strides.
#include <popart/tensorinfo.hpp>

#include <algorithm>
#include <charconv>
#include <ostream>

#include <popart/error.hpp>

namespace popart {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 48;  // ×16 bytes still fits in 63 bits with room for padding

Shape shapeFromText(const std::string &text) {
  check(text.size() >= 2 && text.front() == '(' && text.back() == ')',
        "shape text '{}' cannot be read: expected a form like (2,3)", text);
  Shape shape;
  const char *p = text.data() + 1, *end = text.data() + text.size() - 1;
  while (p < end) {
    int64_t v = 0;
    auto [next, ec] = std::from_chars(p, end, v);
    check(ec == std::errc() && (next == end || *next == ','),
          "shape text '{}' cannot be read: expected a form like (2,3)", text);
    shape.push_back(v);
    p = next == end ? end : next + 1;
  }
  return shape;
}

}  // namespace

int64_t elementCount(const Shape &shape) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : shape) {
    if (d < 0) throw error("shape {}: negative dimension", shape);
    if (d == 0) {
      zero = true;
      continue;
    }
    if (n > kMaxElements / d) throw error("shape {}: more than 2^48 elements", shape);
    n *= d;
  }
  return zero ? 0 : n;
}

TensorInfo::TensorInfo(const std::string &type, const std::string &shape) {
  set(dataTypeFromString(type), shapeFromText(shape));
}
TensorInfo::TensorInfo(const std::string &type, const Shape &shape) { set(dataTypeFromString(type), shape); }

void TensorInfo::set(DataType type) { type_ = type; }

void TensorInfo::set(DataType type, Shape shape) { set(type, std::move(shape), {}); }

void TensorInfo::set(DataType type, Shape shape, Shape metaShape) {
  nelms_ = elementCount(shape);
  type_ = type;
  shape_ = std::move(shape);
  metaShape_ = std::move(metaShape);
}

int64_t TensorInfo::nbytes() const { return nelms_ * getDataTypeInfo(type_).nbytes; }

int64_t TensorInfo::dim(int i) const {
  check(i >= 0 && i < rank(), "TensorInfo::dim: index {} is out of range for shape {}", i, shape_);
  return shape_[i];
}

Shape TensorInfo::strides(const Shape &shape) const {
  Shape result(shape.size());
  int64_t stride = getDataTypeInfo(type_).nbytes;
  for (size_t i = shape.size(); i-- > 0;) {
    result[i] = stride;
    stride *= shape[i];
  }
  return result;
}

std::string TensorInfo::str() const { return isSet() ? toText(type_) + toText(shape_) : "unset"; }

bool npBroadcastable(const Shape &a, const Shape &b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - 1 - i], y = b[b.size() - 1 - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Shape npOut(const Shape &a, const Shape &b, const std::string &debugName) {
  if (!npBroadcastable(a, b))
    throw error("{}shapes do not broadcast: got {} and {}, expected equal dimensions or 1 (aligned at the last one)",
                debugName.empty() ? "" : debugName + ": ", a, b);
  const Shape &longer = a.size() >= b.size() ? a : b;
  const Shape &shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i)
    if (out[shift + i] == 1) out[shift + i] = shorter[i];
  return out;
}

TensorInfo npOut(const TensorInfo &a, const TensorInfo &b, bool checkDataType, const std::string &debugName) {
  if (checkDataType && a.dataType() != b.dataType())
    throw error("{}element types differ: got {} and {}, expected equal types. Cast one of them",
                debugName.empty() ? "" : debugName + ": ", a.dataType(), b.dataType());
  return TensorInfo(a.dataType(), npOut(a.shape(), b.shape(), debugName));
}

std::vector<int64_t> npReductionAxis(const Shape &in, const Shape &out) {
  std::vector<int64_t> axes;
  const size_t shift = out.size() - in.size();
  for (size_t i = 0; i < out.size(); ++i)
    if (i < shift || in[i - shift] != out[i]) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

int64_t normalizeAxis(int64_t axis, int64_t rank, const std::string &what) {
  check(axis >= -rank && axis < rank, "{}: axis is out of range: got {}, expected a value in [{}, {}] for rank {}",
        what, axis, -rank, rank - 1, rank);
  return axis < 0 ? axis + rank : axis;
}

void TensorInfo::append(std::ostream &out) const { out << str(); }

namespace {

// For each of `rank` axes, whether `axes` contains it.
std::vector<bool> namedAxes(const std::vector<int64_t> &axes, size_t rank, const char *what) {
  std::vector<bool> named(rank, false);
  for (int64_t axis : axes) {
    const auto i = static_cast<size_t>(normalizeAxis(axis, static_cast<int64_t>(rank), what));
    check(!named[i], "{}: axes: got {}, which names axis {} twice", what, axes, i);
    named[i] = true;
  }
  return named;
}

}  // namespace

Shape squeeze(const Shape &shape, const std::vector<int64_t> &axes) {
  const std::vector<bool> named = namedAxes(axes, shape.size(), "squeeze");
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    check(!named[i] || shape[i] == 1, "squeeze: axis {} of shape {} has more than one element: expected size 1", i,
          shape);
    if (axes.empty() ? shape[i] != 1 : !named[i]) result.push_back(shape[i]);
  }
  return result;
}

Shape unsqueeze(const Shape &shape, const std::vector<int64_t> &axes) {
  const std::vector<bool> named = namedAxes(axes, shape.size() + axes.size(), "unsqueeze");
  Shape result;
  auto next = shape.begin();
  for (const bool fresh : named) result.push_back(fresh ? 1 : *next++);
  return result;
}

}  // namespace popart
