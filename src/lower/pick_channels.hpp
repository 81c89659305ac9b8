// Channels that are joined, cut and shuffled around convolutions are copied at most once.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   c = Concat(a, b); s = shuffle of c's channels; x = Slice(s)   →   x = PickChannels(a, b)
//
// for what other ops read of such moves (ops/shape/channel_moves.hpp), when a spatial op reads it or made one of its
// sources. What nothing but moves reads is not made. Where all that depends on the order of the channels are
// convolutions with constant weights, up to those that sum over them, the channels are picked in the order of their
// sources, and the weights follow: the sums are then added in another order. Flat graphs only.
void pickChannels(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
