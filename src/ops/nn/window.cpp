// See window.hpp. Sizes follow ONNX: floor((d + pads - extent) / stride) + 1, or the ceiling with ceil_mode.
#include "ops/nn/window.hpp"

#include <algorithm>
#include <optional>

#include <popart/op.hpp>

#include "ops/forward_op.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

// Limit of kernels, strides, dilations and pads: products of two of them and sums with a dimension stay far below 2^63.
constexpr int64_t kLargest = int64_t{1} << 31;
constexpr int64_t kMostTaps = int64_t{1} << 28;

// `perDimension` values for each of `rank` spatial dimensions.
Ints intsOr(const InferContext &c, const char *name, const Ints &fallback, size_t rank, size_t perDimension = 1) {
  if (!c.hasAttr(name) || c.attrInts(name).empty()) return fallback;
  const Ints &given = c.attrInts(name);
  c.require(given.size() == rank * perDimension,
            "{} has the wrong number of entries: got {} in {}, expected {}: {} for each of {} spatial dimensions", name,
            given.size(), given, rank * perDimension, perDimension, rank);
  return given;
}

// Pads for SAME_UPPER and SAME_LOWER: the output has ceil(d / stride) elements; an odd element goes to the named side.
void resolveSame(Window &w, const Shape &input, bool upper) {
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t out = (input[i] + w.strides[i] - 1) / w.strides[i];
    const int64_t total = std::max<int64_t>((out - 1) * w.strides[i] + w.extent(i) - input[i], 0);
    w.padsLow[i] = upper ? total / 2 : total - total / 2;
    w.padsHigh[i] = total - w.padsLow[i];
  }
}

}  // namespace

std::vector<int64_t> Window::pads() const {
  Ints all = padsLow;
  all.insert(all.end(), padsHigh.begin(), padsHigh.end());
  return all;
}

Window windowOf(const Attributes &attributes) {
  Window w;
  w.kernel = attributes.getAttribute<Ints>("kernel_shape");
  w.strides = attributes.getAttribute<Ints>("strides");
  w.dilations = attributes.getAttribute<Ints>("dilations");
  const Ints &pads = attributes.getAttribute<Ints>("pads");
  w.padsLow.assign(pads.begin(), pads.begin() + static_cast<int64_t>(pads.size() / 2));
  w.padsHigh.assign(pads.begin() + static_cast<int64_t>(pads.size() / 2), pads.end());
  return w;
}

Window completeWindow(InferContext &c, const Shape &input, const std::vector<int64_t> &kernel) {
  const size_t rank = input.size();
  c.require(rank >= 1, "needs at least one spatial dimension: the input has none");
  Window w;
  w.kernel = intsOr(c, "kernel_shape", kernel.empty() ? Ints(rank, 1) : kernel, rank);
  c.require(w.kernel.size() == rank, "the kernel needs one size per spatial dimension: got {}, expected {} sizes",
            w.kernel, rank);
  w.strides = intsOr(c, "strides", Ints(rank, 1), rank);
  w.dilations = intsOr(c, "dilations", Ints(rank, 1), rank);
  const Ints pads = intsOr(c, "pads", Ints(2 * rank, 0), rank, 2);
  w.padsLow.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  w.padsHigh.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  auto all = [](const Ints &v, int64_t least) {
    return std::all_of(v.begin(), v.end(), [&](int64_t x) { return x >= least; });
  };
  for (const Ints *given : std::initializer_list<const Ints *>{&w.kernel, &w.strides, &w.dilations, &pads})
    for (int64_t v : *given)
      c.require(v <= kLargest, "a window attribute is too large: got {}, expected numbers up to {}", *given, kLargest);
  c.require(all(w.kernel, 1), "kernel sizes must be at least 1: got {}", w.kernel);
  int64_t taps = 1;
  for (int64_t k : w.kernel) {
    c.require(taps <= kMostTaps / k, "the kernel is too large: got {}, expected at most {} elements", w.kernel,
              kMostTaps);
    taps *= k;
  }
  c.require(all(w.strides, 1), "strides must be at least 1: got {}", w.strides);
  c.require(all(w.dilations, 1), "dilations must be at least 1: got {}", w.dilations);
  c.require(all(pads, 0), "pads must not be negative: got {}. Slice the input instead", pads);
  const std::string &autoPad = c.attrString("auto_pad");
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER") {
    resolveSame(w, input, autoPad == "SAME_UPPER");
  } else if (autoPad == "VALID") {
    w.padsLow.assign(rank, 0), w.padsHigh.assign(rank, 0);
  } else {
    c.require(autoPad == "NOTSET" || autoPad.empty(),
              "unknown auto_pad: got '{}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", autoPad);
  }
  Attributes &attributes = c.op().mutableAttributes();
  attributes.set("kernel_shape", w.kernel);
  attributes.set("strides", w.strides);
  attributes.set("dilations", w.dilations);
  attributes.set("pads", w.pads());
  attributes.set("auto_pad", std::string("NOTSET"));
  return w;
}

Shape windowOutput(const InferContext &c, const Window &w, const Shape &input, Rounding rounding) {
  Shape out(w.rank());
  std::optional<size_t> tooSmall;
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t room = input[i] + w.padsLow[i] + w.padsHigh[i] - w.extent(i);
    if (room < 0 && !tooSmall) tooSmall = i;
    const int64_t steps = rounding == Rounding::Ceil && room >= 0 ? room + w.strides[i] - 1 : room;
    out[i] = (steps >= 0 ? steps / w.strides[i] : -((-steps + w.strides[i] - 1) / w.strides[i])) + 1;
    if (rounding == Rounding::Ceil && room >= 0 && (out[i] - 1) * w.strides[i] >= input[i] + w.padsLow[i]) --out[i];
  }
  if (tooSmall)
    c.require(false,
              "the kernel does not fit into spatial dimension {}: got a padded size of {}, expected at least {}; the "
              "result would have the spatial shape {}",
              *tooSmall, input[*tooSmall] + w.padsLow[*tooSmall] + w.padsHigh[*tooSmall], w.extent(*tooSmall), out);
  return out;
}

void requireConvGradient(InferContext &c, const TensorInfo &x, const TensorInfo &w) {
  const ForwardOp conv(c, "Conv", {x, w});
  const Shape &y = conv.output(0).shape(), &g = c.shape(0);
  bool fits = c.type(0) == conv.output(0).dataType() && g.size() == y.size() && g[0] == y[0] && g[1] == y[1];
  for (size_t i = 2; fits && i < g.size(); ++i) fits = g[i] <= y[i];
  c.require(fits, "the gradient is not what Conv of {} and {} gives: got {}, expected {} or the beginning of it", x, w,
            c.in(0), conv.output(0));
}

double convFlops(const TensorInfo &output, const Shape &weights) {
  return productFlops(output.nelms(), elementCount(Shape(weights.begin() + 1, weights.end())));
}

Shape spatialShape(const Shape &shape) { return shape.size() <= 2 ? Shape{} : Shape(shape.begin() + 2, shape.end()); }

OpDef &windowAttributes(OpDef &row) {
  return row.attrOptional("strides", AttributeType::Ints)
      .attrOptional("pads", AttributeType::Ints)
      .attrOptional("dilations", AttributeType::Ints)
      .attr("auto_pad", std::string("NOTSET"));
}

Attributes windowAttributesOf(const Attributes &attributes) {
  Attributes out;
  for (const char *name : {"kernel_shape", "strides", "pads", "dilations"}) out.set(name, *attributes.find(name));
  return out;
}

}  // namespace popart::ops
