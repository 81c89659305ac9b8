// How ops handle sizes that depend on data. Most need no rule here: if an op divides into pieces along an axis
// (src/ops/pieces.hpp), one for each element of the axis, its results have the count of their operands. Ops that work
// along the axis read a neutral value after the count. Others have a separate rule, or are refused.
#include <algorithm>
#include <limits>
#include <optional>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "base/element_types.hpp"
#include "onnx/bounded_sizes.hpp"
#include "onnx/importer.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"
#include "ops/shape/slice_range.hpp"

namespace popart::onnx {
namespace {

enum class Neutral : uint8_t { Zero, One, Lowest, Highest };

// An op that works along an axis and reads `neutral` where there are no values.
struct AlongAxis {
  std::string_view type;
  Neutral neutral;
  bool keepsAxis = false;  // results have the axis, and the count
};

constexpr AlongAxis kAlongAxis[] = {
    {"ReduceSum", Neutral::Zero},
    {"ReduceSumSquare", Neutral::Zero},
    {"ReduceMean", Neutral::Zero},  // followed by a factor
    {"ReduceL1", Neutral::Zero},
    {"ReduceL2", Neutral::Zero},
    {"ReduceLogSum", Neutral::Zero},
    {"ReduceLogSumExp", Neutral::Lowest},
    {"ReduceProd", Neutral::One},
    {"ReduceMax", Neutral::Lowest},
    {"ReduceMin", Neutral::Highest},
    {"ArgMax", Neutral::Lowest},  // positions after the count come last among equal values
    {"ArgMin", Neutral::Highest},
    {"MatMul", Neutral::Zero},
    {"CumSum", Neutral::Zero, true},
    {"Softmax", Neutral::Lowest, true},
    {"LogSoftmax", Neutral::Lowest, true},
    {"Hardmax", Neutral::Lowest, true},
};

// Ops with an input that holds positions: after the count it must have positions that exist.
struct Positions {
  std::string_view type;
  size_t input;
};
constexpr Positions kPositions[] = {{"Gather", 1}, {"GatherElements", 1}, {"GatherND", 1}, {"RoiAlign", 2}};

// The lowest and the highest value of a type.
TensorData extreme(DataType type, Neutral which) {
  std::optional<TensorData> value;
  forElement(kIntegerElements, type, [&](auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    value = TensorData::scalar<T>(which == Neutral::Lowest ? Limits::min() : Limits::max());
  });
  const double infinity = std::numeric_limits<double>::infinity();
  return value ? *value
               : TensorData::fromDoubles(TensorInfo(type, {}),
                                         std::vector<double>{which == Neutral::Lowest ? -infinity : infinity});
}

class BoundedOp {
 public:
  BoundedOp(Importer &importer, Graph &graph, std::string_view type, std::vector<TensorIndex> inputs,
            const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings)
      : importer_(importer),
        sizes_(importer.sizes()),
        graph_(graph),
        to_(importer, graph, ids.front(), settings),
        type_(type),
        inputs_(std::move(inputs)),
        ids_(ids),
        attributes_(std::move(attributes)),
        settings_(settings) {}

  void add();

 private:
  using Ints = std::vector<int64_t>;
  struct Place {
    InIndex input;
    Bound bound;
  };

  const Bounds &bounds(InIndex i) const { return sizes_.boundsOf(graph_, input(i)); }
  const Bound *boundAt(InIndex i, int64_t axis) const {
    const auto at = std::ranges::find(bounds(i), axis, &Bound::axis);
    return at == bounds(i).end() ? nullptr : &*at;
  }
  const Shape &shape(InIndex i) const { return graph_.info(input(i)).shape(); }
  TensorIndex input(InIndex i) const { return inputs_[static_cast<size_t>(i)]; }
  int64_t axis() const { return ops::axisOf(attributes_, graph_.info(inputs_[0]).rank()); }

  [[noreturn]] void refuse(InIndex i, std::string_view why) const;
  void requireSame(InIndex a, const Bound &bound, InIndex b, int64_t axis) const;

  // By pieces.
  void addByPieces(Bounds behind = {});
  // Bounds of the results of `op`; axes that it works along go to `along`.
  std::vector<Bounds> resultBounds(const Op &op, std::vector<Place> &along) const;
  void addBounds(const Op &op, const Place &from, std::vector<Bounds> &results, std::vector<Place> &along) const;
  std::optional<Pieces> pieces(const Op &op, const Place &from, int64_t count) const;
  Bounds maskAlong(const std::vector<Place> &along);
  // Calls question(op) with an op like this one, which is then removed.
  template <class F>
  void ask(F &&question);
  TensorIndex fill(DataType type, Neutral neutral, InIndex i) const;

