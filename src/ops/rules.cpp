// Shared shape rules (see rules.hpp).
#include "ops/rules.hpp"

#include <algorithm>

#include <popart/error.hpp>
#include <popart/op.hpp>

namespace popart::ops {

Shape broadcastShape(const InferContext &c, int first, int count) {
  Shape shape = c.shape(first);
  for (int i = first + 1; i < count; ++i) {
    if (!c.hasIn(i)) continue;
    c.require(
        npBroadcastable(shape, c.shape(i)),
        "input shapes do not broadcast: got {} and {}, expected equal dimensions or 1. Reshape or expand one of them",
        shape, c.shape(i));
    shape = npOut(shape, c.shape(i));
  }
  return shape;
}

void inferBroadcast(InferContext &c) {
  const Shape shape = broadcastShape(c, 0, c.inputCount());
  if (c.op().def().isInplaceVariant()) {
    const int input = c.op().def().aliasRules().front().input;
    c.require(shape == c.shape(input), "the result does not fit the tensor that is overwritten: got {}, expected {}",
              shape, c.shape(input));
  }
  c.out(0, c.type(0), shape);
}
void inferBroadcastBool(InferContext &c) { c.out(0, DataType::BOOL, broadcastShape(c, 0, c.inputCount())); }
void inferLikeBool(InferContext &c) { c.out(0, DataType::BOOL, c.shape(0)); }

void requireLog2Scale(const InferContext &c, int input) {
  c.require(c.type(input) == DataType::INT32 && c.in(input).nelms() == 1,
            "the log2 scale must be an INT32 scalar: got {}", c.in(input));
}

DataType typeOfAttribute(const InferContext &c, std::string_view name) {
  const int64_t number = c.attrInt(name);
  c.require(number >= 0 && number < 1000, "attribute '{}': there is no element type with ONNX number {}", name, number);
  try {
    return fromOnnxDataType(static_cast<int>(number));
  } catch (const error &e) {
    c.fail("attribute '{}': {}", name, e.what());
  }
}

std::vector<int64_t> reductionAxes(const Attributes &attributes, int64_t rank) {
  std::vector<int64_t> axes;
  if (!attributes.hasAttribute("axes")) {
    if (attributes.getAttribute<int64_t>("noop_with_empty_axes", 0) != 0) return axes;
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t axis : attributes.getAttribute<std::vector<int64_t>>("axes"))
    axes.push_back(normalizeAxis(axis, rank, "axes"));
  std::sort(axes.begin(), axes.end());
  check(std::adjacent_find(axes.begin(), axes.end()) == axes.end(),
        "axes: an axis is repeated: got {}, expected each axis once", axes);
  return axes;
}

std::vector<int64_t> reductionAxes(const InferContext &c) {
  try {
    return reductionAxes(c.attrs(), c.in(0).rank());
  } catch (const error &e) {
    c.fail("{}", e.what());
  }
}

Shape reducedShape(const Shape &shape, const std::vector<int64_t> &axes, bool keepDims) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (!reduced)
      out.push_back(shape[i]);
    else if (keepDims)
      out.push_back(1);
  }
  return out;
}

std::vector<int64_t> splitSizes(const Attributes &attributes, int64_t size, int64_t count) {
  if (attributes.hasAttribute("split")) return attributes.getAttribute<std::vector<int64_t>>("split");
  std::vector<int64_t> sizes;
  const int64_t part = (size + count - 1) / std::max<int64_t>(count, 1);
  for (int64_t left = size, i = 0; i < count; ++i, left -= part)
    sizes.push_back(std::max<int64_t>(0, std::min(part, left)));
  return sizes;
}

int64_t axisOf(const Attributes &attributes, int64_t rank) {
  return normalizeAxis(attributes.getAttribute<int64_t>("axis"), rank, "axis");
}

CostFn perElement(double n) {
  return [n](const Op &, Cost &cost) { cost.flops *= n; };
}
CostFn movesData() {
  return [](const Op &, Cost &cost) { cost = {0, std::min(cost.bytesRead, cost.bytesWritten), cost.bytesWritten}; };
}

double productFlops(int64_t results, int64_t terms) {
  return 2 * static_cast<double>(results) * static_cast<double>(terms);
}
double bodyFlops(const Op &op) {
  double flops = 0;
  for (const Graph *body : op.getCalledGraphs()) flops += costOf(*body).flops;
  return flops;
}

bool always(const Op &) { return true; }
bool hasOneInput(const Op &op) {
  return std::count_if(op.inputs().begin(), op.inputs().end(), [](TensorIndex t) { return t.valid(); }) == 1;
}

std::vector<TensorIndex> reshapeBack(OpEmitter &e, const std::vector<TensorIndex> &inputs, TensorIndex written) {
  return {emitReshape(e, written, e.info(inputs[0]).shape())};
}

TensorIndex emitZeros(OpEmitter &e, DataType type, const Shape &shape) {
  TensorIndex zero = e.scalar(type, 0);
  return shape.empty() ? zero : e.emit("Expand", {zero}, {{"shape", shape}});
}

TensorIndex emitReshape(OpEmitter &e, TensorIndex t, const Shape &shape) {
  if (e.info(t).shape() == shape) return t;
  return e.emit("Reshape", {t}, {{"shape", shape}, {"allowzero", int64_t{1}}});
}

TensorIndex emitCast(OpEmitter &e, TensorIndex t, DataType type) {
  return e.info(t).dataType() == type ? t : e.emit("Cast", {t}, {{"to", int64_t{toOnnxDataType(type)}}});
}

TensorIndex emitReduceSumTo(OpEmitter &e, TensorIndex t, const Shape &shape) {
  return e.info(t).shape() == shape ? t : e.emit("ReduceSumTo", {t}, {{"shape", shape}});
}

}  // namespace popart::ops
