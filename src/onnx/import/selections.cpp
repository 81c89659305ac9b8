// Operators whose values decide how large their result is: Compress, NonZero, Unique and NonMaxSuppression. What they
// look at is known when the graph is built (docs/decisions/0053-static-sequences.md); results of Compress and NonZero
// that are outputs of the model may also have a bound and a count (docs/decisions/0060-sizes-under-a-bound.md).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// The places of what a run chooses: ascending, then zeros.
struct Chosen {
  Value places, count, isPlace;
};

Chosen chosen(const Value &flags) {
  Composer &to = flags.composer();
  const int64_t size = flags.dim(0);
  Ints all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const Value ones = flags.cast(DataType::INT64), numbers = to.ints(all);
  const Value before = ones.op("CumSum", {}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}});
  const Value target = where(flags, before, before.number(static_cast<double>(size)));  // the last place is left out
  const Value found = to.zeros(DataType::INT64, {size + 1}).op("ScatterElements", {target, numbers});
  const Value count = ones.sum({0}, false);
  return {found.slice(0, 0, size), count, numbers.op("Less", {count})};
}

// Rows of a condition of the run, with room for all it has.
void compressUnderBound(NodeContext &n, const Value &x, int64_t axis) {
  const Value condition(x.composer(), n.in(1));
  if (condition.dim(0) == 0) return x.composer().result(0, x.slice(axis, 0, 0));
  const Chosen rows = chosen(condition);
  const Value y = x.gather(rows.places, axis);
  Shape shape(static_cast<size_t>(x.rank()), 1);
  shape[axis] = condition.dim(0);
  x.composer().result(0, where(rows.isPlace.reshape(shape), y, y.number(0)));
  n.boundOutput(0, {rows.count.tensor(), axis});
}

// Compress-9, -11: the rows of a condition that is known when the graph is built; without an axis, elements.
void importCompress(NodeContext &n) {
  Composer to(n);
  Value x = to.input(0);
  const bool flat = !n.hasAttr("axis");
  if (flat) x = x.reshape({x.info().nelms()});
  const int64_t axis = flat ? 0 : n.axisOf(n.attr<int64_t>("axis", 0), x.rank());
  const bool fits = n.info(1).rank() == 1 && n.info(1).dim(0) <= x.shape()[axis];
  if (!n.knownValue(1) && fits) return compressUnderBound(n, x, axis);
  n.require(n.constant(1).info().rank() == 1, "condition must have one dimension: got {}", n.constant(1).info());
  const std::vector<double> condition = n.constant(1).asDoubles();
  Ints rows;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) rows.push_back(static_cast<int64_t>(i));
  n.require(rows.empty() || rows.back() < x.shape()[axis], "condition takes row {} of {}",
            rows.empty() ? 0 : rows.back(), x.shape()[axis]);
  to.result(0, x.gather(to.ints(rows), axis));
}

// What is known of the different rows of a value: where each is first, how often it is there, and each row's place.
struct DifferentRows {
  Ints first, place, count;
};

// NaN is equal to NaN and greater than all numbers.
struct RowOrder {
  template <class T>
  static bool less(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(b) ? !std::isnan(a) : a < b;
    return a < b;
  }
  template <class T>
  bool operator()(const std::vector<T> &a, const std::vector<T> &b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), less<T>);
  }
};

// Rows lie along `axis` of `shape`; sorted, or in the order in which they are first there.
template <class T>
DifferentRows differentRows(const std::vector<T> &values, const Shape &shape, int64_t axis, bool sorted) {
  const auto product = [](auto from, auto to) { return std::accumulate(from, to, int64_t{1}, std::multiplies<>()); };
  const int64_t rows = shape[axis], outer = product(shape.begin(), shape.begin() + axis),
                inner = product(shape.begin() + axis + 1, shape.end());
  std::map<std::vector<T>, Ints, RowOrder> found;  // row → where it is
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<T> row;
    for (int64_t o = 0; o < outer; ++o) {
      const auto start = values.begin() + (o * rows + i) * inner;
      row.insert(row.end(), start, start + inner);
    }
    found[std::move(row)].push_back(i);
  }
  std::vector<Ints> groups;
  for (auto &[row, where] : found) groups.push_back(std::move(where));
  if (!sorted) std::ranges::sort(groups, {}, [](const Ints &where) { return where.front(); });
  DifferentRows result;
  result.place.resize(static_cast<size_t>(rows));
  for (size_t g = 0; g < groups.size(); ++g) {
    result.first.push_back(groups[g].front());
    result.count.push_back(static_cast<int64_t>(groups[g].size()));
    for (int64_t i : groups[g]) result.place[i] = static_cast<int64_t>(g);
  }
  return result;
}

// Unique-11: of a value that is known when the graph is built; without an axis, of its elements.
void importUnique(NodeContext &n) {
  Composer to(n);
  const TensorData &known = n.constant(0);
  Value x = to.input(0);
  const bool flat = !n.hasAttr("axis"), sorted = n.attr<int64_t>("sorted", 1) != 0;
  if (flat) x = x.reshape({x.info().nelms()});
  const int64_t axis = flat ? 0 : n.axisOf(n.attr<int64_t>("axis", 0), x.rank());
  DifferentRows rows;
  if (x.type() == DataType::UINT64) {
    const Ints values = known.asInts();
    rows = differentRows(std::vector<uint64_t>(values.begin(), values.end()), x.shape(), axis, sorted);
  } else if (isInteger(x.type())) {
    rows = differentRows(known.asInts(), x.shape(), axis, sorted);
  } else {
    rows = differentRows(known.asDoubles(), x.shape(), axis, sorted);
  }
  to.result(0, x.gather(to.ints(rows.first), axis));
  const Ints *lists[] = {&rows.first, &rows.place, &rows.count};
  for (int i = 0; i < 3; ++i)
    if (n.hasOut(i + 1)) to.result(i + 1, to.ints(*lists[i]));
}

