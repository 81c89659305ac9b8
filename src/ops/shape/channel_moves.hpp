// Ops that move whole channels of tensors (N, C, spatial…) without computing.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/ids.hpp>

namespace popart {
class Op;
}

namespace popart::ops {

// A channel of one of the tensors in the op's graph.
struct ChannelPlace {
  TensorIndex tensor;
  int64_t channel = 0;
};

// The effect of Concat and Slice along dimension 1, and of the last op of a shuffle, which views the channels as
// several dimensions, transposes those, and views them as one again.
struct ChannelMove {
  std::vector<ChannelPlace> places;  // where each channel of output 0 comes from; empty for any other op
  std::vector<const Op *> before;    // ops whose work is included: the transpose and views of a shuffle
};

// Shapes must be known; output 0 has three dimensions or more.
ChannelMove channelMove(const Op &op);

}  // namespace popart::ops
