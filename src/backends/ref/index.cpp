// Reference kernels that read at index positions, and dynamic windows. Negative indices count from the end; an index
// that is out of range reads 0 and writes nothing, so no kernel ever accesses memory outside its operands, and is
// reported unless the operator defines it.
#include <cstring>

#include "backends/ref/families.hpp"
#include "backends/ref/index_position.hpp"
#include "backends/ref/loops.hpp"
#include "ops/rules.hpp"

namespace popart::ref {
namespace {

// Calls f(offset of a slice in data or -1, offset of the slice in the gathered tensor, elements per slice).
template <class F>
void forEachGathered(const Context &c, const Shape &data, F f) {
  const int64_t axis = ops::axisOf(c.op.attributes, static_cast<int64_t>(data.size()));
  const int64_t group = c.op.attrInt("group_size");
  const bool wrap = c.op.attrInt("zero_OOR") == 0;
  const AxisSplit split(data, axis);
  const int64_t count = c.in[1].size() / group;  // indices per group
  for (int64_t o = 0; o < split.outer; ++o) {
    const int64_t inGroup = group > 1 ? o / (split.outer / group) * count : 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = wrap ? placeOf(c, 1, inGroup + k, split.length)
                              : positionOf(indexAt(c.in[1], inGroup + k), split.length, false);
      f(at < 0 ? -1 : (o * split.length + at) * split.inner, (o * count + k) * split.inner, split.inner);
    }
  }
}

void gather(const Context &c) {
  const int64_t bytes = getDataTypeInfo(c.in[0].info.dataType()).nbytes;
  if (c.out[0].size() == 0) return;
  forEachGathered(c, c.in[0].shape(), [&](int64_t from, int64_t to, int64_t elements) {
    char *target = c.out[0].as<char>() + to * bytes;
    if (from < 0)
      std::memset(target, 0, elements * bytes);
    else
      std::memcpy(target, c.in[0].as<char>() + from * bytes, elements * bytes);
  });
}

void gatherGradient(const Context &c) {
  if (c.out[0].size() == 0) return;
  dispatchNumeric(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<double> totals(c.out[0].size(), 0.0);
    forEachGathered(c, c.out[0].shape(), [&](int64_t at, int64_t from, int64_t elements) {
      for (int64_t e = 0; at >= 0 && e < elements; ++e)
        totals[at + e] += static_cast<double>(c.in[0].as<T>()[from + e]);
    });
    for (size_t i = 0; i < totals.size(); ++i) c.out[0].as<T>()[i] = toElement<T>(totals[i]);
  });
}

void gatherElements(const Context &c) {
  const int64_t bytes = getDataTypeInfo(c.in[0].info.dataType()).nbytes;
  forEachElementPosition(c, c.in[0].shape(), [&](int64_t at, int64_t i) {
    char *target = c.out[0].as<char>() + i * bytes;
    if (at < 0)
      std::memset(target, 0, bytes);
    else
      std::memcpy(target, c.in[0].as<char>() + at * bytes, bytes);
  });
}

void gatherND(const Context &c) {
  const int64_t bytes = getDataTypeInfo(c.in[0].info.dataType()).nbytes;
  if (c.out[0].size() == 0) return;
  forEachSlicePosition(c, c.in[0].shape(), c.op.attrInt("batch_dims"), [&](int64_t at, int64_t i, int64_t elements) {
    char *target = c.out[0].as<char>() + i * bytes;
    if (at < 0)
      std::memset(target, 0, elements * bytes);
    else
      std::memcpy(target, c.in[0].as<char>() + at * bytes, elements * bytes);
  });
}

void gatherNDGradient(const Context &c) {
  dispatchNumeric(c.out[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<double> totals(c.out[0].size(), 0.0);
    forEachSlicePosition(c, c.out[0].shape(), c.op.attrInt("batch_dims"), [&](int64_t at, int64_t i, int64_t elements) {
      for (int64_t e = 0; at >= 0 && e < elements; ++e) totals[at + e] += static_cast<double>(c.in[0].as<T>()[i + e]);
    });
    for (size_t i = 0; i < totals.size(); ++i) c.out[0].as<T>()[i] = toElement<T>(totals[i]);
  });
}