  // Ops with a separate rule.
  void maskPositions(size_t input);
  void mendPositions(const Bound &bound);
  bool addMean();
  bool addConcat();
  bool addTopK();
  bool addScatter();

  // Numbers that state sizes.
  bool addSizes();
  std::optional<Sizes> movedSizes() const;
  std::optional<Sizes> comparedSizes() const;
  std::optional<Sizes> chosenSizes() const;
  std::optional<Sizes> computedSizes(TensorIndex result) const;

  Importer &importer_;
  BoundedSizes &sizes_;
  Graph &graph_;
  PlainOps to_;
  std::string type_;
  std::vector<TensorIndex> inputs_;
  const std::vector<TensorId> &ids_;
  Attributes attributes_;
  const Op::Settings &settings_;
};

void BoundedOp::refuse(InIndex i, std::string_view why) const {
  std::vector<int64_t> axes;
  for (const Bound &b : bounds(i)) axes.push_back(b.axis);
  throw unknown_value(
      "{}: the size of '{}' ({}) along dimensions {} depends on data of the run; it must be known when the graph is "
      "built, as {}. Make the value that decides it a constant or an initializer",
      type_, graph_.tensor(input(i)).id, graph_.info(input(i)), axes, why);
}

// ---- by pieces ----------------------------------------------------------------------------------

void BoundedOp::requireSame(InIndex a, const Bound &bound, InIndex b, int64_t axis) const {
  const Bound *other = boundAt(b, axis);
  if (!other || other->count != bound.count || other->per != bound.per)
    refuse(a, "another operand of the op has a different size there (" + toText(graph_.info(inputs_[b])) + ")");
}

// For a view with one element along the axis, the axis of the result must be the only possible one.
std::optional<Pieces> BoundedOp::pieces(const Op &op, const Place &from, int64_t count) const {
  std::optional<Pieces> found = ops::piecesOf(op, from.input, static_cast<int>(from.bound.axis), count);
  if (!found || count > 1 || !op.has(Trait::View)) return found;
  const Shape &before = op.inShape(0), &after = op.outShape(0);
  std::optional<int> at;
  if (before == after) {
    at = static_cast<int>(from.bound.axis);
  } else if (op.hasAttr("axes")) {  // Squeeze, Unsqueeze
    const bool adds = after.size() > before.size();
    const auto rank = static_cast<int64_t>(std::max(after.size(), before.size()));
    int64_t next = 0;
    for (int64_t i = 0; i < rank; ++i) {
      const auto isAxis = [&](int64_t a) { return (a < 0 ? a + rank : a) == i; };
      const bool changes = std::ranges::any_of(op.attrInts("axes"), isAxis);
      if ((adds ? next : i) == from.bound.axis && !changes) at = static_cast<int>(adds ? i : next);
      if (!changes) ++next;
    }
  }
  if (!at) return std::nullopt;
  found->out[0] = *at;
  return found;
}

void BoundedOp::addBounds(const Op &op, const Place &from, std::vector<Bounds> &results,
                          std::vector<Place> &along) const {
  const int64_t count = shape(from.input)[static_cast<size_t>(from.bound.axis)] / from.bound.per;
  const std::optional<Pieces> cut = pieces(op, from, count);
  if (!cut) return along.push_back(from);
  for (InIndex i = 0; i < static_cast<InIndex>(inputs_.size()); ++i) {
    if (!op.hasInput(i) || cut->in[static_cast<size_t>(i)] == Pieces::kWhole) continue;
    const int axis = cut->in[static_cast<size_t>(i)];
    if (count == 1 && shape(i)[static_cast<size_t>(axis)] == 1 && !boundAt(i, axis)) continue;  // broadcasts
    requireSame(from.input, from.bound, i, axis);
  }
  for (OutIndex o = 0; o < static_cast<OutIndex>(results.size()); ++o) {
    if (!op.hasOutput(o)) continue;
    const int64_t axis = cut->out[static_cast<size_t>(o)];
    Bounds &known = results[static_cast<size_t>(o)];
    if (std::ranges::find(known, axis, &Bound::axis) != known.end()) continue;
    known.push_back({from.bound.count, axis, op.outShape(o)[static_cast<size_t>(axis)] / count});
  }
}

std::vector<Bounds> BoundedOp::resultBounds(const Op &op, std::vector<Place> &along) const {
  std::vector<Bounds> results(ids_.size());
  for (InIndex i = 0; i < static_cast<InIndex>(inputs_.size()); ++i)
    if (inputs_[static_cast<size_t>(i)].valid())
      for (const Bound &bound : bounds(i)) addBounds(op, {i, bound}, results, along);
  return results;
}

TensorIndex BoundedOp::fill(DataType type, Neutral neutral, InIndex i) const {
  if (neutral == Neutral::Zero || neutral == Neutral::One) return to_.number(type, neutral == Neutral::One ? 1 : 0);
  if (!isFloatingPoint(type) && !isInteger(type)) refuse(i, "its elements have no order");
  return to_.constant(extreme(type, neutral));
}

// Replaces inputs by masked ones. Returns the bounds that the results keep.
Bounds BoundedOp::maskAlong(const std::vector<Place> &along) {
  Bounds kept;
  const auto rule = std::ranges::find(kAlongAxis, std::string_view(type_), &AlongAxis::type);
  for (const Place &place : along) {
    if (rule == std::end(kAlongAxis)) refuse(place.input, "the op works along it and has no rule for it");
    if (attributes_.getAttribute<int64_t>("select_last_index", 0) != 0) refuse(place.input, "select_last_index is set");
    if (type_ == "MatMul" && along.size() != 2)
      refuse(place.input, "the operands of a product must have one size there");
    if (type_ == "MatMul") requireSame(along[0].input, along[0].bound, along[1].input, along[1].bound.axis);
    if (rule->keepsAxis) kept.push_back(place.bound);
  }
  for (const Place &place : along) {
    TensorIndex &input = inputs_[static_cast<size_t>(place.input)];
    Bounds others = bounds(place.input);
    std::erase_if(others, [&](const Bound &b) { return b.axis == place.bound.axis; });
    input = BoundedSizes::masked(to_, input, {place.bound},
                                 fill(graph_.info(input).dataType(), rule->neutral, place.input));
    input = sizes_.rebound(to_, input, others);
  }
  return kept;
}

// Adds an op only for the question: the final op may read other operands, or no op may be added.
template <class F>
void BoundedOp::ask(F &&question) {
  std::vector<TensorId> ids;
  for (const TensorId &id : ids_) ids.push_back(id.empty() ? id : importer_.freshId(graph_, id + "/asked"));
  const OpIndex asked = graph_.addConnectedOp(opDef(type_), inputs_, ids, attributes_, settings_)->index();
  try {
    question(graph_.op(asked));
  } catch (const error &) {
    graph_.eraseOpAndOutputs(asked);
    throw;
  }
  graph_.eraseOpAndOutputs(asked);
}

void BoundedOp::addByPieces(Bounds behind) {
  std::vector<Place> along;
  std::vector<Bounds> results;
  ask([&](const Op &op) { results = resultBounds(op, along); });
  const Bounds kept = maskAlong(along);
  behind.insert(behind.end(), kept.begin(), kept.end());
  importer_.addPlainOp(graph_, type_, inputs_, ids_, attributes_, settings_);
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i].empty()) continue;
    results[i].insert(results[i].end(), behind.begin(), behind.end());
    sizes_.setBounds(graph_, graph_.find(ids_[i]), results[i]);
  }
}

