// Slices of channels: the layout of tensors that are parts of a concatenation and written where its result has them.
//
//   a (N, 64, H, W) channels_last_of96 ┐
//   b (N, 32, H, W) channels_last_of96 ┴ Concat(a, b) (N, 96, H, W) channels_last
//
// Each pixel of a slice is a row of its channels; rows are as far apart as those of the tensor with all channels. What
// is between them belongs to other slices. A tensor of this layout has its memory where the result of the Concat that
// reads it has these channels, and that Concat does not copy it. The result of a Concat may be a slice of another one.
#pragma once
#include <cstdint>

#include <popart/graph.hpp>

#include "executable/layout.hpp"

namespace popart::executable {

// "channels_last_of<channels>": of a tensor with so many channels, one at least.
const Layout *channelSlice(int64_t channels);
// Channels of the tensor that the slice is of: elements from one row to the next. 0: the layout is none of a slice.
int64_t channelsOfWhole(const Layout *layout);

// Whether the op is a Concat along channels.
bool joinsChannels(const Op &op);
// Whether an operand of such a Concat is a slice of its result.
bool isSlice(const Op &join, int input);
// Whether the op is a Concat whose operands all are.
bool joinsSlices(const Op &op);
// The Concat that has the tensor, a slice, in its result, and the number of the operand. Throws popart::error where not
// exactly one Concat reads it, or the rows of its result have another distance.
struct SliceOf {
  const Op *join;
  int input;
};
SliceOf wholeOf(const Tensor &slice);
// Bytes from the start of the result to that of the operand's slice.
int64_t sliceStart(const SliceOf &slice);

}  // namespace popart::executable
