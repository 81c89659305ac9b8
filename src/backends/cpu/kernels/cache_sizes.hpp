// Cache sizes, from which block sizes derive. They decide how work is split, never the order of a sum.
#pragma once
#include <cstdint>

namespace popart::cpu {

constexpr int64_t kCacheLineFloats = 16;

// Bytes of the second level cache of one core, as the system reports it; 1 MiB if it reports nothing.
int64_t secondLevelCacheBytes();

// Bytes of the last level cache that cores share, as the system reports it; 32 MiB if it reports nothing.
int64_t lastLevelCacheBytes();

// Bytes of the panels of B that a product reads repeatedly. They share the second level cache with rows of A and C.
int64_t panelBytesAtOnce();

}  // namespace popart::cpu