// ---- rules of ops -------------------------------------------------------------------------------

// Positions after the count are 0.
void BoundedOp::maskPositions(size_t input) {
  const Bounds kept = bounds(static_cast<InIndex>(input));
  if (kept.empty()) return;
  TensorIndex &positions = inputs_[input];
  positions = BoundedSizes::masked(to_, positions, kept, to_.number(graph_.info(positions).dataType(), 0));
  positions = sizes_.rebound(to_, positions, kept);
}

// Positions along an axis with a bound: negative ones count from the count, others must be below it.
void BoundedOp::mendPositions(const Bound &bound) {
  const TensorIndex given = inputs_[1];
  const DataType type = graph_.info(given).dataType();
  const TensorIndex length = to_.cast(BoundedSizes::length(to_, bound), type), zero = to_.number(type, 0);
  const TensorIndex from = to_.op("Where", {to_.op("Less", {given, zero}), to_.op("Add", {given, length}), given});
  const TensorIndex isThere = to_.op("And", {to_.op("GreaterOrEqual", {from, zero}), to_.op("Less", {from, length})});
  // A position that does not exist is also out of range of the tensor, so the run ends with that message.
  const auto room = static_cast<double>(shape(0)[static_cast<size_t>(bound.axis)]);
  const Bounds kept = bounds(1);
  inputs_[1] = sizes_.rebound(to_, to_.op("Where", {isThere, from, to_.number(type, room)}), kept);
  Bounds others = bounds(0);
  std::erase_if(others, [&](const Bound &b) { return b.axis == bound.axis; });
  inputs_[0] = sizes_.rebound(to_, sizes_.plain(to_, inputs_[0]), others);
}

