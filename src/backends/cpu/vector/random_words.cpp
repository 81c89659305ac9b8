// Computes sixteen Philox blocks at a time, in plain loops that the compiler vectorises for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/random_words.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/random_words.hpp"
// clang-format on
#include <algorithm>

#include "base/stochastic_rounding.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {

constexpr int64_t kBlocks = 16;

// The 4 kBlocks words of blocks first … first + kBlocks - 1; `stream`: the last two words of the counter.
HWY_INLINE void wordsOfBlocks(PhiloxKey key, uint64_t first, uint32_t *HWY_RESTRICT words,
                              std::array<uint32_t, 2> stream = {0, 0}) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    const uint64_t index = first + static_cast<uint64_t>(b);
    c0[b] = static_cast<uint32_t>(index), c1[b] = static_cast<uint32_t>(index >> 32), c2[b] = stream[0],
    c3[b] = stream[1];
  }
  for (int round = 0; round < 10; ++round) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[b], p1 = uint64_t{0xCD9E8D57u} * c2[b];
      c0[b] = static_cast<uint32_t>(p1 >> 32) ^ c1[b] ^ key[0];
      c1[b] = static_cast<uint32_t>(p1);
      c2[b] = static_cast<uint32_t>(p0 >> 32) ^ c3[b] ^ key[1];
      c3[b] = static_cast<uint32_t>(p0);
    }
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  for (int64_t b = 0; b < kBlocks; ++b)
    words[4 * b] = c0[b], words[4 * b + 1] = c1[b], words[4 * b + 2] = c2[b], words[4 * b + 3] = c3[b];
}

void manyWords(PhiloxKey key, uint64_t firstBlock, int64_t blocks, uint32_t *words) {
  int64_t b = 0;
  for (; b + kBlocks <= blocks; b += kBlocks) wordsOfBlocks(key, firstBlock + static_cast<uint64_t>(b), words + 4 * b);
  if (b == blocks) return;
  uint32_t last[4 * kBlocks];
  wordsOfBlocks(key, firstBlock + static_cast<uint64_t>(b), last);
  std::copy_n(last, 4 * (blocks - b), words + 4 * b);
}

void drop(const DropoutRule &rule, uint64_t firstBlock, const float *x, float *y, bool *mask, int64_t count) {
  constexpr int64_t kStep = 4 * kBlocks;
  uint32_t words[kStep];
  for (int64_t i = 0; i < count; i += kStep) {
    wordsOfBlocks(rule.key, firstBlock + static_cast<uint64_t>(i / 4), words);
    const int64_t n = std::min(kStep, count - i);
    for (int64_t k = 0; k < n; ++k) {
      const float kept = static_cast<float>(static_cast<double>(x[i + k]) * rule.scale);
      y[i + k] = words[k] >= rule.threshold ? kept : 0.0f;
    }
    for (int64_t k = 0; k < n && mask; ++k) mask[i + k] = words[k] >= rule.threshold;
  }
}

template <class Round>
HWY_INLINE void roundWith(const RoundingRule &rule, uint64_t firstBlock, const float *HWY_RESTRICT x,
                          uint16_t *HWY_RESTRICT y, int64_t count, Round round) {
  constexpr int64_t kStep = 4 * kBlocks;
  uint32_t words[kStep];
  for (int64_t i = 0; i < count; i += kStep) {
    wordsOfBlocks(rule.key, firstBlock + static_cast<uint64_t>(i / 4), words, {rule.stream, kRoundingStream});
    const int64_t n = std::min(kStep, count - i);
    for (int64_t k = 0; k < n; ++k) y[i + k] = round(x[i + k], uniformFromWord(words[k]));
  }
}

void roundAll(const RoundingRule &rule, uint64_t firstBlock, const float *x, uint16_t *y, int64_t count) {
  if (rule.toHalf)
    roundWith(rule, firstBlock, x, y, count, [](float v, float u) { return roundToHalfBits(v, u); });
  else
    roundWith(rule, firstBlock, x, y, count, [](float v, float u) { return roundToBFloat16Bits(v, u); });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(manyWords);
HWY_EXPORT(drop);
HWY_EXPORT(roundAll);

void randomWords(PhiloxKey key, uint64_t firstBlock, int64_t blocks, uint32_t *words) noexcept {
  HWY_DYNAMIC_DISPATCH(manyWords)(key, firstBlock, blocks, words);
}
void dropElements(const DropoutRule &rule, uint64_t firstBlock, const float *x, float *y, bool *mask,
                  int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(drop)(rule, firstBlock, x, y, mask, count);
}
void roundElements(const RoundingRule &rule, uint64_t firstBlock, const float *x, uint16_t *y, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(roundAll)(rule, firstBlock, x, y, count);
}
}  // namespace popart::cpu
#endif