// The box of four numbers as (y1, x1, y2, x2), in the arithmetic of float32.
struct Box {
  float y1, x1, y2, x2;

  Box(const double *b, bool centred) {
    const auto at = [&](int i) { return static_cast<float>(b[i]); };
    if (centred) {
      y1 = at(1) - at(3) / 2, y2 = at(1) + at(3) / 2;
      x1 = at(0) - at(2) / 2, x2 = at(0) + at(2) / 2;
    } else {
      y1 = std::min(at(0), at(2)), y2 = std::max(at(0), at(2));
      x1 = std::min(at(1), at(3)), x2 = std::max(at(1), at(3));
    }
  }
  float area() const { return (y2 - y1) * (x2 - x1); }
  // Whether the common part is more than `share` of both together.
  bool overlaps(const Box &b, float share) const {
    const float height = std::min(y2, b.y2) - std::max(y1, b.y1), width = std::min(x2, b.x2) - std::max(x1, b.x1);
    if (!(height > 0 && width > 0)) return false;
    const float both = height * width, all = area() + b.area() - both;
    return area() > 0 && b.area() > 0 && all > 0 && both / all > share;
  }
};

constexpr int64_t kMostPairs = int64_t{1} << 33;  // some ten seconds

// NonMaxSuppression-10, -11: of boxes and scores that are known when the graph is built. Best first, equal scores in
// their order; NaN is no score.
void importNonMaxSuppression(NodeContext &n) {
  const Shape boxes = n.info(0).shape(), scores = n.info(1).shape();
  n.require(boxes.size() == 3 && boxes[2] == 4 && scores.size() == 3 && boxes[0] == scores[0] && boxes[1] == scores[2],
            "boxes and scores must be (batches, boxes, 4) and (batches, classes, boxes): got {} and {}", n.info(0),
            n.info(1));
  const std::vector<double> corners = n.constant(0).asDoubles(), score = n.constant(1).asDoubles();
  const int64_t most = n.hasIn(2) ? n.constantInt(2) : 0;
  const auto share = static_cast<float>(n.hasIn(3) ? n.constantNumber(3) : 0);
  n.require(share >= 0 && share <= 1, "iou_threshold must lie between 0 and 1: got {}", share);
  const int64_t pairs = boxes[1] * std::min(std::max<int64_t>(most, 0), boxes[1]);
  n.require(scores[0] * scores[1] == 0 || pairs <= kMostPairs / (scores[0] * scores[1]),
            "compares too many boxes while the graph is built: got {} with up to {} kept in {} classes. Lower "
            "max_output_boxes_per_class, or give fewer boxes",
            boxes[1], most, scores[0] * scores[1]);
  const bool centred = n.attr<int64_t>("center_point_box", 0) != 0;
  Ints selected;
  for (int64_t row = 0; row < scores[0] * scores[1]; ++row) {
    const int64_t batch = row / scores[1];
    const double *of = score.data() + row * boxes[1];
    Ints order(static_cast<size_t>(boxes[1]));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int64_t i) { return std::isnan(of[i]); });
    if (n.hasIn(4)) std::erase_if(order, [&, least = n.constantNumber(4)](int64_t i) { return !(of[i] > least); });
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return of[a] > of[b]; });
    std::vector<Box> kept;
    for (int64_t i : order) {
      if (static_cast<int64_t>(kept.size()) >= most) break;
      const Box box(corners.data() + (batch * boxes[1] + i) * 4, centred);
      if (std::ranges::any_of(kept, [&](const Box &other) { return box.overlaps(other, share); })) continue;
      kept.push_back(box);
      selected.insert(selected.end(), {batch, row % scores[1], i});
    }
  }
  n.resultValue(0, TensorData::of<int64_t>({static_cast<int64_t>(selected.size() / 3), 3}, selected));
}

// Positions in a value of the run, with room for all its elements.
void nonZeroUnderBound(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const Shape shape = x.rank() == 0 ? Shape{1} : x.shape();
  const int64_t size = x.info().nelms();
  const Value flat = x.reshape({size});
  if (size == 0) return to.result(0, to.zeros(DataType::INT64, {static_cast<int64_t>(shape.size()), 0}));
  const Chosen found = chosen(x.type() == DataType::BOOL ? flat : flat.op("Equal", {flat.number(0)}).op("Not"));
  std::vector<Value> rows;
  int64_t step = size;
  for (const int64_t dim : shape) {
    step /= dim;
    const Value row = (found.places / static_cast<double>(step)).op("Remainder", {found.places.number(dim)});
    rows.push_back(where(found.isPlace, row, row.number(0)).reshape({1, size}));
  }
  to.result(0, concat(rows, 0));
  n.boundOutput(0, {found.count.tensor(), 1});
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
