// Channels that are joined, split and shuffled around convolutions are copied at most once.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   c = Concat(a, b); s = shuffle of c's channels; x = Slice(s)   →   x = PickChannels(a, b)
//
// for results of such moves (ops/shape/channel_moves.hpp) that a spatial op reads or whose sources it made. Results
// that only moves read are not computed. If all ops that depend on the order of the channels are convolutions with
// constant weights, up to those that sum over the channels, then the channels keep the order of their sources and the
// weights are permuted; this changes the order of the sums. Flat graphs only.
void pickChannels(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
