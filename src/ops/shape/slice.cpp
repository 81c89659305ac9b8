// Slice, Subsample and Reverse: regular selections along axes; SliceGrad, which writes a gradient into zeros; and
// SliceUpdate, which replaces a slice of a tensor.
#include "ops/operand_layouts.hpp"
#include "ops/shape/slice_range.hpp"

#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

// With one element or none the step has no meaning, and may be too large to compute with.
SliceRange rangeOf(int64_t start, int64_t step, int64_t count) { return {start, count > 1 ? step : 1, count}; }

SliceRange clampedRange(int64_t start, int64_t end, int64_t step, int64_t size) {
  start = start < 0 ? start + size : start;
  end = end < 0 ? end + size : end;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, 0, size);
    return rangeOf(start, step, end > start ? (end - start - 1) / step + 1 : 0);
  }
  start = std::clamp<int64_t>(start, -1, size - 1);
  end = std::clamp<int64_t>(end, -1, size - 1);
  // -(step + 1) avoids negating the smallest integer.
  const uint64_t stride = static_cast<uint64_t>(-(step + 1)) + 1;
  return rangeOf(start, step,
                 start > end ? static_cast<int64_t>(static_cast<uint64_t>(start - end - 1) / stride) + 1 : 0);
}

void setShape(InferContext &c, const std::vector<SliceRange> &ranges) {
  Shape to;
  for (const SliceRange &r : ranges) to.push_back(r.size);
  c.out(0, c.type(0), to);
}

// A whole axis that is not reversed.
bool forwardPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Shape &whole = op.has(Trait::Gradient) ? op.outShape(0) : op.inShape(0);
  return sliceRanges(op.attributes(), whole)[static_cast<size_t>(axis)].step > 0 &&
         keptAxisPieces(op, cut, axis, pieces);
}

OpDef sliceRow() {
  return OpDef("ai.onnx", "Slice", {1, 10, 11, 13})
      .input("data", kStoredTypes)
      .output("output")
      .attrRequired("starts", AttributeType::Ints)
      .attrRequired("ends", AttributeType::Ints)
      .attrOptional("axes", AttributeType::Ints)
      .attrOptional("steps", AttributeType::Ints)
      .constInput(1, "starts", 10)
      .constInput(2, "ends", 10)
      .constInput(3, "axes", 10)
      .constInput(4, "steps", 10)
      .onnx("ai.graphcore", "Slice", {1})
      .precision(Precision::Follows)
      .infer([](InferContext &c) {
        try {
          setShape(c, sliceRanges(c.attrs(), c.shape(0)));
        } catch (const error &e) {
          c.fail("{}", e.what());
        }
      })
      .layouts(pieceOfChannels)
      .inplace("SliceInplace", 10)
      .view([](OpEmitter &e, const std::vector<TensorIndex> &inputs, TensorIndex written) {
        return std::vector{e.emit("SliceUpdate", {inputs[0], written}, e.attrs())};
      })
      .identityIf([](const Op &op) {
        const auto steps = op.attributes().getAttribute<Ints>("steps", {});
        return std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s > 0; });
      })
      .cost(movesData())
      .vjp([](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.set("fwd_shape", b.inInfo(0).shape());
        b.grad(0, b.emit("SliceGrad", {b.gradOut(0)}, attributes));
      })
      .pieces(forwardPieces)
      .doc("Elements start, start + step, … before end, along each given axis.");
}

// One axis of a gradient back to `size` elements: reversed for negative steps, spread over the step, padded with zeros.
TensorIndex emitSpread(OpEmitter &e, TensorIndex t, int64_t axis, SliceRange range, int64_t size) {
  if (range.step < 0) {
    t = e.emit("Reverse", {t}, {{"dimensions", Ints{axis}}});
    range.start += (range.size - 1) * range.step;
    range.step = -range.step;
  }
  const int64_t rank = e.info(t).rank();
  if (range.step > 1 && range.size > 1) {
    Shape spread = e.info(t).shape();
    spread.insert(spread.begin() + axis + 1, 1);
    t = emitReshape(e, t, spread);
    Ints pads(2 * (rank + 1), 0);
    pads[rank + 1 + axis + 1] = range.step - 1;
    t = e.emit("Pad", {t}, {{"pads", pads}});
    spread.erase(spread.begin() + axis + 1);
    spread[axis] = range.size * range.step;
    t = emitReshape(e, t, spread);
  }
  const int64_t before = range.start, after = size - before - e.info(t).dim(static_cast<int>(axis));
  if (before == 0 && after == 0) return t;
  Ints pads(2 * rank, 0);
  pads[axis] = before;
  pads[rank + axis] = after;
  return e.emit("Pad", {t}, {{"pads", pads}});
}

void decomposeSpread(DecomposeBuilder &b, const std::vector<SliceRange> &ranges) {
  const Shape &shape = b.outInfo(0).shape();
  if (b.inInfo(0).nelms() == 0) return b.result(0, emitZeros(b, b.outInfo(0).dataType(), shape));
  TensorIndex t = b.in(0);
  for (size_t axis = 0; axis < ranges.size(); ++axis)
    t = emitSpread(b, t, static_cast<int64_t>(axis), ranges[axis], shape[axis]);
  b.result(0, t == b.in(0) ? b.emit("Identity", {t}) : t);
}

