// Reference kernels of reductions. The elements that reduce into one result are collected in order and folded in double
// (integers in 64 bits).
#include <algorithm>

#include "backends/ref/families.hpp"
#include "backends/ref/reduction.hpp"

namespace popart::ref {
namespace {

// One kernel per reduction: F(values) gives the result.
template <auto F>
void reduce(const Context &c) {
  const Reduction reduction(c.in[0].shape(), ops::reductionAxes(c.op.attributes, c.in[0].info.rank()));
  dispatchAll(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    reduction.forEachGroup<T, V>(c.in[0].as<T>(), [&](int64_t i, const std::vector<V> &values) {
      c.out[0].as<T>()[i] = toElement<T>(F(values));
    });
  });
}

// The largest (F = kLargest) or smallest element; of no elements: the least (greatest) value of the type.
template <auto F, bool Largest>
void extreme(const Context &c) {
  const Reduction reduction(c.in[0].shape(), ops::reductionAxes(c.op.attributes, c.in[0].info.rank()));
  dispatchAll(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    reduction.forEachGroup<T, V>(c.in[0].as<T>(), [&](int64_t i, const std::vector<V> &values) {
      if constexpr (std::is_integral_v<T>) {
        if (values.empty()) {
          c.out[0].as<T>()[i] = Largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
          return;
        }
      }
      c.out[0].as<T>()[i] = toElement<T>(F(values));
    });
  });
}

constexpr auto kSum = [](const auto &values) {
  auto total = std::remove_cvref_t<decltype(values[0])>(0);
  for (auto v : values) total = add(total, v);
  return total;
};
constexpr auto kMean = [](const auto &values) {
  using V = std::remove_cvref_t<decltype(values[0])>;
  if (std::is_integral_v<V> && values.empty()) return V(0);
  return kSum(values) / static_cast<V>(values.size());
};
constexpr auto kProduct = [](const auto &values) {
  auto total = std::remove_cvref_t<decltype(values[0])>(1);
  for (auto v : values) total = multiply(total, v);
  return total;
};
constexpr auto kSumSquare = [](const auto &values) {
  auto total = std::remove_cvref_t<decltype(values[0])>(0);
  for (auto v : values) total = add(total, multiply(v, v));
  return total;
};
constexpr auto kL1 = [](const auto &values) {
  using V = std::remove_cvref_t<decltype(values[0])>;
  V total = 0;
  for (auto v : values) total = v < V(0) ? subtract(total, v) : add(total, v);
  return total;
};
constexpr auto kL2 = [](const auto &values) {
  double total = 0;
  for (auto v : values) total += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(total);
};
constexpr auto kLogSum = [](const auto &values) { return std::log(static_cast<double>(kSum(values))); };
constexpr auto kLogSumExp = [](const auto &values) {
  double max = -std::numeric_limits<double>::infinity(), total = 0;
  for (auto v : values) max = isNan(max) || max > static_cast<double>(v) ? max : static_cast<double>(v);
  if (std::isinf(max)) return max;
  for (auto v : values) total += std::exp(static_cast<double>(v) - max);
  return max + std::log(total);
};
template <class V>
V lowest() {
  return std::numeric_limits<V>::has_infinity ? -std::numeric_limits<V>::infinity() : std::numeric_limits<V>::lowest();
}
template <class V>
V highest() {
  return std::numeric_limits<V>::has_infinity ? std::numeric_limits<V>::infinity() : std::numeric_limits<V>::max();
}
constexpr auto kLargest = [](const auto &values) {
  auto best = lowest<std::remove_cvref_t<decltype(values[0])>>();
  for (auto v : values) best = isNan(best) || best > v ? best : v;
  return best;
};
constexpr auto kSmallest = [](const auto &values) {
  auto best = highest<std::remove_cvref_t<decltype(values[0])>>();
  for (auto v : values) best = isNan(best) || best < v ? best : v;
  return best;
};

// dx[j] = g times the product of the other elements of the group.
void productGradient(const Context &c) {
  const Reduction reduction(c.in[1].shape(), ops::reductionAxes(c.op.attributes, c.in[1].info.rank()));
  dispatchNumeric(c.in[1].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    reduction.forEachGroup<T, double>(c.in[1].as<T>(), [&](int64_t i, const std::vector<double> &values) {
      std::vector<double> after(values.size() + 1, 1.0);
      for (size_t j = values.size(); j-- > 0;) after[j] = after[j + 1] * values[j];
      const double g = static_cast<double>(c.in[0].as<T>()[i]);
      double before = 1;
      for (size_t j = 0; j < values.size(); ++j) {
        c.out[0].as<T>()[reduction.position(i, static_cast<int64_t>(j))] = toElement<T>(g * before * after[j + 1]);
        before *= values[j];
      }
    });
  });
}

// Sums over the axes along which `shape` was broadcast.
void sumTo(const Context &c) {
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    const Shape &from = c.in[0].shape();
    std::vector<V> totals(c.out[0].size(), V(0));
    Walk walk(from, {broadcastStrides(c.out[0].shape(), from)});
    for (int64_t i = 0; i < c.in[0].size(); ++i, walk.next()) {
      V &total = totals[walk.offset(0)];
      total = add(total, static_cast<V>(c.in[0].as<T>()[i]));
    }
    for (size_t i = 0; i < totals.size(); ++i) c.out[0].as<T>()[i] = toElement<T>(totals[i]);
  });
}

void cumulativeSum(const Context &c) {
  const AxisSplit split(c.in[0].shape(), ops::axisOf(c.op.attributes, c.in[0].info.rank()));
  const bool exclusive = c.op.attrInt("exclusive") != 0, reverse = c.op.attrInt("reverse") != 0;
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    using V = AccumulatorT<T>;
    for (int64_t line = 0; line < split.outer * split.inner; ++line) {
      const int64_t base = line / split.inner * split.length * split.inner + line % split.inner;
      V total = 0;
      for (int64_t k = 0; k < split.length; ++k) {
        const int64_t at = base + (reverse ? split.length - 1 - k : k) * split.inner;
        const V next = add(total, static_cast<V>(c.in[0].as<T>()[at]));
        c.out[0].as<T>()[at] = toElement<T>(exclusive ? total : next);
        total = next;
      }
    }
  });
}

constexpr Entry kReduceKernels[] = {
    {"ReduceSum", reduce<kSum>},
    {"ReduceMean", reduce<kMean>},
    {"ReduceProd", reduce<kProduct>},
    {"ReduceL1", reduce<kL1>},
    {"ReduceL2", reduce<kL2>},
    {"ReduceSumSquare", reduce<kSumSquare>},
    {"ReduceLogSum", reduce<kLogSum>},
    {"ReduceLogSumExp", reduce<kLogSumExp>},
    {"ReduceMax", extreme<kLargest, true>},
    {"ReduceMin", extreme<kSmallest, false>},
    {"ReduceProdGrad", productGradient},
    {"ReduceSumTo", sumTo},
    {"CumSum", cumulativeSum},
};

}  // namespace

std::span<const Entry> reduceKernels() { return kReduceKernels; }

}  // namespace popart::ref
