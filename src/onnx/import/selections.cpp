// Operators whose values determine the size of their result: Compress, NonZero, Unique and NonMaxSuppression. If the
// values are known when the graph is built, so are the sizes (docs/decisions/0053-static-sequences.md). If they are
// data of the run, the sizes have a bound and a count (docs/decisions/0057-sizes-from-data.md).
#include <algorithm>
#include <cmath>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/bounded_sizes.hpp"
#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Rows selected by a condition of the run, with room for all of them. If x has a size that depends on data, the
// condition selects among its values.
void compressUnderBound(NodeContext &n, bool isFlat, int64_t axis) {
  const PlainOps to = n.plainOps();
  BoundedSizes &sizes = n.importer().sizes();
  TensorIndex x = n.in(0), flags = BoundedSizes::masked(to, n.in(1), sizes.boundsOf(n.graph(), n.in(1)),
                                                        to.number(DataType::BOOL, 0));
  const int64_t count = n.info(1).dim(0);
  Bounds bounds = sizes.boundsOf(n.graph(), x);
  const auto at = std::ranges::find(bounds, axis, &Bound::axis);
  if (isFlat && !bounds.empty())
    flags = to.op("And", {flags, to.slice(to.reshape(sizes.areValues(to, x), {n.info(0).nelms()}), 0, 0, count)});
  else if (at != bounds.end())
    flags = to.op("And", {flags, BoundedSizes::isValue(to, *at, count)});
  x = sizes.plain(to, x);
  if (isFlat) x = to.reshape(x, {n.info(0).nelms()});
  if (count == 0) return n.resultTensor(0, to.slice(x, axis, 0, 0));
  const Selection rows = BoundedSizes::select(to, flags);
  n.result(0, "Gather", {x, rows.places}, {{"axis", axis}});
  std::erase_if(bounds, [&](const Bound &b) { return isFlat || b.axis == axis; });
  bounds.push_back({rows.count, axis});
  n.boundOutput(0, bounds);
}

// Compress-9, -11: the rows of a condition that is known when the graph is built; without an axis, elements.
void importCompress(NodeContext &n) {
  const bool flat = !n.hasAttr("axis");
  const int64_t axis = flat ? 0 : n.axisOf(n.attr<int64_t>("axis", 0), n.info(0).rank());
  const int64_t size = flat ? n.info(0).nelms() : n.info(0).shape()[static_cast<size_t>(axis)];
  const bool fits = n.info(1).rank() == 1 && n.info(1).dim(0) <= size;
  const bool isOpen = !n.importer().sizes().boundsOf(n.graph(), n.in(0)).empty();
  if ((!n.knownValue(1) || isOpen) && fits) return compressUnderBound(n, flat, axis);
  Composer to(n);
  Value x = to.input(0);
  if (flat) x = x.reshape({size});
  n.require(n.constant(1).info().rank() == 1, "condition must have one dimension: got {}", n.constant(1).info());
  const std::vector<double> condition = n.constant(1).asDoubles();
  Ints rows;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) rows.push_back(static_cast<int64_t>(i));
  n.require(rows.empty() || rows.back() < size, "condition takes row {} of {}", rows.empty() ? 0 : rows.back(), size);
  to.result(0, x.gather(to.ints(rows), axis));
}

// The data for Unique: x along an axis, the number of its rows if data determines it, and their bound.
struct Rows {
  TensorIndex x, length;
  int64_t axis = 0;
  Bounds bounds;  // of the positions along the axis, as a list
};

// For a tensor whose size depends on data; without an axis its elements, one after the other.
Rows openRows(NodeContext &n, bool isFlat, int64_t axis) {
  const PlainOps to = n.plainOps();
  BoundedSizes &sizes = n.importer().sizes();
  if (isFlat) {
    const Shape list{n.info(0).nelms()};
    const Selection values = BoundedSizes::select(to, to.reshape(sizes.areValues(to, n.in(0)), list));
    const TensorIndex x = to.reshape(sizes.plain(to, n.in(0)), list);
    return {to.op("Gather", {x, values.places}, {{"axis", int64_t{0}}}), values.count, 0, {{values.count}}};
  }
  Rows rows{{}, {}, axis, {}};
  Bounds others = sizes.boundsOf(n.graph(), n.in(0));
  for (const Bound &b : others) {
    if (b.axis != axis) continue;
    rows.length = BoundedSizes::length(to, b);
    rows.bounds = {{b.count, 0, b.per}};
  }
  std::erase_if(others, [&](const Bound &b) { return b.axis == axis; });
  rows.x = BoundedSizes::masked(to, sizes.plain(to, n.in(0)), others, to.number(n.info(0).dataType(), 0));
  return rows;
}

