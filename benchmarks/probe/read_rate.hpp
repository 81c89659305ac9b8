// How fast memory can be read.
#pragma once
#include <cstddef>

namespace popart::bench {

// Sum of `count` floats (a multiple of 512, 64-byte aligned), read with the widest vectors of the processor in chains
// that do not wait for one another.
float sumOf(const float *data, size_t count);

}  // namespace popart::bench
