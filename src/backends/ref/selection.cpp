// Reference kernels that choose by value: Unique and NonMaxSuppression. NaN is equal to NaN and greater than all
// numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/reduction.hpp"
#include "ops/index/box_overlap.hpp"
#include "ops/rules.hpp"

namespace popart::ref {
namespace {

using Ints = std::vector<int64_t>;

struct RowOrder {
  template <class T>
  bool operator()(const std::vector<T> &a, const std::vector<T> &b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](T x, T y) { return isNan(x) ? false : isNan(y) || x < y; });
  }
};

// The indices of the equal rows for each distinct row, in the order of the rows.
template <class T>
std::vector<Ints> equalRows(const View &x, int64_t axis, int64_t length) {
  using V = AccumulatorT<T>;
  const auto product = [](auto from, auto to) { return std::accumulate(from, to, int64_t{1}, std::multiplies<>()); };
  const Shape &shape = x.shape();
  const int64_t rows = shape[static_cast<size_t>(axis)], outer = product(shape.begin(), shape.begin() + axis),
                inner = product(shape.begin() + axis + 1, shape.end());
  std::map<std::vector<V>, Ints, RowOrder> found;
  for (int64_t i = 0; i < length; ++i) {
    std::vector<V> row;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k) row.push_back(static_cast<V>(x.as<T>()[(o * rows + i) * inner + k]));
    found[std::move(row)].push_back(i);
  }
  std::vector<Ints> groups;
  for (auto &[row, where] : found) groups.push_back(std::move(where));
  return groups;
}

void unique(const Context &c) {
  const int64_t axis = ops::axisOf(c.op.attributes, c.in[0].info.rank());
  const int64_t rows = c.in[0].shape()[static_cast<size_t>(axis)];
  const int64_t length = c.hasIn(1) ? std::clamp<int64_t>(loadInt(c.in[1], 0), 0, rows) : rows;
  std::vector<Ints> groups;
  dispatchAll(c.in[0].info.dataType(), [&](auto tag) { groups = equalRows<decltype(tag)>(c.in[0], axis, length); });
  if (c.op.attrInt("sorted") == 0) std::ranges::sort(groups, {}, [](const Ints &where) { return where.front(); });
  for (int i = 0; i < 3; ++i) std::fill_n(c.out[i].as<int64_t>(), rows, int64_t{0});
  for (size_t g = 0; g < groups.size(); ++g) {
    c.out[0].as<int64_t>()[g] = groups[g].front();
    for (const int64_t i : groups[g]) c.out[1].as<int64_t>()[i] = static_cast<int64_t>(g);
    c.out[2].as<int64_t>()[g] = static_cast<int64_t>(groups[g].size());
  }
  *c.out[3].as<int64_t>() = static_cast<int64_t>(groups.size());
}

// Boxes in decreasing order of their scores, equal scores in the order of boxes. Boxes with a NaN score are left out.
Ints candidates(const Context &c, int64_t row, int64_t boxes) {
  Ints order(static_cast<size_t>(boxes));
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int64_t i) { return load(c.in[1], row * boxes + i); };
  std::erase_if(order, [&](int64_t i) { return std::isnan(score(i)); });
  if (c.hasIn(4)) std::erase_if(order, [&, least = load(c.in[4], 0)](int64_t i) { return !(score(i) > least); });
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return score(a) > score(b); });
  return order;
}

void nonMaxSuppression(const Context &c) {
  const Shape &scores = c.in[1].shape();
  const int64_t classes = scores[1], boxes = scores[2], room = c.op.attrInt("most");
  const int64_t most = c.hasIn(2) ? std::clamp<int64_t>(loadInt(c.in[2], 0), 0, room) : room;
  const auto share = static_cast<float>(c.hasIn(3) ? load(c.in[3], 0) : 0);
  const auto form = c.op.attrInt("center_point_box") != 0 ? ops::BoxForm::Centre : ops::BoxForm::Corners;
  std::fill_n(c.out[0].as<int64_t>(), c.out[0].size(), int64_t{0});
  for (int64_t row = 0; row < scores[0] * classes; ++row) {
    std::vector<ops::Box> kept;
    for (const int64_t i : candidates(c, row, boxes)) {
      if (static_cast<int64_t>(kept.size()) >= most) break;
      double corners[4];
      for (int64_t k = 0; k < 4; ++k) corners[k] = load(c.in[0], (row / classes * boxes + i) * 4 + k);
      const ops::Box box = ops::Box::of(corners, form);
      if (std::ranges::any_of(kept, [&](const ops::Box &other) { return box.overlaps(other, share); })) continue;
      c.out[0].as<int64_t>()[row * room + static_cast<int64_t>(kept.size())] = i;
      kept.push_back(box);
    }
    c.out[1].as<int64_t>()[row] = static_cast<int64_t>(kept.size());
  }
}

constexpr Entry kSelectionKernels[] = {{"Unique", unique}, {"NonMaxSuppression", nonMaxSuppression}};

}  // namespace

std::span<const Entry> selectionKernels() { return kSelectionKernels; }

}  // namespace popart::ref
