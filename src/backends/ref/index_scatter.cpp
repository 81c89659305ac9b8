// Reference kernels that write at index positions. Updates are applied in C order; an index out of range writes
// nothing and is reported.
#include <algorithm>
#include <cstring>

#include "backends/ref/families.hpp"
#include "backends/ref/index_position.hpp"
#include "ops/index/scatter_layout.hpp"

namespace popart::ref {
namespace {

enum class Reduction { None, Add, Mul, Max, Min };

Reduction reductionOf(const OpValues &op) {
  const std::string name = op.attributes.getAttribute<std::string>("reduction", "none");
  if (name == "add" || name == "Sum") return Reduction::Add;
  if (name == "mul" || name == "Mul") return Reduction::Mul;
  if (name == "max" || name == "Max") return Reduction::Max;
  if (name == "min" || name == "Min") return Reduction::Min;
  return Reduction::None;
}

template <class V>
V combine(Reduction reduction, V old, V update) {
  switch (reduction) {
    case Reduction::Add:
      return add(old, update);
    case Reduction::Mul:
      return multiply(old, update);
    case Reduction::Max:
      return isNan(old) || old > update ? old : update;
    case Reduction::Min:
      return isNan(old) || old < update ? old : update;
    case Reduction::None:
      break;
  }
  return update;
}

void copyData(const Context &c) {
  if (c.out[0].data != c.in[0].data && c.out[0].info.nbytes() > 0)
    std::memcpy(c.out[0].data, c.in[0].data, c.out[0].info.nbytes());
}

// Calls f(T{}, update), where update(target, value) combines two elements of type T.
template <class F>
void withUpdate(Reduction reduction, DataType type, F f) {
  if (reduction == Reduction::None)
    return dispatchMoved(type, [&](auto tag) { f(tag, [](auto &target, auto value) { target = value; }); });
  dispatchAll(type, [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    f(tag, [&](T &target, T value) {
      target = toElement<T>(combine(reduction, static_cast<V>(target), static_cast<V>(value)));
    });
  });
}

void scatterElements(const Context &c) {
  copyData(c);
  withUpdate(reductionOf(c.op), c.out[0].info.dataType(), [&](auto tag, auto update) {
    using T = decltype(tag);
    // The indices may cover only a leading part of the updates.
    Walk updates(c.in[1].shape(), {elementStrides(c.in[2].shape())});
    forEachElementPosition(c, c.out[0].shape(), [&](int64_t at, int64_t) {
      if (at >= 0) update(c.out[0].as<T>()[at], c.in[2].as<T>()[updates.offset(0)]);
      updates.next();
    });
  });
}

void scatterND(const Context &c) {
  copyData(c);
  withUpdate(reductionOf(c.op), c.out[0].info.dataType(), [&](auto tag, auto update) {
    using T = decltype(tag);
    forEachSlicePosition(c, c.out[0].shape(), 0, [&](int64_t at, int64_t i, int64_t elements) {
      for (int64_t e = 0; at >= 0 && e < elements; ++e) update(c.out[0].as<T>()[at + e], c.in[2].as<T>()[i + e]);
    });
  });
}

// f(offset in the result or -1, offset in src) for every element of src that takes part in a ScatterReduce.
template <class F>
void forEachReduced(const Context &c, const View &src, const Shape &result, F f) {
  const int64_t axis = ops::axisOf(c.op.attributes, src.info.rank());
  const ops::ScatterLayout layout = ops::scatterLayout(c.op.attributes, src.shape(), c.in[1].shape());
  const Shape strides = elementStrides(result);
  Shape others = strides;
  others[axis] = 0;
  Walk walk(layout.window, {others, broadcastStrides(layout.indices, layout.window), elementStrides(src.shape())});
  const int64_t count = elementCount(layout.window);
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    const int64_t at = placeOf(c, 1, walk.offset(1), result[axis]);
    f(at < 0 ? -1 : walk.offset(0) + at * strides[axis], walk.offset(2));
  }
}

void scatterReduce(const Context &c) {
  const Reduction reduction = reductionOf(c.op);
  dispatchNumeric(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    std::vector<V> totals(c.out[0].size(), reduction == Reduction::Mul ? V(1) : V(0));
    // A maximum or minimum without initial values starts with the first element.
    std::vector<bool> started(totals.size(),
                              c.hasIn(2) || (reduction != Reduction::Max && reduction != Reduction::Min));
    for (size_t i = 0; c.hasIn(2) && i < totals.size(); ++i) totals[i] = static_cast<V>(c.in[2].as<T>()[i]);
    forEachReduced(c, c.in[0], c.out[0].shape(), [&](int64_t at, int64_t i) {
      if (at < 0) return;
      const V value = static_cast<V>(c.in[0].as<T>()[i]);
      totals[at] = started[at] ? combine(reduction, totals[at], value) : value;
      started[at] = true;
    });
    for (size_t i = 0; i < totals.size(); ++i) c.out[0].as<T>()[i] = toElement<T>(totals[i]);
  });
}

