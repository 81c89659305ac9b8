// Shape operators and reductions: shapes as inputs, defaults that depend on the input.
#include <algorithm>
#include <limits>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "ops/shape/pad_index.hpp"

namespace popart::onnx {
namespace {

// The sizes of the result; -1 for a size to compute, and copied sizes for 0.
Sizes wantedShape(const NodeContext &n) {
  const Sizes in = n.shapeOf(0);
  Sizes wanted;
  if (n.hasIn(1))
    wanted = n.sizesIn(1);
  else
    for (const int64_t size : n.attr<std::vector<int64_t>>("shape", {})) wanted.push_back({size});
  const bool zeroMeansZero = n.attr<int64_t>("allowzero", 0) != 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].most != 0 || !wanted[i].isKnown() || zeroMeansZero) continue;
    n.require(i < in.size(), "shape copies dimension {} that the input does not have: got {} for {}",
              static_cast<int>(i), mostOf(wanted), n.info(0));
    wanted[i] = in[i];
  }
  return wanted;
}

// Sizes that depend on data must match the result of the view; -1 matches any size.
void checkOpenSizes(const NodeContext &n, const Sizes &wanted, TensorIndex result) {
  const Sizes given = n.importer().sizes().shapeOf(n.graph(), result);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool isAny = wanted[i].isKnown() && wanted[i].most == -1;
    if (isAny || given[i].sameAs(wanted[i])) continue;
    throw unknown_value(
        "dimension {} of the shape {} of '{}' must be known when the graph is built: how the elements of {} are "
        "arranged in it depends on data of the run",
        static_cast<int64_t>(i), mostOf(wanted), n.firstOutput(), n.info(0));
  }
}

// Reshape-5/13/14: 0 copies a dimension (unless allowzero), -1 is computed; the IR's shape has neither.
void importReshape(NodeContext &n) {
  const Sizes wanted = wantedShape(n);
  Shape shape = mostOf(wanted);
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
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
  if (n.hasOut(0)) checkOpenSizes(n, wanted, n.scope().tensors.at(n.outputNames()[0]));
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
  // Without axes nothing is summed, but |x|, x² or log x is still computed (ONNX ReduceSumSquare-18). An empty
  // attribute means no axes in PopART, and all axes in newer models, as in ONNX Runtime.
  const bool saysNone = n.hasAttr("axes") && followsPopart(n);
  const bool overNone = axes.empty() && (saysNone || n.attr<int64_t>("noop_with_empty_axes", 0) != 0);
  if (overNone || !axes.empty()) attributes.set("axes", axes);
  n.result(0, n.type(), {n.in(0)}, attributes);
}

// The broadcast shape of two shapes, including sizes that depend on data.
Sizes broadcastSizes(const NodeContext &n, const Sizes &a, const Sizes &b) {
  Sizes all = a.size() > b.size() ? a : b;
  const Sizes &shorter = a.size() > b.size() ? b : a;
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Size &size = shorter[shorter.size() - 1 - i];
    Size &result = all[all.size() - 1 - i];
    const auto isOne = [](const Size &s) { return s.isKnown() && s.most == 1; };
    if (isOne(size) || size.sameAs(result)) continue;
    if (!isOne(result))
      throw unknown_value(
          "'{}' and the shape {} must be known when the graph is built, or have sizes that are 1 or the same: some of "
          "them depend on data of the run",
          n.info(0), mostOf(b));
    result = size;
  }
  return all;
}

// Unsqueeze, Squeeze and Expand with nothing to do keep their op: names stay and a copy costs nothing as a view.
void importExpand(NodeContext &n) {
  const Sizes in = n.shapeOf(0), given = n.sizesIn(1);
  const bool isKnown = std::ranges::all_of(in, &Size::isKnown) && std::ranges::all_of(given, &Size::isKnown);
  if (isKnown) return n.result(0, "Expand", {n.in(0)}, {{"shape", npOut(n.info(0).shape(), mostOf(given), "Expand")}});
  const Sizes shape = broadcastSizes(n, in, given);
  const PlainOps to = n.plainOps();
  n.result(0, "Expand", {n.importer().sizes().plain(to, n.in(0))}, {{"shape", mostOf(shape)}});
  n.boundOutput(0, boundsIn(shape));
}

// ---- parts of an axis whose ends or size depend on data

TensorIndex lengthOf(const PlainOps &to, const Size &size) {
  return size.isKnown() ? to.integer(size.most) : BoundedSizes::length(to, {size.count, 0, size.per});
}