// Unique-11; without an axis, of elements. For a value that is known when the graph is built, sizes are known as well.
void importUnique(NodeContext &n) {
  Composer to(n);
  const bool isFlat = !n.hasAttr("axis");
  const Bounds given = n.importer().sizes().boundsOf(n.graph(), n.in(0));
  Rows rows{n.in(0), {}, isFlat ? 0 : n.axisOf(n.attr<int64_t>("axis", 0), n.info(0).rank()), {}};
  if (!given.empty())
    rows = openRows(n, isFlat, rows.axis);
  else if (isFlat)
    rows.x = to.input(0).reshape({n.info(0).nelms()}).tensor();
  const TensorData *known = given.empty() ? n.knownValue(0) : nullptr;
  const TensorIndex values = known ? n.literal(known->reshaped(n.info(rows.x).shape())) : rows.x;
  const std::vector<Value> found =
      to.emit("Unique", {values, rows.length}, 4, {{"axis", rows.axis}, {"sorted", n.attr<int64_t>("sorted", 1)}});
  const TensorIndex count = found[3].tensor();
  const bool isKnown = n.isConstant(count);
  const auto listed = [&](const Value &list) {
    return isKnown ? list.slice(0, 0, n.graph().tensor(count).tensorData().asInts().at(0)) : list;
  };
  to.result(0, Value(to, rows.x).gather(listed(found[0]), rows.axis));
  if (n.hasOut(1)) to.result(1, listed(found[0]));
  if (n.hasOut(2)) to.result(2, found[1]);
  if (n.hasOut(3)) to.result(3, listed(found[2]));
  n.boundOutput(2, rows.bounds);
  if (isKnown) return;
  Bounds bounds;
  for (const Bound &b : given)
    if (!isFlat && b.axis != rows.axis) bounds.push_back(b);
  bounds.push_back({count, rows.axis});
  n.boundOutput(0, bounds);
  for (const int i : {1, 3}) n.boundOutput(i, {{count}});
}

constexpr int64_t kMostPairs = int64_t{1} << 33;  // takes about ten seconds

// Refuses computations that would take too long while the graph is built.
void checkPairs(const NodeContext &n, int64_t most) {
  const Shape &scores = n.info(1).shape();
  const int64_t pairs = scores[2] * most;
  n.require(scores[0] * scores[1] == 0 || pairs <= kMostPairs / (scores[0] * scores[1]),
            "compares too many boxes while the graph is built: got {} with up to {} kept in {} classes. Lower "
            "max_output_boxes_per_class, or give fewer boxes",
            scores[2], most, scores[0] * scores[1]);
}

// Boxes by class, with room for all, as rows (batch, class, box).
void openSuppression(NodeContext &n, TensorIndex selected, TensorIndex counts) {
  const PlainOps to = n.plainOps();
  const Shape shape = to.info(selected).shape();
  const int64_t all = to.info(selected).nelms(), most = shape[2];
  const TensorIndex isKept =
      to.op("Less", {to.reshape(to.upTo(most), {1, most}), to.reshape(counts, {shape[0] * shape[1], 1})});
  const Selection kept = BoundedSizes::select(to, to.reshape(isKept, {all}));
  const TensorIndex row = to.op("Div", {kept.places, to.integer(most)}), classes = to.integer(shape[1]);
  const std::vector<TensorIndex> columns = {
      to.op("Div", {row, classes}), to.op("Remainder", {row, classes}),
      to.op("Gather", {to.reshape(selected, {all}), kept.places}, {{"axis", int64_t{0}}})};
  std::vector<TensorIndex> parts;
  for (const TensorIndex column : columns) parts.push_back(to.reshape(column, {all, 1}));
  n.resultTensor(0, to.concat(parts, 1));
  n.boundOutput(0, {{kept.count, 0}});
}

// The inputs of the op: values if all are known; positions without a box get no score.
std::vector<TensorIndex> suppressionInputs(NodeContext &n, bool isKnown) {
  std::vector<TensorIndex> inputs;
  for (int i = 0; i < n.inputCount(); ++i)
    inputs.push_back(!n.hasIn(i) ? TensorIndex{} : isKnown ? n.literal(*n.knownValue(i)) : n.in(i));
  const BoundedSizes &sizes = n.importer().sizes();
  const Bounds boxes = sizes.boundsOf(n.graph(), n.in(0)), scores = sizes.boundsOf(n.graph(), n.in(1));
  for (const Bound &b : boxes) {
    const int64_t axis = b.axis == 1 ? 2 : b.axis;
    const auto same = std::ranges::find(scores, axis, &Bound::axis);
    n.require(b.axis < 2 && same != scores.end() && same->count == b.count && same->per == b.per,
              "boxes have a size that depends on data along dimension {}, and scores another one there: got {} and {}",
              b.axis, n.info(0), n.info(1));
  }
  if (boxes.empty() && scores.empty()) return inputs;
  const PlainOps to = n.plainOps();
  inputs[0] = sizes.plain(to, inputs[0]);
  inputs[1] = BoundedSizes::masked(to, sizes.plain(to, inputs[1]), scores, to.number(n.info(1).dataType(), NAN));
  return inputs;
}