// The mean over all positions, values and zeros, times the number of positions per value; at least in float32.
bool BoundedOp::addMean() {
  const auto axes = ops::reductionAxes(attributes_, graph_.info(inputs_[0]).rank());
  TensorIndex share{};
  for (const Bound &b : bounds(0)) {
    if (std::ranges::find(axes, b.axis) == axes.end()) continue;
    const auto room = static_cast<double>(shape(0)[static_cast<size_t>(b.axis)]);
    const TensorIndex length = to_.cast(BoundedSizes::length(to_, b), DataType::DOUBLE);
    const TensorIndex of = to_.op("Div", {to_.number(DataType::DOUBLE, room), length});
    share = share.valid() ? to_.op("Mul", {share, of}) : of;
  }
  if (!share.valid()) return false;
  const DataType type = graph_.info(inputs_[0]).dataType(), wide = type == DataType::DOUBLE ? type : DataType::FLOAT;
  if (!isFloatingPoint(type)) refuse(0, "means of integers are rounded");
  const auto step = [&](std::string_view op, std::vector<TensorIndex> inputs, Attributes attributes) {
    const std::vector<TensorId> id{importer_.freshId(graph_, ids_.front() + "/" + std::string(op))};
    importer_.addOp(graph_, op, inputs, id, std::move(attributes), settings_);
    return graph_.find(id.front());
  };
  const auto castTo = [](DataType to) { return Attributes{{"to", int64_t{toOnnxDataType(to)}}}; };
  const std::vector<TensorId> mean{importer_.freshId(graph_, ids_.front() + "/ReduceMean")};
  const TensorIndex x = type == wide ? inputs_[0] : step("Cast", {inputs_[0]}, castTo(wide));
  BoundedOp(importer_, graph_, type_, {x}, mean, attributes_, settings_).addByPieces();
  const std::vector<TensorIndex> factors{graph_.find(mean.front()), to_.cast(share, wide)};
  if (type == wide)
    importer_.addOp(graph_, "Mul", factors, ids_, {}, settings_);
  else
    importer_.addOp(graph_, "Cast", {step("Mul", factors, {})}, ids_, castTo(type), settings_);
  return true;
}

// The values of all parts, one after the other, are selected from all positions.
bool BoundedOp::addConcat() {
  const int64_t along = axis();
  Bounds others;
  std::vector<TensorIndex> flags, parts;
  bool isOpen = false;
  for (InIndex i = 0; i < static_cast<InIndex>(inputs_.size()); ++i) isOpen = isOpen || boundAt(i, along);
  if (!isOpen) return false;
  for (InIndex i = 0; i < static_cast<InIndex>(inputs_.size()); ++i) {
    const int64_t size = shape(i)[static_cast<size_t>(along)];
    const Bound *bound = boundAt(i, along);
    flags.push_back(bound ? BoundedSizes::isValue(to_, *bound, size)
                          : to_.op("Expand", {to_.number(DataType::BOOL, 1)}, {{"shape", Shape{size}}}));
    parts.push_back(sizes_.plain(to_, inputs_[static_cast<size_t>(i)]));
    for (const Bound &b : bounds(0))
      if (b.axis != along) requireSame(0, b, i, b.axis);
    if (bounds(i).size() - (bound ? 1 : 0) != bounds(0).size() - (boundAt(0, along) ? 1 : 0))
      refuse(i, "the parts have other sizes along other dimensions");
  }
  for (const Bound &b : bounds(0))
    if (b.axis != along) others.push_back(b);
  const Selection chosen = BoundedSizes::select(to_, to_.concat(flags, 0));
  others.push_back({chosen.count, along});
  importer_.addPlainOp(graph_, "Gather", {to_.concat(parts, along), chosen.places}, ids_, {{"axis", along}}, settings_);
  sizes_.setBounds(graph_, graph_.find(ids_.front()), others);
  return true;
}