struct SliceBorders {
  Size start, end;
  int64_t step = 1;
};

// A border counted from 0: negative ones count from the end, and none exceeds the end.
TensorIndex borderOf(const PlainOps &to, const Size &border, TensorIndex length) {
  const TensorIndex zero = to.integer(0);
  TensorIndex at = lengthOf(to, border);
  if (!border.isKnown())
    at = to.op("Where", {to.op("Less", {at, zero}), to.op("Add", {at, length}), at});
  else if (border.most < 0)
    at = to.op("Add", {at, length});
  return to.op("Min", {to.op("Max", {at, zero}), length});
}

// x[start:end:step] along `axis` if the size or a border depends on data: positions are gathered.
TensorIndex openSlice(NodeContext &n, TensorIndex x, int64_t axis, const SliceBorders &borders) {
  BoundedSizes &sizes = n.importer().sizes();
  const Size size = sizes.shapeOf(n.graph(), x)[static_cast<size_t>(axis)];
  if (borders.step < 1)
    throw unknown_value("steps must be 1 or more along dimension {}, or its size must be known when the graph is built",
                        axis);
  Bounds bounds = sizes.boundsOf(n.graph(), x);
  std::erase_if(bounds, [&](const Bound &b) { return b.axis == axis; });
  const PlainOps to = n.plainOps();
  const TensorIndex length = lengthOf(to, size), start = borderOf(to, borders.start, length),
                    end = borderOf(to, borders.end, length), step = to.integer(borders.step);
  // The earliest start and the latest end determine how much room the result needs.
  const bool startsAt = borders.start.isKnown() && borders.start.most >= 0;
  const int64_t first = startsAt ? std::min(borders.start.most, size.most) : 0;
  const bool endsAt = borders.end.isKnown() ? borders.end.most >= 0 : true;
  const int64_t last = endsAt ? std::clamp<int64_t>(borders.end.most, 0, size.most) : size.most;
  const int64_t most = last > first ? (last - first - 1) / borders.step + 1 : 0;
  const TensorIndex rest = to.op("Add", {to.op("Sub", {end, start}), to.integer(borders.step - 1)});
  const TensorIndex count = to.op("Div", {to.op("Max", {rest, to.integer(0)}), step});
  TensorIndex y = sizes.plain(to, x);
  if (startsAt && borders.step == 1) {
    y = to.slice(y, axis, first, first + most);
  } else {
    const TensorIndex places = to.op("Add", {start, to.op("Mul", {to.upTo(most), step})});
    const TensorIndex within = to.op("Where", {BoundedSizes::isValue(to, {count}, most), places, to.integer(0)});
    y = to.op("Gather", {y, within}, {{"axis", axis}});
  }
  bounds.push_back({count, axis});
  return sizes.rebound(to, y, bounds);
}

// The numbers of input `i` in the run: any integers, including the largest one.
Sizes numbersOfRun(const NodeContext &n, int i) {
  const Sizes shape = n.shapeOf(i);
  if (shape.size() != 1 || !shape[0].isKnown()) return n.sizesIn(i);  // which reports the problem
  const PlainOps to = n.plainOps();
  TensorIndex list = n.in(i);
  if (n.info(i).dataType() != DataType::INT64)
    list = to.op("Cast", {list}, {{"to", int64_t{toOnnxDataType(DataType::INT64)}}});
  Sizes numbers;
  for (int64_t k = 0; k < shape[0].most; ++k)
    numbers.push_back({std::numeric_limits<int64_t>::max(), to.reshape(to.slice(list, 0, k, k + 1), {})});
  return numbers;
}

