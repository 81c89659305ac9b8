// See operand_view.hpp.
#include "ops/fused/operand_view.hpp"

#include <popart/graph.hpp>

#include "ops/fused/permutation.hpp"

namespace popart::ops {
namespace {

// Whether all elements of a view are among the first `elements` of a tensor. Values may be of any size.
bool isInside(const OperandView &view, int64_t elements) {
  if (view.offset < 0 || view.offset >= elements) return false;
  int64_t left = elements - 1 - view.offset;  // elements after the last one so far
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    const int64_t steps = view.sizes[d] - 1, stride = view.strides[d];
    if (steps < 0 || stride < 0) return false;
    if (steps > 0 && stride > left / steps) return false;
    left -= steps * stride;
  }
  return true;
}

}  // namespace

OperandView wholeOf(const Shape &shape) { return {0, shape, stridesInOrder(shape)}; }

OperandView permuted(const OperandView &view, const std::vector<int64_t> &perm) {
  OperandView result{view.offset, {}, {}};
  for (const int64_t d : perm) {
    result.sizes.push_back(view.sizes[static_cast<size_t>(d)]);
    result.strides.push_back(view.strides[static_cast<size_t>(d)]);
  }
  return result;
}

// A step along a dimension of the view must be a number of steps along one dimension of the result, and stay inside it.
std::optional<OperandView> viewThrough(const OperandView &view, const Shape &shape, const StridedView &of) {
  const Shape own = stridesInOrder(shape);
  OperandView result{of.offset, view.sizes, Shape(view.sizes.size(), 0)};
  Shape last(shape.size());  // position of the last element
  int64_t rest = view.offset;
  for (size_t d = 0; d < shape.size(); rest %= own[d], ++d) {
    last[d] = rest / own[d];
    result.offset += last[d] * of.strides[d];
  }
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) continue;
    size_t d = 0;
    while (d < shape.size() && (shape[d] == 1 || view.strides[i] % own[d] != 0)) ++d;
    if (d == shape.size() || of.strides[d] < 0) return std::nullopt;
    const int64_t step = view.strides[i] / own[d];
    last[d] += (view.sizes[i] - 1) * step;
    result.strides[i] = step * of.strides[d];
  }
  for (size_t d = 0; d < shape.size(); ++d)
    if (last[d] >= shape[d]) return std::nullopt;
  return result;
}

std::vector<int64_t> toInts(const OperandView &view) {
  std::vector<int64_t> ints{view.offset};
  ints.insert(ints.end(), view.sizes.begin(), view.sizes.end());
  ints.insert(ints.end(), view.strides.begin(), view.strides.end());
  return ints;
}

OperandView viewOf(const Op &op, const char *name) {
  const auto &ints = op.attrInts(name);
  const auto sizes = ints.begin() + 1, strides = sizes + static_cast<ptrdiff_t>(ints.size() / 2);
  return {ints.front(), Shape(sizes, strides), Shape(strides, ints.end())};
}

Shape viewInside(InferContext &c, const char *view, int64_t elements) {
  const auto &ints = c.attrInts(view);
  c.require(ints.size() >= 5 && ints.size() % 2 == 1,
            "{} has {} numbers, expected an offset, then sizes and strides of at least two dimensions", view,
            ints.size());
  OperandView v = viewOf(c.op(), view);
  c.require(isInside(v, elements), "{} is not inside a tensor of {} elements: got {}", view, elements, ints);
  elementCount(v.sizes);  // throws if repeated elements make it too large
  return std::move(v.sizes);
}

Shape arranged(InferContext &c, int input, const char *perm, const char *view) {
  if (!c.hasAttr(view)) return permuted(c, perm, c.shape(input));
  c.require(!c.hasAttr(perm), "it has {} and {}, expected one of them", perm, view);
  return viewInside(c, view, c.in(input).nelms());
}

}  // namespace popart::ops
