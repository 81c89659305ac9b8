// Philox4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). Block b of a stream with key (k0, k1) has four words; element i takes word i % 4 of block i
// / 4, so numbers depend on key and position only, never on threads or order.
#pragma once
#include <array>
#include <cstdint>

namespace popart {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

inline PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * counter[0], p1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// Block `index` of the stream of `seed`: elements 4 index … 4 index + 3.
inline PhiloxBlock randomBlock(PhiloxKey seed, uint64_t index) {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0}, seed);
}

// Uniform in [0, 1), a multiple of 2^-24.
inline float uniformFromWord(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// A dropout mask keeps an element if its word is at least this threshold: P(drop) = ratio up to 2^-32.
inline uint32_t dropoutThreshold(float ratio) {
  const double scaled = static_cast<double>(ratio) * 0x1p32;
  return scaled >= 0x1p32 ? 0xffffffffu : static_cast<uint32_t>(scaled);
}

// The last counter word separates streams of one seed: seeds and roundings never use the same blocks as tensor
// elements.
constexpr uint32_t kSeedStream = 1, kRoundingStream = 2;

// Block `index` of stream `stream` of the roundings of `seed`.
inline PhiloxBlock roundingBlock(PhiloxKey seed, uint64_t index, uint32_t stream) {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream, kRoundingStream}, seed);
}

// Seed number `modifier` derived from `seed`: word 0 stays, word 1 is random with key (word 0, word 1 + modifier).
inline PhiloxKey modifySeed(PhiloxKey seed, uint32_t modifier) {
  return {seed[0], philox4x32({0, 0, 0, kSeedStream}, {seed[0], seed[1] + modifier})[0]};
}

// The seed of the next micro-batch: a step of a 64-bit Weyl sequence, which repeats only after 2^64 steps.
inline PhiloxKey advanceSeed(PhiloxKey seed) {
  const uint64_t next = (uint64_t{seed[1]} << 32 | seed[0]) + 0x9E3779B97F4A7C15u;
  return {static_cast<uint32_t>(next), static_cast<uint32_t>(next >> 32)};
}

}  // namespace popart