void oneHot(const Context &c) {
  const int64_t axis = ops::axisOf(c.op.attributes, c.out[0].info.rank());
  const AxisSplit split(c.out[0].shape(), axis);
  const int64_t bytes = getDataTypeInfo(c.out[0].info.dataType()).nbytes;
  dispatchNumeric(c.in[0].info.dataType(), [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < c.out[0].size(); ++i) {
      const int64_t outer = i / (split.length * split.inner), k = i / split.inner % split.length,
                    inner = i % split.inner;
      const int64_t index =
          toElement<int64_t>(static_cast<AccumulatorT<T>>(c.in[0].as<T>()[outer * split.inner + inner]));
      const bool on = positionOf(index, split.length, true) == k;
      std::memcpy(c.out[0].as<char>() + i * bytes, c.in[1].as<char>() + (on ? bytes : 0), bytes);
    }
  });
}

// Calls f(offset in the whole tensor or -1, offset in the window) for every element of the window.
template <class F>
void forEachWindowElement(const Context &c, const Shape &whole, F f) {
  Shape window = whole;
  std::vector<int64_t> start(whole.size(), 0);
  const auto &axes = c.op.attrInts("axes"), &sizes = c.op.attrInts("sizes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalizeAxis(axes[i], static_cast<int64_t>(whole.size()), "axes");
    window[axis] = sizes[i];
    start[axis] = indexAt(c.in[1], static_cast<int64_t>(i));
    const int64_t last = whole[axis] - sizes[i];
    if (start[axis] < 0 || start[axis] > last)
      c.report(executable::FailureKind::Offset, 1, static_cast<int64_t>(i), start[axis], 0, last);
  }
  const Shape strides = elementStrides(whole);
  Walk walk(window, {});
  const int64_t count = elementCount(window);
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    int64_t at = 0;
    for (size_t d = 0; d < whole.size() && at >= 0; ++d) {
      const int64_t position = positionOf(start[d], whole[d], false) < 0 ? -1 : start[d] + walk.coordinates()[d];
      at = position < 0 || position >= whole[d] ? -1 : at + position * strides[d];
    }
    f(at, i);
  }
}

void dynamicSlice(const Context &c) {
  const int64_t bytes = getDataTypeInfo(c.in[0].info.dataType()).nbytes;
  forEachWindowElement(c, c.in[0].shape(), [&](int64_t at, int64_t i) {
    char *target = c.out[0].as<char>() + i * bytes;
    if (at < 0)
      std::memset(target, 0, bytes);
    else
      std::memcpy(target, c.in[0].as<char>() + at * bytes, bytes);
  });
}

enum class Write { Update, Add, Zero };

template <Write W>
void dynamicWrite(const Context &c) {
  if (c.out[0].data != c.in[0].data && c.out[0].info.nbytes() > 0)
    std::memcpy(c.out[0].data, c.in[0].data, c.out[0].info.nbytes());
  const auto write = [&](auto tag) {
    using T = decltype(tag);
    T *y = c.out[0].as<T>();
    forEachWindowElement(c, c.out[0].shape(), [&](int64_t at, int64_t i) {
      if (at < 0) return;
      if constexpr (W == Write::Add)
        y[at] = toElement<T>(add<AccumulatorT<T>>(y[at], c.in[2].as<T>()[i]));
      else
        y[at] = W == Write::Zero ? T{} : c.in[2].as<T>()[i];
    });
  };
  if constexpr (W == Write::Add)
    dispatchNumeric(c.out[0].info.dataType(), write);
  else
    dispatchMoved(c.out[0].info.dataType(), write);
}

constexpr Entry kIndexKernels[] = {
    {"Gather", gather},
    {"GatherGrad", gatherGradient},
    {"GatherElements", gatherElements},
    {"GatherND", gatherND},
    {"GatherNDGrad", gatherNDGradient},
    {"OneHot", oneHot},
    {"DynamicSlice", dynamicSlice},
    {"DynamicUpdate", dynamicWrite<Write::Update>},
    {"DynamicAdd", dynamicWrite<Write::Add>},
    {"DynamicZero", dynamicWrite<Write::Zero>},
};

}  // namespace

std::span<const Entry> indexKernels() { return kIndexKernels; }

}  // namespace popart::ref