OpDef sliceGradientRow() {
  return OpDef("ai.graphcore", "SliceGrad", {1})
      .input("grad", kNumeric)
      .output("dx")
      .attrRequired("starts", AttributeType::Ints)
      .attrRequired("ends", AttributeType::Ints)
      .attrOptional("axes", AttributeType::Ints)
      .attrOptional("steps", AttributeType::Ints)
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([](InferContext &c) { inferGradientOf(c, "Slice", {forwardInfo(c)}); })
      .traits(Trait::Gradient)
      .notOnnx()
      .decompose([](DecomposeBuilder &b) { decomposeSpread(b, sliceRanges(b.attrs(), b.outInfo(0).shape())); })
      .pieces(forwardPieces)
      .doc("Gradient of Slice: zeros at elements that were not selected.");
}

// The whole tensor after a write to a slice of it. Made when in-place writes are converted to values.
OpDef sliceUpdateRow() {
  return OpDef("ai.graphcore", "SliceUpdate", {1})
      .input("whole", kStoredTypes, "T")
      .input("part", kStoredTypes, "T")
      .output("updated")
      .attrRequired("starts", AttributeType::Ints)
      .attrRequired("ends", AttributeType::Ints)
      .attrOptional("axes", AttributeType::Ints)
      .attrOptional("steps", AttributeType::Ints)
      .traits(Trait::Internal)
      .notOnnx()
      .infer([](InferContext &c) {
        Shape part;
        try {
          for (const SliceRange &r : sliceRanges(c.attrs(), c.shape(0))) part.push_back(r.size);
        } catch (const error &e) {
          c.fail("{}", e.what());
        }
        c.require(c.shape(1) == part, "part does not have the shape of the slice: got {}, expected {}", c.shape(1),
                  part);
        c.out(0, c.in(0));
      })
      .vjp([](VjpBuilder &b) {
        if (b.wants(1)) b.grad(1, b.emit("Slice", {b.gradOut(0)}, b.attrs()));
        if (!b.wants(0)) return;
        const TensorInfo &part = b.inInfo(1);
        b.grad(0, b.emit("SliceUpdate", {b.gradOut(0), emitZeros(b, part.dataType(), part.shape())}, b.attrs()));
      })
      .doc("whole with the elements that Slice of the same attributes selects replaced by those of part.");
}

void addSubsample(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "Subsample", {1})
                     .input("x", kStoredTypes)
                     .output("y")
                     .attrRequired("strides", AttributeType::Ints)
                     .precision(Precision::Follows)
                     .infer([](InferContext &c) {
                       const Ints &strides = c.attrInts("strides");
                       c.require(strides.size() <= c.shape(0).size(),
                                 "there are more strides than axes: got {} for input {}", strides, c.shape(0));
                       for (int64_t s : strides)
                         c.require(s > 0, "a stride is not positive: got {}, expected 1 or more", strides);
                       setShape(c, subsampleRanges(strides, c.shape(0)));
                     })
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("SubsampleGrad", {b.gradOut(0)},
                                        {{"strides", b.attrs().getAttribute<Ints>("strides")},
                                         {"fwd_shape", b.inInfo(0).shape()}}));
                     })
                     .decompose([](DecomposeBuilder &b) {
                       Ints starts, ends, steps;
                       const Shape &shape = b.inInfo(0).shape();
                       for (const SliceRange &r : subsampleRanges(b.attrs().getAttribute<Ints>("strides"), shape)) {
                         starts.push_back(0);
                         ends.push_back(r.size > 0 ? (r.size - 1) * r.step + 1 : 0);
                         steps.push_back(r.step);
                       }
                       b.result(0, b.emit("Slice", {b.in(0)}, {{"starts", starts}, {"ends", ends}, {"steps", steps}}));
                     })
                     .pieces(keptAxisPieces)
                     .doc("Every strides[i]-th element along axis i."));
  rows.push_back(OpDef("ai.graphcore", "SubsampleGrad", {1})
                     .input("grad", kNumeric)
                     .output("dx")
                     .attrRequired("strides", AttributeType::Ints)
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) { inferGradientOf(c, "Subsample", {forwardInfo(c)}); })
                     .traits(Trait::Gradient)
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) {
                       decomposeSpread(b,
                                       subsampleRanges(b.attrs().getAttribute<Ints>("strides"), b.outInfo(0).shape()));
                     })
                     .pieces(keptAxisPieces)
                     .doc("Gradient of Subsample: zeros at elements that were not selected."));
}

bool unreversedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Ints &reversed = op.attrInts("dimensions");
  return std::ranges::find(reversed, axis) == reversed.end() && keptAxisPieces(op, cut, axis, pieces);
}

