// Shape operators and reductions: shapes given as inputs, defaults that depend on the input.
#include <algorithm>

#include <popart/error.hpp>

#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

// Reshape-5/13/14: 0 copies a dimension (unless allowzero), -1 is worked out; the IR's shape has neither.
void importReshape(NodeContext &n) {
  const Shape &in = n.info(0).shape();
  Shape shape = n.hasIn(1) ? n.constantInts(1) : n.attr<std::vector<int64_t>>("shape", {});
  const bool zeroMeansZero = n.attr<int64_t>("allowzero", 0) != 0;
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zeroMeansZero) {
      n.require(i < in.size(), "shape copies dimension {} that the input does not have: got {} for {}",
                static_cast<int>(i), shape, n.info(0));
      shape[i] = in[i];
    }
    n.require(shape[i] >= -1, "shape holds a negative dimension: got {}", shape);
    n.require(shape[i] != -1 || unknown < 0, "shape holds more than one -1: got {}", shape);
    if (shape[i] == -1)
      unknown = static_cast<int>(i);
    else
      n.require(shape[i] == 0 || known <= (int64_t{1} << 62) / shape[i], "shape is too large: got {}", shape);
    if (shape[i] != -1) known *= shape[i];
  }
  const int64_t total = n.info(0).nelms();
  if (unknown >= 0) {
    n.require(known != 0 && total % known == 0, "cannot work out -1 of shape {} for input {}", shape, n.info(0));
    shape[unknown] = total / known;
  }
  n.require(elementCount(shape) == total, "number of elements changes: got shape {} for input {}", shape, n.info(0));
  Attributes attributes = {{"shape", shape}};
  if (total == 0) attributes.set("allowzero", int64_t{1});
  n.result(0, "Reshape", {n.in(0)}, attributes);
}

void importFlatten(NodeContext &n) {
  const Shape &in = n.info(0).shape();
  const auto rank = static_cast<int64_t>(in.size());
  const int64_t given = n.attr<int64_t>("axis", 1);
  n.require(given >= -rank && given <= rank, "attribute axis is out of range: got {} for {}", given, n.info(0));
  const int64_t axis = given < 0 ? given + rank : given;
  const int64_t rows = elementCount(Shape(in.begin(), in.begin() + axis));
  Attributes attributes = {{"shape", Shape{rows, elementCount(Shape(in.begin() + axis, in.end()))}}};
  if (n.info(0).nelms() == 0) attributes.set("allowzero", int64_t{1});
  n.result(0, "Reshape", {n.in(0)}, attributes);
}

void importSplit(NodeContext &n) {
  const int64_t axis = normalizeAxis(n.attr<int64_t>("axis", 0), n.info(0).rank(), "Split axis");
  const int64_t size = n.info(0).shape()[axis];
  std::vector<int64_t> split = n.hasIn(1) ? n.constantInts(1) : n.attr<std::vector<int64_t>>("split", {});
  if (split.empty()) {
    const int64_t parts = n.attr<int64_t>("num_outputs", n.outputCount());
    n.require(parts > 0 && parts <= std::max<int64_t>(size, 1) && parts >= n.outputCount(),
              "cannot split dimension of size {} into {} parts for {} outputs", size, parts, n.outputCount());
    const int64_t chunk = n.hasAttr("num_outputs") ? (size + parts - 1) / parts : size / parts;
    n.require(n.hasAttr("num_outputs") || size % parts == 0, "dimension of size {} does not split into {} equal parts",
              size, parts);
    n.importer().takeFromBudget(TensorInfo(DataType::INT64, {parts}).nbytes(), "A split into so many parts");
    split.assign(parts, chunk);
    split.back() = size - chunk * (parts - 1);
    n.require(split.back() >= 0, "cannot split dimension of size {} into {} parts", size, parts);
  }
  n.require(static_cast<int>(split.size()) >= n.outputCount(), "has more outputs than parts: got {} for {}",
            n.outputCount(), split);
  n.results("Split", {n.in(0)}, {{"axis", axis}, {"split", split}});
}

void importReduce(NodeContext &n) {
  std::vector<int64_t> axes = n.hasIn(1) ? n.constantInts(1) : n.attr<std::vector<int64_t>>("axes", {});
  Attributes attributes = {{"keepdims", n.attr<int64_t>("keepdims", 1)}};
  // Over no axes nothing is summed, but |x|, x² or log x are still taken (ONNX ReduceSumSquare-18). An empty
  // attribute means that in PopART, in newer models all axes, as in ONNX Runtime.
  const bool saysNone = n.hasAttr("axes") && followsPopart(n);
  const bool overNone = axes.empty() && (saysNone || n.attr<int64_t>("noop_with_empty_axes", 0) != 0);
  if (overNone || !axes.empty()) attributes.set("axes", axes);
  n.result(0, n.type(), {n.in(0)}, attributes);
}

// Unsqueeze, Squeeze and Expand with nothing to do keep their op: names stay and a copy costs nothing as a view.
void importExpand(NodeContext &n) {
  n.result(0, "Expand", {n.in(0)}, {{"shape", npOut(n.info(0).shape(), n.constantInts(1), "Expand")}});
}

// OneHot-9/11: indices and depth may be floating-point numbers that hold integers.
void importOneHot(NodeContext &n) {
  n.require(n.constant(1).info().nelms() == 1, "depth must be one number: got {}", n.constant(1).info());
  const double depth = n.constantNumber(1);
  n.require(depth >= 0 && depth < 9007199254740992.0, "depth must be a size: got {}", depth);
  TensorIndex indices = n.in(0);
  if (isFloatingPoint(n.info(0).dataType()))
    indices = n.emit("Cast", {indices}, {{"to", int64_t{toOnnxDataType(DataType::INT64)}}});
  n.result(0, "OneHot", {indices, n.in(2)},
           {{"depth", static_cast<int64_t>(depth)}, {"axis", n.attr<int64_t>("axis", -1)}});
}

void importPad(NodeContext &n) {
  if (n.opset() < 11 || !n.hasIn(2)) return importRegular(n);
  // An absent or constant fill value only: the IR keeps it as a number.
  n.require(n.constant(2).info().nelms() == 1, "fill value must be one number: got {}", n.constant(2).info());
  importRegular(n);
}

}  // namespace

std::vector<ImportRule> shapeRules() {
  std::vector<ImportRule> rules = {{"ai.onnx", "Reshape", importReshape}, {"ai.graphcore", "Reshape", importReshape},
                                   {"ai.onnx", "Flatten", importFlatten}, {"ai.onnx", "Split", importSplit},
                                   {"ai.onnx", "Expand", importExpand},   {"ai.onnx", "Pad", importPad},
                                   {"ai.onnx", "OneHot", importOneHot}};
  for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    rules.push_back({"ai.onnx", type, importReduce});
  return rules;
}

}  // namespace popart::onnx
