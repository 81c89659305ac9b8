// Reference kernels that order or count elements: ArgMax, ArgMin, TopK, Sort, ReduceMedian, Histogram. NaN counts as
// larger than every number, ties go to the smaller index.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/reduction.hpp"

namespace popart::ref {
namespace {

constexpr auto kLess = [](auto a, auto b) { return isNan(b) ? !isNan(a) : a < b; };

template <class V>
std::vector<int64_t> ordered(const std::vector<V> &values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return descending ? kLess(values[j], values[i]) : kLess(values[i], values[j]);
  });
  return order;
}

template <bool Largest>
void argExtreme(const Context &c) {
  const Reduction reduction(c.in[0].shape(), {ops::axisOf(c.op.attributes, c.in[0].info.rank())});
  const bool last = c.op.attrInt("select_last_index") != 0;
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    reduction.forEachGroup<T, V>(c.in[0].as<T>(), [&](int64_t i, const std::vector<V> &values) {
      size_t best = 0;
      for (size_t j = 1; j < values.size(); ++j) {
        const bool better = Largest ? kLess(values[best], values[j]) : kLess(values[j], values[best]);
        const bool equal = !kLess(values[best], values[j]) && !kLess(values[j], values[best]);
        if (better || (last && equal)) best = j;
      }
      setIndex(c.out[0], i, static_cast<int64_t>(best));
    });
  });
}

// Writes the first `count` elements of each line along `axis` in order.
void writeOrdered(const Context &c, int64_t axis, int64_t count, bool descending) {
  const Reduction from(c.in[0].shape(), {axis}), to(c.out[0].shape(), {axis});
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    from.forEachGroup<T, V>(c.in[0].as<T>(), [&](int64_t i, const std::vector<V> &values) {
      const std::vector<int64_t> order = ordered(values, descending);
      for (int64_t j = 0; j < count; ++j) {
        const int64_t at = to.position(i, j);
        c.out[0].as<T>()[at] = c.in[0].as<T>()[from.position(i, order[j])];
        if (c.hasOut(1)) setIndex(c.out[1], at, order[j]);
      }
    });
  });
}

void topK(const Context &c) {
  writeOrdered(c, ops::axisOf(c.op.attributes, c.in[0].info.rank()), c.op.attrInt("k"), c.op.attrInt("largest") != 0);
}

void sort(const Context &c) {
  const int64_t axis = ops::axisOf(c.op.attributes, c.in[0].info.rank());
  writeOrdered(c, axis, c.in[0].shape()[axis], c.op.attrInt("descending") != 0);
}

void median(const Context &c) {
  const Reduction reduction(c.in[0].shape(), ops::reductionAxes(c.op.attributes, c.in[0].info.rank()));
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    reduction.forEachGroup<T, V>(c.in[0].as<T>(), [&](int64_t i, const std::vector<V> &values) {
      const int64_t middle = ordered(values, false)[(values.size() - 1) / 2];
      c.out[0].as<T>()[i] = c.in[0].as<T>()[reduction.position(i, middle)];
      if (c.hasOut(1)) setIndex(c.out[1], i, middle);
    });
  });
}

void histogram(const Context &c) {
  const auto &levels = c.op.attributes.getAttribute<std::vector<float>>("levels");
  const bool isAbsolute = c.op.attrInt("absoluteOfInput") != 0;
  auto *counts = c.out[0].as<uint32_t>();
  std::fill_n(counts, levels.size() + 1, 0u);
  for (int64_t i = 0; i < c.in[0].size(); ++i) {
    const double x = isAbsolute ? std::abs(load(c.in[0], i)) : load(c.in[0], i);
    size_t bin = 0;
    while (bin < levels.size() && !(x < levels[bin])) ++bin;
    ++counts[bin];
  }
}

// A plain binary search, in whatever order the boundaries are; NaN is greater than all of them.
void bucketize(const Context &c) {
  const bool right = c.op.attrInt("right") != 0;
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    const T *boundaries = c.in[1].as<T>();
    for (int64_t i = 0; i < c.in[0].size(); ++i) {
      const auto x = static_cast<V>(c.in[0].as<T>()[i]);
      int64_t low = 0, high = c.in[1].size();
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const auto boundary = static_cast<V>(boundaries[middle]);
        if (right ? boundary > x : boundary >= x)
          high = middle;
        else
          low = middle + 1;
      }
      c.out[0].as<int32_t>()[i] = static_cast<int32_t>(low);
    }
  });
}

constexpr Entry kOrderKernels[] = {
    {"ArgMax", argExtreme<true>}, {"ArgMin", argExtreme<false>}, {"TopK", topK},           {"Sort", sort},
    {"ReduceMedian", median},     {"Histogram", histogram},      {"Bucketize", bucketize},
};

}  // namespace

std::span<const Entry> orderKernels() { return kOrderKernels; }

}  // namespace popart::ref
