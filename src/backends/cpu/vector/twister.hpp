// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998) with the state of NumPy's generator, and normal numbers
// from its words; compiled per instruction set.
#pragma once
#include <array>
#include <cstdint>

namespace popart::cpu {

struct Twister {
  static constexpr int kWords = 624;
  std::array<uint32_t, kWords> key{};  // of the recurrence, before tempering
  int position = kWords;               // number of words drawn from `key`
};

// Advances the generator as if `count` words were drawn.
void skipWords(Twister &generator, int64_t count) noexcept;

// numbers[i] = the quantile uniform[i], 0 <= uniform[i] <= 1, of the normal distribution with mean 0 and this
// deviation, truncated at two deviations on both sides. Its relative error is below 1e-15 before it is rounded to T,
// float or double.
template <class T>
void cutNormal(const double *uniform, double deviation, T *numbers, int64_t count) noexcept;

// The same for the next 2 count words: a uniform number is one of 2^53 equally likely ones, made from 27 bits of a word
// and 26 bits of the next one, as in NumPy's random_sample.
template <class T>
void drawCutNormal(Twister &generator, double deviation, T *numbers, int64_t count) noexcept;

}  // namespace popart::cpu