// Takes k elements; as many of them are values as the axis has, at most k.
bool BoundedOp::addTopK() {
  const int64_t along = axis();
  const Bound *bound = boundAt(0, along);
  if (!bound) return false;
  const bool largest = attributes_.getAttribute<int64_t>("largest", 1) != 0;
  const Bound of = *bound;
  Bounds others = bounds(0);
  std::erase_if(others, [&](const Bound &b) { return b.axis == along; });
  inputs_[0] = BoundedSizes::masked(
      to_, inputs_[0], {of}, fill(graph_.info(inputs_[0]).dataType(), largest ? Neutral::Lowest : Neutral::Highest, 0));
  inputs_[0] = sizes_.rebound(to_, inputs_[0], others);
  const TensorIndex count =
      to_.op("Min", {BoundedSizes::length(to_, of), to_.integer(attributes_.getAttribute<int64_t>("k", 0))});
  Bounds behind;
  behind.push_back({count, along});
  addByPieces(std::move(behind));
  return true;
}

// Updates after the count go to an additional row of the data, which is then removed.
bool BoundedOp::addScatter() {
  if (bounds(1).empty()) return false;
  const bool byCoordinates = type_ == "ScatterND";
  const int64_t along = byCoordinates ? 0 : axis(), rows = shape(0)[static_cast<size_t>(along)];
  if (boundAt(0, along)) refuse(0, "it is written by position");
  if (byCoordinates && boundAt(1, graph_.info(inputs_[1]).rank() - 1)) refuse(1, "it holds coordinates");
  for (const Bound &b : bounds(1)) requireSame(1, b, 2, b.axis);
  if (bounds(2).size() != bounds(1).size()) refuse(2, "its positions have another size");
  const DataType type = graph_.info(inputs_[1]).dataType();
  std::vector<double> isRow(byCoordinates ? static_cast<size_t>(shape(1).back()) : 1, 0.0), behind = isRow;
  isRow[0] = 1, behind[0] = static_cast<double>(rows);
  const Shape list{static_cast<int64_t>(isRow.size())};
  const TensorIndex leads = to_.constant(TensorData::fromDoubles(TensorInfo(DataType::BOOL, list), isRow));
  const TensorIndex end = to_.number(type, static_cast<double>(rows));
  const auto whereRow = [&](TensorIndex condition, TensorIndex yes, TensorIndex no) {
    return to_.op("Where", {to_.op("And", {condition, leads}), yes, no});
  };
  TensorIndex at = sizes_.plain(to_, inputs_[1]);
  at = whereRow(to_.op("Less", {at, to_.number(type, 0)}), to_.op("Add", {at, end}), at);
  at = whereRow(to_.op("GreaterOrEqual", {at, end}), to_.number(type, static_cast<double>(rows + 1)), at);
  at = BoundedSizes::masked(to_, at, bounds(1), to_.constant(TensorData::fromDoubles(TensorInfo(type, list), behind)));
  Shape extra = shape(0);
  extra[static_cast<size_t>(along)] = 1;
  const TensorIndex zero = to_.number(graph_.info(inputs_[0]).dataType(), 0);
  const TensorIndex data =
      to_.concat({sizes_.plain(to_, inputs_[0]), to_.op("Expand", {zero}, {{"shape", extra}})}, along);
  const TensorIndex y = to_.freshOp(type_, {data, at, sizes_.plain(to_, inputs_[2])}, attributes_);
  importer_.addPlainOp(graph_, "Slice", {y}, ids_, {{"starts", Ints{0}}, {"ends", Ints{rows}}, {"axes", Ints{along}}},
                       settings_);
  sizes_.setBounds(graph_, graph_.find(ids_.front()), bounds(0));
  return true;
}

// ---- numbers that state sizes

namespace {

// An element of a list, or the single number that is used instead.
const Size &elementOf(const Sizes &sizes, size_t i) { return sizes[sizes.size() == 1 ? 0 : i]; }

}  // namespace

