// See channel_moves.hpp.
//
//   a shuffle of two groups   (N, C, H, W) → (N, 2, C/2, H, W) → (N, C/2, 2, H, W) → (N, C, H, W)
#include "ops/shape/channel_moves.hpp"

#include <algorithm>

#include <popart/graph.hpp>

#include "ops/rules.hpp"
#include "ops/shape/slice_range.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::ops {
namespace {

std::vector<ChannelPlace> joined(const Op &op) {
  std::vector<ChannelPlace> places;
  if (axisOf(op.attributes(), op.outRank(0)) != 1) return places;
  for (const TensorIndex t : op.inputs())
    for (int64_t c = 0; c < op.getGraph().info(t).shape()[1]; ++c) places.push_back({t, c});
  return places;
}

std::vector<ChannelPlace> sliced(const Op &op) {
  const Shape &shape = op.inShape(0);
  const std::vector<SliceRange> ranges = sliceRanges(op.attributes(), shape);
  std::vector<ChannelPlace> places;
  for (size_t d = 0; d < ranges.size(); ++d)
    if (d != 1 && (ranges[d].size != shape[d] || ranges[d].step != 1)) return places;
  for (int64_t i = 0; i < ranges[1].size; ++i) places.push_back({op.inputs()[0], ranges[1].start + i * ranges[1].step});
  return places;
}

// The view that makes the tensor, or nullptr.
const Op *viewOf(const Tensor &t) {
  const Op *op = t.getProducerUnsafe();
  return op && op->has(Trait::View) && !op->isUserOp() ? op : nullptr;
}

// The dimensions of `inner` after the first whose product is the number of channels, if the transpose permutes these
// among themselves and keeps the others in place; 0: there are none.
size_t permutedDimensions(const Shape &inner, const std::vector<int64_t> &perm, const Shape &outer) {
  if (inner.empty() || inner[0] != outer[0] || perm[0] != 0) return 0;
  int64_t channels = 1;
  size_t end = 1;
  while (end < inner.size() && channels < outer[1]) channels *= inner[end++];
  if (channels != outer[1] || end == 1) return 0;
  for (size_t d = 1; d < perm.size(); ++d)
    if (const auto from = static_cast<size_t>(perm[d]); d < end ? from >= end : from != d) return 0;
  return end - 1;
}

// The channel at each position of the permuted dimensions.
std::vector<int64_t> permutedChannels(const Shape &inner, const std::vector<int64_t> &perm, size_t count) {
  const Shape sizes(inner.begin() + 1, inner.begin() + 1 + static_cast<ptrdiff_t>(count)),
      strides = stridesInOrder(sizes);
  std::vector<int64_t> channels{0};
  for (size_t d = 1; d <= count; ++d) {
    const auto from = static_cast<size_t>(perm[d] - 1);
    std::vector<int64_t> all;
    for (const int64_t channel : channels)
      for (int64_t i = 0; i < sizes[from]; ++i) all.push_back(channel + i * strides[from]);
    channels = std::move(all);
  }
  return channels;
}

ChannelMove shuffled(const Op &last) {
  ChannelMove move;
  const Tensor *x = last.inTensor(0);
  for (const Op *view; (view = viewOf(*x)); x = view->inTensor(0)) move.before.push_back(view);
  const Op *transpose = x->getProducerUnsafe();
  if (!transpose || transpose->isUserOp() || !transpose->is(Role::Transpose)) return {};
  move.before.push_back(transpose);
  const Shape &outer = last.outShape(0), &inner = transpose->inShape(0);
  auto perm = transpose->attributes().getAttribute<std::vector<int64_t>>("perm", {});
  while (perm.size() < inner.size()) perm.push_back(static_cast<int64_t>(inner.size() - 1 - perm.size()));
  const size_t count = permutedDimensions(inner, perm, outer);
  if (count == 0) return {};
  for (x = transpose->inTensor(0); x->info.shape() != outer; x = move.before.back()->inTensor(0)) {
    const Op *view = viewOf(*x);
    if (!view) return {};
    move.before.push_back(view);
  }
  for (const int64_t channel : permutedChannels(inner, perm, count)) move.places.push_back({x->index(), channel});
  return move;
}

}  // namespace

ChannelMove channelMove(const Op &op) {
  if (op.isUserOp() || op.outputCount() != 1 || !op.hasOutput(0) || op.inputCount() == 0 || op.outRank(0) < 3)
    return {};
  if (op.has(Trait::View)) return shuffled(op);
  const std::string &type = op.def().base().type();
  if (type == "Concat") return {joined(op), {}};
  if (type == "Slice") return {sliced(op), {}};
  return {};
}

}  // namespace popart::ops
