// Convolutions compute means of their results while these are in the cache.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   y = FusedConv(x, w); m = ReduceMean(y; axes = spatial)   →   y, m = FusedConv(x, w; means_of = 0)
// if the backend has a kernel for it, as for squeeze-and-excite after a depthwise convolution. Results keep their bits.
// Runs after assignChannelsLast, so that it does not decide the layout of y. Flat graphs only.
void fuseMeans(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