// NonMaxSuppression-10, -11. For values that are known when the graph is built, the number of boxes is known as well.
void importNonMaxSuppression(NodeContext &n) {
  const Shape &scores = n.info(1).shape();
  n.require(scores.size() == 3, "scores must be (batches, classes, boxes): got {}", n.info(1));
  bool isKnown = true;
  for (int i = 0; i < n.inputCount(); ++i) isKnown = isKnown && (!n.hasIn(i) || n.knownValue(i));
  if (n.hasIn(3) && n.knownValue(3))
    n.require(n.constantNumber(3) >= 0 && n.constantNumber(3) <= 1, "iou_threshold must be between 0 and 1: got {}",
              n.constantNumber(3));
  int64_t most = n.hasIn(2) ? scores[2] : 0;
  if (n.hasIn(2) && n.knownValue(2)) most = std::clamp<int64_t>(n.constantInt(2), 0, most);
  if (isKnown) checkPairs(n, most);
  const std::vector<TensorIndex> inputs = suppressionInputs(n, isKnown);
  Composer to(n);
  const std::vector<Value> found = to.emit(
      "NonMaxSuppression", inputs, 2, {{"center_point_box", n.attr<int64_t>("center_point_box", 0)}, {"most", most}});
  const TensorIndex selected = found[0].tensor(), counts = found[1].tensor();
  if (found[0].info().nelms() == 0) return n.resultValue(0, TensorData::of<int64_t>({0, 3}, Ints()));
  if (!n.isConstant(selected) || !n.isConstant(counts)) return openSuppression(n, selected, counts);
  const Ints boxes = n.graph().tensor(selected).tensorData().asInts(),
             kept = n.graph().tensor(counts).tensorData().asInts();
  Ints rows;
  for (size_t row = 0; row < kept.size(); ++row)
    for (int64_t i = 0; i < kept[row]; ++i)
      rows.insert(rows.end(), {static_cast<int64_t>(row) / scores[1], static_cast<int64_t>(row) % scores[1],
                               boxes[row * static_cast<size_t>(most) + static_cast<size_t>(i)]});
  n.resultValue(0, TensorData::of<int64_t>({static_cast<int64_t>(rows.size() / 3), 3}, rows));
}

// Positions in a value of the run, with room for all its elements.
void nonZeroUnderBound(NodeContext &n) {
  const PlainOps to = n.plainOps();
  BoundedSizes &sizes = n.importer().sizes();
  const TensorInfo info = n.info(0);
  const Shape shape = info.rank() == 0 ? Shape{1} : info.shape();
  const int64_t size = info.nelms();
  if (size == 0) return n.resultValue(0, TensorData::of<int64_t>({static_cast<int64_t>(shape.size()), 0}, Ints()));
  const DataType type = info.dataType();
  const TensorIndex x = BoundedSizes::masked(to, n.in(0), sizes.boundsOf(n.graph(), n.in(0)), to.number(type, 0));
  const TensorIndex flat = to.reshape(x, {size});
  const Selection found = BoundedSizes::select(
      to, type == DataType::BOOL ? flat : to.op("Not", {to.op("Equal", {flat, to.number(type, 0)})}));
  std::vector<TensorIndex> rows;
  int64_t step = size;
  for (const int64_t dim : shape) {
    step /= dim;
    const TensorIndex from = step == 1 ? found.places : to.op("Div", {found.places, to.integer(step)});
    rows.push_back(to.reshape(to.op("Remainder", {from, to.integer(dim)}), {1, size}));
  }
  n.resultTensor(0, to.concat(rows, 0));
  n.boundOutput(0, {{found.count, 1}});
}

// NonZero-9, -13: positions of a value that is known when the graph is built, one row for each dimension.
void importNonZero(NodeContext &n) {
  if (!n.knownValue(0)) return nonZeroUnderBound(n);
  const TensorInfo info = n.constant(0).info();
  const Shape shape = info.rank() == 0 ? Shape{1} : info.shape();
  const std::vector<double> values = n.constant(0).asDoubles();
  std::vector<std::vector<int64_t>> rows(shape.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;  // NaN counts
    auto rest = static_cast<int64_t>(i);
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) rows[d].push_back(rest % shape[d]);
  }
  const auto rank = static_cast<int64_t>(rows.size()), count = static_cast<int64_t>(rows[0].size());
  n.importer().takeFromBudget(rank * count * static_cast<int64_t>(sizeof(int64_t)), "NonZero of " + info.str());
  std::vector<int64_t> flat;
  for (const std::vector<int64_t> &row : rows) flat.insert(flat.end(), row.begin(), row.end());
  n.resultValue(0, TensorData::of<int64_t>({rank, count}, flat));
}

}  // namespace

std::vector<ImportRule> selectionRules() {
  return {{"ai.onnx", "Compress", importCompress},
          {"ai.onnx", "Unique", importUnique},
          {"ai.onnx", "NonMaxSuppression", importNonMaxSuppression},
          {"ai.onnx", "NonZero", importNonZero}};
}

}  // namespace popart::onnx