// Whether numbers are equal, as 0 or 1. A size that depends on data is never equal to a negative number, which
// exporters compare with.
std::optional<Sizes> BoundedOp::comparedSizes() const {
  const Sizes *a = sizes_.sizesIn(graph_, inputs_[0]), *b = sizes_.sizesIn(graph_, inputs_[1]);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return std::nullopt;
  Sizes equal;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const Size &x = elementOf(*a, i), &y = elementOf(*b, i);
    const auto isNegative = [](const Size &s) { return s.isKnown() && s.most < 0; };
    if (x.isKnown() != y.isKnown() && !isNegative(x) && !isNegative(y)) return std::nullopt;
    if (!x.isKnown() && !y.isKnown() && !x.sameAs(y)) return std::nullopt;
    equal.push_back({x.sameAs(y) ? 1 : 0});
  }
  return equal;
}

// The numbers that a known condition selects.
std::optional<Sizes> BoundedOp::chosenSizes() const {
  const Tensor &condition = graph_.tensor(inputs_[0]);
  const Sizes *yes = sizes_.sizesIn(graph_, inputs_[1]), *no = sizes_.sizesIn(graph_, inputs_[2]);
  const bool isKnown = condition.tensorType() == TensorType::Const && condition.hasTensorData();
  if (!yes || !no || !isKnown || condition.info.rank() > 1) return std::nullopt;
  const std::vector<int64_t> flags = condition.tensorData().asInts();
  const size_t count = std::max({flags.size(), yes->size(), no->size()});
  for (const size_t size : {flags.size(), yes->size(), no->size()})
    if (size != count && size != 1) return std::nullopt;
  Sizes chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(elementOf(flags[flags.size() == 1 ? 0 : i] != 0 ? *yes : *no, i));
  return chosen;
}