// Per result position: the facts about all contributions that the gradient of one of them needs.
struct Contributions {
  std::vector<double> extreme;  // Max, Min: the result
  std::vector<int64_t> ties;    // Max, Min: contributions equal to it
  std::vector<double> product;  // Mul: product of the contributions that are not 0
  std::vector<int64_t> zeros;   // Mul: contributions equal to 0
  std::vector<int64_t> last;    // None: src offset of the last write, -1: initial value
};

Contributions collect(const Context &c, Reduction reduction, const std::vector<double> &src,
                      const std::vector<double> &initial, size_t size) {
  Contributions all{std::vector<double>(size, 0.0), std::vector<int64_t>(size, 0), std::vector<double>(size, 1.0),
                    std::vector<int64_t>(size, 0), std::vector<int64_t>(size, -1)};
  std::vector<bool> started(size, !initial.empty());
  auto multiplyIn = [&](size_t at, double v) { v == 0 ? void(++all.zeros[at]) : void(all.product[at] *= v); };
  for (size_t i = 0; i < initial.size(); ++i) {
    all.extreme[i] = initial[i];
    multiplyIn(i, initial[i]);
  }
  forEachReduced(c, c.in[2], c.in[0].shape(), [&](int64_t at, int64_t i) {
    if (at < 0) return;
    all.last[at] = i;
    multiplyIn(at, src[i]);
    all.extreme[at] = started[at] ? combine(reduction, all.extreme[at], src[i]) : src[i];
    started[at] = true;
  });
  for (size_t i = 0; i < initial.size(); ++i) all.ties[i] += initial[i] == all.extreme[i];
  forEachReduced(c, c.in[2], c.in[0].shape(), [&](int64_t at, int64_t i) {
    if (at >= 0) all.ties[at] += src[i] == all.extreme[at];
  });
  return all;
}

// Derivative of the result at `at` with respect to one contribution of value v (src offset i, -1: the initial value).
double derivative(Reduction reduction, const Contributions &all, size_t at, double v, int64_t i) {
  switch (reduction) {
    case Reduction::Add:
      return 1;
    case Reduction::Mul:
      return v == 0 ? (all.zeros[at] == 1 ? all.product[at] : 0) : (all.zeros[at] == 0 ? all.product[at] / v : 0);
    case Reduction::Max:
    case Reduction::Min:
      return v == all.extreme[at] ? 1.0 / static_cast<double>(all.ties[at]) : 0;
    case Reduction::None:
      break;
  }
  return all.last[at] == i ? 1 : 0;
}

void scatterReduceGradient(const Context &c) {
  const Reduction reduction = reductionOf(c.op);
  dispatchNumeric(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    const T *g = c.in[0].as<T>(), *x = c.in[2].as<T>();
    std::vector<double> src(x, x + c.in[2].size()), initial;
    if (c.hasIn(3)) initial.assign(c.in[3].as<T>(), c.in[3].as<T>() + c.in[3].size());
    const Contributions all = collect(c, reduction, src, initial, static_cast<size_t>(c.in[0].size()));
    // Elements that no index selects have gradient 0.
    std::fill_n(c.out[0].as<T>(), c.out[0].size(), toElement<T>(0.0));
    forEachReduced(c, c.in[2], c.in[0].shape(), [&](int64_t at, int64_t i) {
      const double slope = at < 0 ? 0 : static_cast<double>(g[at]) * derivative(reduction, all, at, src[i], i);
      c.out[0].as<T>()[i] = toElement<T>(slope);
    });
    for (size_t i = 0; c.hasOut(1) && i < initial.size(); ++i) {
      c.out[1].as<T>()[i] = toElement<T>(static_cast<double>(g[i]) * derivative(reduction, all, i, initial[i], -1));
    }
  });
}

constexpr Entry kScatterKernels[] = {
    {"Scatter", scatterElements},     {"ScatterElements", scatterElements},           {"ScatterND", scatterND},
    {"ScatterReduce", scatterReduce}, {"ScatterReduceGradOp", scatterReduceGradient},
};

}  // namespace

std::span<const Entry> scatterKernels() { return kScatterKernels; }

}  // namespace popart::ref
