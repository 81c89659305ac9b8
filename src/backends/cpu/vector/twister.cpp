// Plain loops that the compiler vectorises for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/twister.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/twister.hpp"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {

constexpr int kWords = Twister::kWords, kMiddle = 397;
constexpr int64_t kPiece = 1024;  // numbers that stay in the first level cache between steps

HWY_INLINE uint32_t twisted(uint32_t upper, uint32_t lower) {
  const uint32_t joined = (upper & 0x80000000u) | (lower & 0x7FFFFFFFu);
  return (joined >> 1) ^ ((0u - (lower & 1u)) & 0x9908B0DFu);
}

HWY_INLINE uint32_t tempered(uint32_t word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9D2C5680u;
  word ^= (word << 15) & 0xEFC60000u;
  return word ^ (word >> 18);
}

HWY_INLINE void nextBlock(Twister &generator) {
  uint32_t *key = generator.key.data();
  int i = 0;
  for (; i < kWords - kMiddle; ++i) key[i] = key[i + kMiddle] ^ twisted(key[i], key[i + 1]);
  for (; i < kWords - 1; ++i) key[i] = key[i + kMiddle - kWords] ^ twisted(key[i], key[i + 1]);
  key[i] = key[kMiddle - 1] ^ twisted(key[i], key[0]);
  generator.position = 0;
}

void skip(Twister &generator, int64_t count) {
  while (count > kWords - generator.position) {
    count -= kWords - generator.position;
    nextBlock(generator);
  }
  generator.position += static_cast<int>(count);
}

HWY_INLINE void drawWords(Twister &generator, uint32_t *HWY_RESTRICT words, int64_t count) {
  while (count > 0) {
    if (generator.position == kWords) nextBlock(generator);
    const int n = static_cast<int>(std::min<int64_t>(kWords - generator.position, count));
    const uint32_t *key = generator.key.data() + generator.position;
    for (int i = 0; i < n; ++i) words[i] = tempered(key[i]);
    generator.position += n, words += n, count -= n;
  }
}

HWY_INLINE void drawPiece(Twister &generator, double *HWY_RESTRICT uniform, int64_t count) {
  uint32_t words[2 * kPiece];
  drawWords(generator, words, 2 * count);
  for (int64_t i = 0; i < count; ++i) {
    const double high = static_cast<int32_t>(words[2 * i] >> 5), low = static_cast<int32_t>(words[2 * i + 1] >> 6);
    uniform[i] = (high * 0x1p26 + low) * 0x1p-53;
  }
}

// The x below which a share 1/2 + q of normal numbers is, for -2 <= x <= 2, is q times a smooth function of r = kSquare
// - q². The quotient of these polynomials, highest power first, approximates it: at 27 Chebyshev points, the error is
// at most 6e-17 of its value. All terms are positive, so that no digits cancel.
constexpr double kSquare = 0.2278;  // a little above the largest q²
constexpr double kAbove[] = {711991111.1489861, 27293711782.04019,  160311492641.39493, 327697417876.92035,
                             307776808793.5585, 152701581459.24542, 43414204784.77227,  7435362309.66561,
                             789749822.7477077, 52625517.98201443,  2182539.2121949075, 54303.924541347726,
                             737.8836042441884, 4.191702065125157};
constexpr double kBelow[] = {2299846737.0665936, 34641340292.76666,
                             132427266017.81137, 205131080475.80164,
                             157330525809.64023, 66676024754.794716,
                             16691386237.600666, 2573304905.659616,
                             250236224.05958688, 15471792.986068347,
                             601851.5385147339,  14170.668256301315,
                             183.55023365923094, 1.0};

template <size_t N>
HWY_INLINE double polynomial(const double (&coefficients)[N], double r) {
  double sum = coefficients[0];
  for (size_t i = 1; i < N; ++i) sum = sum * r + coefficients[i];
  return sum;
}

HWY_INLINE double quantile(double q) {
  const double r = kSquare - q * q;
  return q * (polynomial(kAbove, r) / polynomial(kBelow, r));
}

template <class T>
HWY_INLINE void normals(const double *uniform, double deviation, T *numbers, int64_t count) {
  constexpr double kCut = 0.022750131948179207;  // share of the normal numbers below -2
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = static_cast<T>(quantile((uniform[i] - 0.5) * (1 - 2 * kCut)) * deviation);
}

template <class T>
HWY_INLINE void drawNormals(Twister &generator, double deviation, T *numbers, int64_t count) {
  double uniform[kPiece];
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t n = std::min(kPiece, count - i);
    drawPiece(generator, uniform, n);
    normals(uniform, deviation, numbers + i, n);
  }
}

void floats(const double *uniform, double deviation, float *numbers, int64_t count) {
  normals(uniform, deviation, numbers, count);
}
void doubles(const double *uniform, double deviation, double *numbers, int64_t count) {
  normals(uniform, deviation, numbers, count);
}
void drawFloats(Twister &generator, double deviation, float *numbers, int64_t count) {
  drawNormals(generator, deviation, numbers, count);
}
void drawDoubles(Twister &generator, double deviation, double *numbers, int64_t count) {
  drawNormals(generator, deviation, numbers, count);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(skip);
HWY_EXPORT(floats);
HWY_EXPORT(doubles);
HWY_EXPORT(drawFloats);
HWY_EXPORT(drawDoubles);

void skipWords(Twister &generator, int64_t count) noexcept { HWY_DYNAMIC_DISPATCH(skip)(generator, count); }
template <>
void cutNormal(const double *uniform, double deviation, float *numbers, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(floats)(uniform, deviation, numbers, count);
}
template <>
void cutNormal(const double *uniform, double deviation, double *numbers, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(doubles)(uniform, deviation, numbers, count);
}
template <>
void drawCutNormal(Twister &generator, double deviation, float *numbers, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(drawFloats)(generator, deviation, numbers, count);
}
template <>
void drawCutNormal(Twister &generator, double deviation, double *numbers, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(drawDoubles)(generator, deviation, numbers, count);
}
}  // namespace popart::cpu
#endif