// For ops that move numbers.
std::optional<Sizes> BoundedOp::movedSizes() const {
  if (type_ == "Equal") return comparedSizes();
  if (type_ == "Where") return chosenSizes();
  const Sizes *first = sizes_.sizesIn(graph_, inputs_[0]);
  if (type_ == "Concat") {
    Sizes all;
    for (const TensorIndex t : inputs_) {
      const Sizes *part = sizes_.sizesIn(graph_, t);
      if (!part) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  if (!first) return std::nullopt;
  if (type_ == "Identity" || type_ == "Reshape" || type_ == "Squeeze" || type_ == "Unsqueeze") return *first;
  if (type_ == "Cast") {
    const auto to = attributes_.getAttribute<int64_t>("to", 0);
    const bool isInteger = to == toOnnxDataType(DataType::INT64) || to == toOnnxDataType(DataType::INT32);
    return isInteger ? std::optional(*first) : std::nullopt;
  }
  // These ops select positions.
  if (type_ != "Gather" && type_ != "Slice") return std::nullopt;
  std::vector<int64_t> places;
  const auto size = static_cast<int64_t>(first->size());
  if (type_ == "Gather") {
    const Sizes *chosen = sizes_.sizesIn(graph_, inputs_[1]);
    if (!chosen || graph_.info(inputs_[0]).rank() != 1) return std::nullopt;
    for (const Size &s : *chosen) {
      if (!s.isKnown() || s.most < -size || s.most >= size) return std::nullopt;
      places.push_back(s.most < 0 ? s.most + size : s.most);
    }
  } else {
    const auto ranges = ops::sliceRanges(attributes_, graph_.info(inputs_[0]).shape());
    for (int64_t i = 0; !ranges.empty() && i < ranges[0].size; ++i)
      places.push_back(ranges[0].start + i * ranges[0].step);
  }
  Sizes moved;
  for (const int64_t at : places) moved.push_back((*first)[static_cast<size_t>(at)]);
  return moved;
}

namespace {

// The result for two sizes, if both are known or at their largest; empty if the result may decrease as one grows.
std::optional<int64_t> numberOf(std::string_view type, const Size &a, const Size &b) {
  const int64_t x = a.most, y = b.most;
  constexpr int64_t kMost = int64_t{1} << 31;
  if (std::abs(x) > kMost || std::abs(y) > kMost) return std::nullopt;
  if (type == "Add") return x + y;
  if (type == "Sub" && b.isKnown()) return x - y;
  if (type == "Mul" && (!a.isKnown() || x >= 0) && (!b.isKnown() || y >= 0)) return x * y;
  if (type == "Div" && b.isKnown() && y > 0) return x / y;
  if (type == "Min") return std::min(x, y);
  if (type == "Max") return std::max(x, y);
  return std::nullopt;
}

}  // namespace

// For arithmetic; `result` holds the numbers of the run.
std::optional<Sizes> BoundedOp::computedSizes(TensorIndex result) const {
  if (inputs_.size() != 2) return std::nullopt;
  const Sizes *a = sizes_.sizesIn(graph_, inputs_[0]), *b = sizes_.sizesIn(graph_, inputs_[1]);
  const TensorInfo &info = graph_.info(result);
  if (!a || !b || info.rank() > 1) return std::nullopt;
  Sizes computed;
  for (int64_t i = 0; i < info.nelms(); ++i) {
    const Size &x = elementOf(*a, static_cast<size_t>(i)), &y = elementOf(*b, static_cast<size_t>(i));
    const std::optional<int64_t> most = numberOf(type_, x, y);
    if (!most) return std::nullopt;
    const Size &known = x.isKnown() ? x : y, &open = x.isKnown() ? y : x;
    if (x.isKnown() && y.isKnown()) {
      computed.push_back({*most});
    } else if (type_ == "Mul" && known.isKnown()) {
      if (known.most < 1) return std::nullopt;
      computed.push_back({*most, open.count, open.per * known.most});
    } else if (type_ == "Min" && known.isKnown() && known.most >= open.most) {
      computed.push_back(open);
    } else {
      const TensorIndex list = to_.cast(to_.reshape(result, {info.nelms()}), DataType::INT64);
      computed.push_back({*most, to_.reshape(to_.slice(list, 0, i, i + 1), {})});
    }
  }
  return computed;
}

bool BoundedOp::addSizes() {
  if (std::ranges::none_of(inputs_, [&](TensorIndex t) { return t.valid() && sizes_.sizesIn(graph_, t); }))
    return false;
  if (std::optional<Sizes> moved = movedSizes(); moved && ids_.size() == 1) {
    if (std::ranges::all_of(*moved, &Size::isKnown)) {
      TensorInfo info;
      std::vector<double> values;
      ask([&](const Op &op) { info = op.outInfo(0); });
      for (const Size &size : *moved) values.push_back(static_cast<double>(size.most));
      graph_.addConstant(ids_[0], TensorData::fromDoubles(info, values));
      return true;
    }
    importer_.addPlainOp(graph_, type_, inputs_, ids_, attributes_, settings_);
    sizes_.setSizes(graph_, graph_.find(ids_[0]), std::move(*moved));
    return true;
  }
  importer_.addPlainOp(graph_, type_, inputs_, ids_, attributes_, settings_);
  if (ids_.size() != 1) return true;
  const TensorIndex result = graph_.find(ids_[0]);
  if (std::optional<Sizes> computed = computedSizes(result)) sizes_.setSizes(graph_, result, std::move(*computed));
  return true;
}

void BoundedOp::add() {
  const bool isBounded =
      std::ranges::any_of(inputs_, [&](TensorIndex t) { return t.valid() && !sizes_.boundsOf(graph_, t).empty(); });
  if (!isBounded) {
    if (!addSizes()) importer_.addPlainOp(graph_, type_, inputs_, ids_, attributes_, settings_);
    return;
  }
  // Bodies handle sizes of tensors that they read from outside; the caller that adds the op sets those of its results.
  if (type_ == "If" || type_ == "Loop")
    return importer_.addPlainOp(graph_, type_, inputs_, ids_, attributes_, settings_);
  if (type_ == "Gather")
    if (const Bound *bound = boundAt(0, axis())) mendPositions(Bound(*bound));
  for (const auto &[type, input] : kPositions)
    if (type == type_ && input < inputs_.size()) maskPositions(input);
  using Rule = bool (BoundedOp::*)();
  static const std::map<std::string_view, Rule> kRules = {
      {"ReduceMean", &BoundedOp::addMean},   {"Concat", &BoundedOp::addConcat},
      {"TopK", &BoundedOp::addTopK},         {"Scatter", &BoundedOp::addScatter},
      {"ScatterND", &BoundedOp::addScatter}, {"ScatterElements", &BoundedOp::addScatter},
  };
  const auto rule = kRules.find(type_);
  if (rule == kRules.end() || !(this->*rule->second)()) addByPieces();
}

}  // namespace

void BoundedSizes::addOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
                         const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings) {
  BoundedOp(importer_, graph, type, inputs, ids, std::move(attributes), settings).add();
}

}  // namespace popart::onnx
