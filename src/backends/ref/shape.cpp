// Reference kernels that move elements: views, Transpose, Concat, Split, Slice, Reverse, Expand, Tile, Pad, constants.
#include <algorithm>
#include <cstring>

#include "backends/ref/families.hpp"
#include "backends/ref/loops.hpp"
#include "ops/rules.hpp"
#include "ops/shape/pad_index.hpp"
#include "ops/shape/slice_range.hpp"

namespace popart::ref {
namespace {

// Copies one element of any type.
class ElementCopy {
 public:
  ElementCopy(const View &from, const View &to)
      : bytes_(getDataTypeInfo(to.info.dataType()).nbytes), from_(from.as<char>()), to_(to.as<char>()) {}
  void operator()(int64_t from, int64_t to) const { std::memcpy(to_ + to * bytes_, from_ + from * bytes_, bytes_); }

 private:
  size_t bytes_;
  const char *from_;
  char *to_;
};

void copy(const Context &c) {
  if (c.out[0].data != c.in[0].data && c.out[0].info.nbytes() > 0)
    std::memcpy(c.out[0].data, c.in[0].data, c.out[0].info.nbytes());
}

// Output element at coordinates x is the input element at base + sum of x[d] * strides[d].
void copyStrided(const Context &c, int64_t base, const Shape &strides) {
  const ElementCopy copyElement(c.in[0], c.out[0]);
  Walk walk(c.out[0].shape(), {strides});
  for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) copyElement(base + walk.offset(0), i);
}

void transpose(const Context &c) {
  const Shape own = elementStrides(c.in[0].shape());
  const std::vector<int64_t> perm = c.op.attributes.getAttribute<std::vector<int64_t>>("perm", {});
  Shape strides;
  for (size_t i = 0; i < own.size(); ++i) strides.push_back(perm.empty() ? own[own.size() - 1 - i] : own[perm[i]]);
  copyStrided(c, 0, strides);
}

// Offsets of the elements of a slice in the sliced tensor: base + sum of x[d] * strides[d].
struct SlicePositions {
  SlicePositions(const Attributes &attributes, const Shape &whole) {
    const Shape own = elementStrides(whole);
    const auto ranges = ops::sliceRanges(attributes, whole);
    for (size_t i = 0; i < own.size(); ++i) {
      base += ranges[i].start * own[i];
      strides.push_back(ranges[i].step * own[i]);
    }
  }
  int64_t base = 0;
  Shape strides;
};

void slice(const Context &c) {
  const SlicePositions at(c.op.attributes, c.in[0].shape());
  copyStrided(c, at.base, at.strides);
}

void sliceUpdate(const Context &c) {
  copy(c);
  const SlicePositions at(c.op.attributes, c.in[0].shape());
  const ElementCopy copyElement(c.in[1], c.out[0]);
  Walk walk(c.in[1].shape(), {at.strides});
  for (int64_t i = 0; i < c.in[1].size(); ++i, walk.next()) copyElement(i, at.base + walk.offset(0));
}

void subsample(const Context &c) {
  const auto ranges = ops::subsampleRanges(c.op.attrInts("strides"), c.in[0].shape());
  Shape strides = elementStrides(c.in[0].shape());
  for (size_t i = 0; i < strides.size(); ++i) strides[i] *= ranges[i].step;
  copyStrided(c, 0, strides);
}

void reverse(const Context &c) {
  Shape strides = elementStrides(c.in[0].shape());
  int64_t base = 0;
  for (int64_t d : c.op.attrInts("dimensions")) {
    base += (c.in[0].shape()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  copyStrided(c, base, strides);
}

void expand(const Context &c) { copyStrided(c, 0, broadcastStrides(c.in[0].shape(), c.out[0].shape())); }

void tile(const Context &c) {
  const ElementCopy copyElement(c.in[0], c.out[0]);
  const Shape &from = c.in[0].shape(), strides = elementStrides(from);
  Walk walk(c.out[0].shape(), {});
  for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) {
    int64_t at = 0;
    for (size_t d = 0; d < from.size(); ++d) at += walk.coordinates()[d] % from[d] * strides[d];
    copyElement(at, i);
  }
}

void pad(const Context &c) {
  const Shape &from = c.in[0].shape(), strides = elementStrides(from);
  const auto pads = ops::fullPads(c.op.attributes, c.in[0].info.rank());
  const std::string &mode = c.op.attrString("mode");
  std::vector<std::vector<int64_t>> indices;
  for (size_t d = 0; d < from.size(); ++d) {
    if (c.out[0].size() > 0) indices.push_back(ops::padIndices(mode, from[d], pads[d], pads[from.size() + d]));
  }
  const std::array<char, 16> element = ops::padFill(c.out[0].info.dataType(), c.op.attrFloat("value"));
  dispatchMoved(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    T fill;
    std::memcpy(&fill, element.data(), sizeof fill);
    Walk walk(c.out[0].shape(), {});
    for (int64_t i = 0; i < c.out[0].size(); ++i, walk.next()) {
      int64_t at = 0;
      bool inside = true;
      for (size_t d = 0; d < from.size(); ++d) {
        const int64_t position = indices[d][walk.coordinates()[d]];
        inside = inside && position >= 0;
        at += position * strides[d];
      }
      c.out[0].as<T>()[i] = inside ? c.in[0].as<T>()[at] : fill;
    }
  });
}

// Copies between the concatenated tensor and its pieces of the sizes given along `axis`; absent pieces are skipped.
template <bool Join>
void movePieces(std::span<const View> pieces, const std::vector<int64_t> &sizes, const View &joined, int64_t axis) {
  const AxisSplit whole(joined.shape(), axis);
  const int64_t bytes = getDataTypeInfo(joined.info.dataType()).nbytes * whole.inner;
  int64_t start = 0;
  for (size_t p = 0; p < sizes.size(); start += sizes[p++]) {
    if (!pieces[p].connected() || sizes[p] * bytes == 0) continue;
    for (int64_t i = 0; i < whole.outer; ++i) {
      char *inWhole = joined.as<char>() + (i * whole.length + start) * bytes;
      char *inPiece = pieces[p].as<char>() + i * sizes[p] * bytes;
      std::memcpy(Join ? inWhole : inPiece, Join ? inPiece : inWhole, sizes[p] * bytes);
    }
  }
}

void concat(const Context &c) {
  const int64_t axis = ops::axisOf(c.op.attributes, c.out[0].info.rank());
  std::vector<int64_t> sizes;
  for (const View &piece : c.in) sizes.push_back(piece.shape()[axis]);
  movePieces<true>(c.in, sizes, c.out[0], axis);
}
void split(const Context &c) {
  const int64_t axis = ops::axisOf(c.op.attributes, c.in[0].info.rank());
  const auto sizes = ops::splitSizes(c.op.attributes, c.in[0].shape()[axis], static_cast<int64_t>(c.out.size()));
  movePieces<false>(c.out, sizes, c.in[0], axis);
}

void fill(const Context &c) {
  const TensorData &value = c.op.attributes.getAttribute<TensorData>("value");
  const int64_t bytes = value.nbytes();
  for (int64_t i = 0; i < c.out[0].size(); ++i) std::memcpy(c.out[0].as<char>() + i * bytes, value.data(), bytes);
}

void constant(const Context &c) {
  const TensorData &value = c.op.attributes.getAttribute<TensorData>("value");
  if (value.nbytes() > 0) std::memcpy(c.out[0].data, value.data(), value.nbytes());
}

void range(const Context &c) {
  dispatchNumeric(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    auto scalar = [&c](const char *name) {
      return static_cast<V>(*static_cast<const T *>(c.op.attributes.getAttribute<TensorData>(name).data()));
    };
    const V start = scalar("start"), delta = scalar("delta");
    for (int64_t i = 0; i < c.out[0].size(); ++i)
      c.out[0].as<T>()[i] = toElement<T>(add(start, multiply(static_cast<V>(i), delta)));
  });
}

void shape(const Context &c) {
  const int64_t rank = c.in[0].info.rank(), start = c.op.attrInt("start");
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  for (int64_t i = 0; i < c.out[0].size(); ++i) c.out[0].as<int64_t>()[i] = c.in[0].shape()[first + i];
}

void size(const Context &c) { *c.out[0].as<int64_t>() = c.in[0].size(); }

constexpr Entry kShapeKernels[] = {
    {"Reshape", copy},
    {"Squeeze", copy},
    {"Unsqueeze", copy},
    {"Identity", copy},
    {"IdentityGrad", copy},
    {"Detach", copy},
    {"Nop", copy},
    {"BitCast", copy},
    {"Transpose", transpose},
    {"Slice", slice},
    {"SliceUpdate", sliceUpdate},
    {"Subsample", subsample},
    {"Reverse", reverse},
    {"Expand", expand},
    {"Tile", tile},
    {"Pad", pad},
    {"Concat", concat},
    {"Split", split},
    {"ConstantOfShape", fill},
    {"Constant", constant},
    {"Range", range},
    {"Shape", shape},
    {"Size", size},
};

}  // namespace

std::span<const Entry> shapeKernels() { return kShapeKernels; }

}  // namespace popart::ref
