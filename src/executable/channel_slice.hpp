// Channel slices: the layout of tensors that are parts of a concatenation and are written directly into its result.
//
//   a (N, 64, H, W) channels_last_of96 ┐
//   b (N, 32, H, W) channels_last_of96 ┴ Concat(a, b) (N, 96, H, W) channels_last
//
// Each pixel of a slice is a row of its channels. The distance between rows is that of the tensor with all channels;
// the memory in between belongs to other slices. A tensor of this layout is stored where the result of the Concat that
// reads it has these channels, so the Concat does not copy it. The result of a Concat may be a slice of another one.
#pragma once
#include <cstdint>

#include <popart/graph.hpp>

#include "executable/layout.hpp"

namespace popart::executable {

// "channels_last_of<channels>": a slice of a tensor with this number of channels, at least one.
const Layout *channelSlice(int64_t channels);
// Channels of the whole tensor: the number of elements from one row to the next. 0: the layout is not a slice.
int64_t channelsOfWhole(const Layout *layout);

// Whether the op is a Concat along channels.
bool joinsChannels(const Op &op);
// Whether an operand of such a Concat is a slice of its result.
bool isSlice(const Op &join, int input);
// Whether the op is a Concat whose operands are all slices of its result.
bool joinsSlices(const Op &op);
// The Concat whose result contains the tensor, a slice, and the number of the operand. Throws popart::error unless
// exactly one Concat reads it, and the rows of its result have the same distance.
struct SliceOf {
  const Op *join;
  int input;
};
SliceOf wholeOf(const Tensor &slice);
// Bytes from the start of the result to the start of the operand's slice.
int64_t sliceStart(const SliceOf &slice);

}  // namespace popart::executable
