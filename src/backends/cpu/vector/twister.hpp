// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998) with the state that NumPy's generator has, and normal
// numbers of its words; compiled per instruction set.
#pragma once
#include <array>
#include <cstdint>

namespace popart::cpu {

struct Twister {
  static constexpr int kWords = 624;
  std::array<uint32_t, kWords> key{};  // of the recurrence, before tempering
  int position = kWords;               // how many of them were drawn
};

// Moves the generator on as if `count` words were drawn.
void skipWords(Twister &generator, int64_t count) noexcept;

// numbers[i] = the normal number of mean 0 and this deviation, cut at two deviations on both sides, below which a share
// uniform[i] of them lies, 0 <= uniform[i] <= 1. Its relative error is below 1e-15 before it is rounded to T, float or
// double.
template <class T>
void cutNormal(const double *uniform, double deviation, T *numbers, int64_t count) noexcept;

// The same of the next 2 count words: a share is one of 2^53 equally likely ones, made of 27 bits of a word and 26 bits
// of the next one, as NumPy's random_sample makes it.
template <class T>
void drawCutNormal(Twister &generator, double deviation, T *numbers, int64_t count) noexcept;

}  // namespace popart::cpu
