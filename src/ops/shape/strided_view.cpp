// See strided_view.hpp.
#include "ops/shape/strided_view.hpp"

#include <popart/graph.hpp>

#include "ops/rules.hpp"
#include "ops/shape/slice_range.hpp"

namespace popart::ops {
namespace {

StridedView selected(Shape strides, const std::vector<SliceRange> &ranges) {
  StridedView view{0, std::move(strides)};
  for (size_t d = 0; d < ranges.size(); ++d)
    view.offset += ranges[d].start * view.strides[d], view.strides[d] *= ranges[d].step;
  return view;
}

StridedView permuted(const Op &op, const Shape &own) {
  const auto perm = op.attributes().getAttribute<std::vector<int64_t>>("perm", {});
  StridedView view;
  for (size_t d = 0; d < own.size(); ++d)
    view.strides.push_back(perm.empty() ? own[own.size() - 1 - d] : own[static_cast<size_t>(perm[d])]);
  return view;
}

StridedView repeated(const Op &op, const Shape &own) {
  const Shape &shape = op.inShape(0);
  StridedView view{0, Shape(op.outShape(0).size(), 0)};
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) view.strides[view.strides.size() - shape.size() + d] = own[d];
  return view;
}

// For one position that is known and inside the axis.
std::optional<StridedView> gathered(const Op &op, Shape strides) {
  const Tensor &position = *op.inTensor(1);
  const bool isKnown = position.tensorType() == TensorType::Const && position.hasTensorData();
  if (!isKnown || position.info.nelms() != 1 || op.attrInt("group_size") != 1) return std::nullopt;
  const auto axis = static_cast<size_t>(axisOf(op.attributes(), op.inRank(0)));
  const int64_t size = op.inShape(0)[axis];
  int64_t at = position.tensorData().asInts()[0];
  if (at < 0 && op.attrInt("zero_OOR") == 0) at += size;
  if (at < 0 || at >= size) return std::nullopt;
  const int64_t offset = at * strides[axis];
  const auto place = strides.erase(strides.begin() + static_cast<ptrdiff_t>(axis));
  strides.insert(place, position.info.shape().size(), 0);  // along dimensions of size 1
  return StridedView{offset, std::move(strides)};
}

std::vector<SliceRange> reversedRanges(const Op &op) {
  std::vector<SliceRange> ranges;
  for (const int64_t size : op.inShape(0)) ranges.push_back({0, 1, size});
  for (const int64_t d : op.attrInts("dimensions")) {
    SliceRange &range = ranges[static_cast<size_t>(d)];
    range = {range.size - 1, -1, range.size};
  }
  return ranges;
}

}  // namespace

Shape stridesInOrder(const Shape &shape, int64_t step) {
  Shape strides(shape.size());
  for (size_t d = shape.size(); d-- > 0; step *= shape[d]) strides[d] = step;
  return strides;
}

std::vector<int64_t> inversePermutation(const std::vector<int64_t> &perm) {
  std::vector<int64_t> result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}

std::optional<StridedView> stridedView(const Op &op) {
  if (op.isUserOp() || op.inputCount() == 0) return std::nullopt;
  const std::string &type = op.def().base().type();
  const auto own = [&] { return stridesInOrder(op.inShape(0)); };
  if (type == "Transpose") return permuted(op, own());
  if (type == "Slice") return selected(own(), sliceRanges(op.attributes(), op.inShape(0)));
  if (type == "Reverse") return selected(own(), reversedRanges(op));
  if (type == "Expand") return repeated(op, own());
  if (type == "Gather") return gathered(op, own());
  return std::nullopt;
}

}  // namespace popart::ops
