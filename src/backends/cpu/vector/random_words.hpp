// Philox words in bulk (base/philox.hpp), dropout and rounding with them; compiled per instruction set.
// Invariant: element i uses word i % 4 of block i / 4, as in the reference backend, so the bits do not depend on how
// ranges are split.
#pragma once
#include <cstdint>

#include "base/philox.hpp"

namespace popart::cpu {

// words[4 b + k] = word k of block firstBlock + b, for `blocks` blocks.
void randomWords(PhiloxKey key, uint64_t firstBlock, int64_t blocks, uint32_t *words) noexcept;

// y[i] = x[i] scale (product in double) if the word is at least `threshold`, else 0; mask[i] says which (nullptr: not
// written). Element 0 uses word 0 of block firstBlock. y may be x.
struct DropoutRule {
  PhiloxKey key{};
  uint32_t threshold = 0;
  double scale = 1;
};
void dropElements(const DropoutRule &rule, uint64_t firstBlock, const float *x, float *y, bool *mask,
                  int64_t count) noexcept;

// y[i] = bits of x[i] with stochastic rounding (base/stochastic_rounding.hpp) to FLOAT16, else BFLOAT16. Element 0 uses
// word 0 of block firstBlock of the stream.
struct RoundingRule {
  PhiloxKey key{};
  uint32_t stream = 0;
  bool toHalf = true;
};
void roundElements(const RoundingRule &rule, uint64_t firstBlock, const float *x, uint16_t *y, int64_t count) noexcept;

}  // namespace popart::cpu