void addReverse(OpDefs &rows) {
  auto infer = [](InferContext &c) {
    std::vector<bool> seen(c.shape(0).size(), false);
    for (int64_t d : c.attrInts("dimensions")) {
      c.require(d >= 0 && d < c.in(0).rank() && !seen[d],
                "dimensions are repeated or out of range: got {} for input {}", c.attrInts("dimensions"), c.shape(0));
      seen[d] = true;
    }
    c.out(0, c.in(0));
  };
  rows.push_back(OpDef("ai.graphcore", "Reverse", {1})
                     .input("x", kStoredTypes)
                     .output("y")
                     .attr("dimensions", Ints{})
                     .precision(Precision::Follows)
                     .infer(infer)
                     .vjp([](VjpBuilder &b) { b.grad(0, b.emit("ReverseGrad", {b.gradOut(0)}, b.attrs())); })
                     .pieces(unreversedPieces)
                     .doc("The elements in reverse order along the given dimensions."));
  rows.push_back(OpDef("ai.graphcore", "ReverseGrad", {1})
                     .input("grad", kNumeric)
                     .output("dx")
                     .attr("dimensions", Ints{})
                     .infer(infer)
                     .traits(Trait::Gradient)
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) { b.result(0, b.emit("Reverse", {b.in(0)}, b.attrs())); })
                     .pieces(unreversedPieces)
                     .doc("Gradient of Reverse."));
}

}  // namespace

std::vector<SliceRange> sliceRanges(const Attributes &attributes, const Shape &shape) {
  const Ints &starts = attributes.getAttribute<Ints>("starts"), &ends = attributes.getAttribute<Ints>("ends");
  const Ints axes = attributes.getAttribute<Ints>("axes", {}), steps = attributes.getAttribute<Ints>("steps", {});
  check(starts.size() == ends.size() && (axes.empty() || axes.size() == starts.size()) &&
            (steps.empty() || steps.size() == starts.size()),
        "starts, ends, axes and steps differ in length: got {}, {}, {} and {}, expected equal lengths", starts, ends,
        axes, steps);
  check(starts.size() <= shape.size(), "there are more starts than axes: got {} for shape {}", starts, shape);
  std::vector<SliceRange> ranges;
  for (int64_t d : shape) ranges.push_back({0, 1, d});
  std::vector<bool> seen(shape.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis =
        axes.empty() ? static_cast<int64_t>(i) : normalizeAxis(axes[i], static_cast<int64_t>(shape.size()), "axes");
    const int64_t step = steps.empty() ? 1 : steps[i];
    check(!seen[axis], "axes: an axis is repeated: got {}, expected each axis once", axes);
    check(step != 0, "steps: a step is 0: got {}, expected steps other than 0", steps);
    seen[axis] = true;
    ranges[axis] = clampedRange(starts[i], ends[i], step, shape[axis]);
  }
  return ranges;
}

std::optional<Attributes> sliceOfSlice(const Op &first, const Op &second) {
  for (const Op *op : {&first, &second})
    if (&op->def() != &opDef("Slice")) return std::nullopt;
  const Shape &shape = first.inShape(0);
  const std::vector<SliceRange> outer = sliceRanges(first.attributes(), shape),
                                inner = sliceRanges(second.attributes(), second.inShape(0));
  Ints axes, starts, ends, steps;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t size = inner[d].size, step = size > 1 ? outer[d].step * inner[d].step : 1;
    const int64_t start = size > 0 ? outer[d].start + inner[d].start * outer[d].step : 0;
    const int64_t end = size > 0 ? start + (size - 1) * step + (step > 0 ? 1 : -1) : 0;
    axes.push_back(static_cast<int64_t>(d));
    starts.push_back(start);
    ends.push_back(end < 0 ? -shape[d] - 1 : end);  // before the first; -1 is the last
    steps.push_back(step);
  }
  return Attributes{{"axes", axes}, {"ends", ends}, {"starts", starts}, {"steps", steps}};
}

std::optional<SliceRange> rangeOfLast(const Op &op) {
  if (&op.def() != &opDef("Slice") || op.inputCount() != 1 || op.inRank(0) == 0) return std::nullopt;
  const std::vector<SliceRange> ranges = sliceRanges(op.attributes(), op.inShape(0));
  for (size_t d = 0; d < ranges.size(); ++d) {
    const bool isWhole = ranges[d].start == 0 && ranges[d].size == op.inShape(0)[d];
    if (ranges[d].step != 1 || (d + 1 < ranges.size() && !isWhole)) return std::nullopt;
  }
  return ranges.back();
}

std::vector<SliceRange> subsampleRanges(const std::vector<int64_t> &strides, const Shape &shape) {
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t stride = i < strides.size() ? strides[i] : 1;
    ranges.push_back(rangeOf(0, stride, shape[i] > 0 ? (shape[i] - 1) / stride + 1 : 0));
  }
  return ranges;
}

OpDefs sliceOps() {
  OpDefs rows{sliceRow(), sliceGradientRow(), sliceUpdateRow()};
  addSubsample(rows);
  addReverse(rows);
  return rows;
}

}  // namespace popart::ops