// Slice-1, -10, -11, -13. If starts or ends are numbers of the run, the bound of the result is the size of the axis. In
// a body they stay unknown, so a loop over known positions is unrolled and its slices have known sizes.
void importSlice(NodeContext &n) {
  const auto listed = [&](int i, const char *name) {
    const bool mayBeOfRun = (i == 1 || i == 2) && &n.graph() == &n.importer().ir().getMainGraph();
    if (n.hasIn(i) && mayBeOfRun && !n.isConstant(n.in(i)) && !n.importer().sizes().sizesIn(n.graph(), n.in(i)))
      return numbersOfRun(n, i);
    if (n.hasIn(i)) return n.sizesIn(i);
    Sizes known;
    for (const int64_t value : n.attr<std::vector<int64_t>>(name, {})) known.push_back({value});
    return known;
  };
  const Sizes starts = listed(1, "starts"), ends = listed(2, "ends"), steps = listed(4, "steps");
  const Sizes in = n.shapeOf(0);
  const auto isKnown = [](const Sizes &s) { return std::ranges::all_of(s, &Size::isKnown); };
  if (isKnown(starts) && isKnown(ends) && isKnown(in)) return importRegular(n);
  std::vector<int64_t> axes = mostOf(listed(3, "axes"));
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  n.require(
      starts.size() == ends.size() && starts.size() == axes.size() && (steps.empty() || steps.size() == starts.size()),
      "starts, ends, axes and steps must have one length: got {}, {}, {} and {}", static_cast<int64_t>(starts.size()),
      static_cast<int64_t>(ends.size()), static_cast<int64_t>(axes.size()), static_cast<int64_t>(steps.size()));
  TensorIndex x = n.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axisOf(axes[i], n.info(x).rank()), step = steps.empty() ? 1 : steps[i].most;
    if (starts[i].isKnown() && ends[i].isKnown() && in[static_cast<size_t>(axis)].isKnown()) {
      using Ints = std::vector<int64_t>;
      x = n.emit("Slice", {x},
                 {{"starts", Ints{starts[i].most}},
                  {"ends", Ints{ends[i].most}},
                  {"axes", Ints{axis}},
                  {"steps", Ints{step}}});
    } else {
      x = openSlice(n, x, axis, {starts[i], ends[i], step});
    }
  }
  n.resultTensor(0, x);
}

// TopK-1, -10, -11, -24.
void importTopK(NodeContext &n) {
  if (!n.hasIn(1)) return importRegular(n);
  const Sizes k = n.sizesIn(1);
  n.require(k.size() == 1, "k must be one number: got {}", n.info(1));
  if (k[0].isKnown()) return importRegular(n);
  const int64_t axis = n.axisOf(n.attr<int64_t>("axis", -1), n.info(0).rank());
  Attributes attributes = n.attributes();
  attributes.set("k", std::min(k[0].most, n.info(0).shape()[static_cast<size_t>(axis)]));
  if (followsPopart(n)) attributes.set("index_type", int64_t{toOnnxDataType(DataType::INT32)});
  n.results("TopK", {n.in(0)}, attributes);
  for (int i = 0; i < n.outputCount(); ++i) {
    if (!n.hasOut(i)) continue;
    Bounds bounds = n.importer().sizes().boundsOf(n.graph(), n.scope().tensors.at(n.outputNames()[i]));
    std::erase_if(bounds, [&](const Bound &b) { return b.axis == axis; });
    bounds.push_back({k[0].count, axis, k[0].per});
    n.boundOutput(i, bounds);
  }
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

// The IR stores a constant fill value as a number. Another one, such as a parameter, is written into the padding.
void importPad(NodeContext &n) {
  if (n.opset() < 11 || !n.hasIn(2)) return importRegular(n);
  n.require(n.info(2).nelms() == 1, "fill value must be one number: got {}", n.info(2));
  if (n.isConstant(n.in(2)) || !isFloatingPoint(n.info(2).dataType())) return importRegular(n);
  Attributes attributes{{"pads", n.constantInts(1)}, {"mode", n.attr<std::string>("mode", "constant")}};
  if (n.hasIn(3)) attributes.set("axes", n.constantInts(3));
  if (attributes.getAttribute<std::string>("mode") != "constant") return n.result(0, "Pad", {n.in(0)}, attributes);
  Composer to(n);
  const Value x = to.input(0);
  const Attributes zeros{{"pads", ops::fullPads(attributes, x.rank())}};
  Attributes ones = zeros;
  ones.set("value", 1.0f);
  const Value isPadding = to.zeros(DataType::FLOAT, x.shape()).op("Pad", {}, ones).cast(DataType::BOOL);
  to.result(0, where(isPadding, to.input(2).reshape({}), x.op("Pad", {}, zeros)));
}

}  // namespace

std::vector<ImportRule> shapeRules() {
  std::vector<ImportRule> rules = {{"ai.onnx", "Reshape", importReshape}, {"ai.graphcore", "Reshape", importReshape},
                                   {"ai.onnx", "Flatten", importFlatten}, {"ai.onnx", "Split", importSplit},
                                   {"ai.onnx", "Expand", importExpand},   {"ai.onnx", "Pad", importPad},
                                   {"ai.onnx", "OneHot", importOneHot},   {"ai.onnx", "Slice", importSlice},
                                   {"ai.onnx", "TopK", importTopK}};
  for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    rules.push_back({"ai.onnx", type, importReduce});
  return rules;
}

}  // namespace popart::onnx
