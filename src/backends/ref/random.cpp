// Reference kernels of random numbers, dropout and seeds (base/philox.hpp). Element i of a tensor uses word i % 4 of
// block i / 4 of the seed's stream. Normal numbers come in pairs by Box and Muller: words (0, 1) make elements 0 and 1
// of a block, words (2, 3) elements 2 and 3.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"

namespace popart::ref {
namespace {

PhiloxKey seedOf(const View &v) { return {v.as<const uint32_t>()[0], v.as<const uint32_t>()[1]}; }

// f(i, word) for every element.
template <class F>
void forWords(PhiloxKey seed, int64_t count, F &&f) {
  for (int64_t i = 0; i < count; i += 4) {
    const PhiloxBlock block = randomBlock(seed, static_cast<uint64_t>(i / 4));
    for (int64_t k = 0; k < std::min<int64_t>(4, count - i); ++k) f(i + k, block[k]);
  }
}

// The next representable number towards minus infinity.
template <class T>
T below(T value) {
  if constexpr (sizeof(T) == 2) {
    const uint16_t bits = value.bits();
    if (static_cast<float>(value) == 0.0f) return T::fromBits(0x8001);
    return T::fromBits(static_cast<uint16_t>((bits & 0x8000u) != 0 ? bits + 1 : bits - 1));
  } else {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

// Rounding to T may give `high`, which is not part of the interval.
void randomUniform(const Context &c) {
  const float low = c.op.attrFloat("low"), high = c.op.attrFloat("high");
  dispatchFloat(c.out[0].info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    T *out = c.out[0].as<T>();
    forWords(seedOf(c.in[0]), c.out[0].size(), [&](int64_t i, uint32_t word) {
      const T value = static_cast<T>(low + uniformFromWord(word) * (high - low));
      out[i] = high > low && static_cast<double>(value) >= double{high} ? below(static_cast<T>(high)) : value;
    });
  });
}

void randomNormal(const Context &c) {
  const float mean = c.op.attrFloat("mean"), scale = c.op.attrFloat("scale");
  const PhiloxKey seed = seedOf(c.in[0]);
  const int64_t count = c.out[0].size();
  for (int64_t i = 0; i < count; i += 4) {
    const PhiloxBlock block = randomBlock(seed, static_cast<uint64_t>(i / 4));
    for (int64_t pair = 0; pair < 2; ++pair) {
      // 1 - u is in (0, 1], so the logarithm is finite.
      const double radius = std::sqrt(-2.0 * std::log(1.0 - double{uniformFromWord(block[2 * pair])}));
      const double angle = 2.0 * std::numbers::pi * double{uniformFromWord(block[2 * pair + 1])};
      const int64_t first = i + 2 * pair;
      if (first < count) store(c.out[0], first, mean + scale * radius * std::cos(angle));
      if (first + 1 < count) store(c.out[0], first + 1, mean + scale * radius * std::sin(angle));
    }
  }
}

void bernoulli(const Context &c) {
  forWords(seedOf(c.in[1]), c.out[0].size(), [&](int64_t i, uint32_t word) {
    store(c.out[0], i, double{uniformFromWord(word)} < load(c.in[0], i) ? 1.0 : 0.0);
  });
}

void dropMasked(const Context &c) {
  const float ratio = c.op.attrFloat("ratio");
  const uint32_t threshold = dropoutThreshold(ratio);
  const double scale = 1.0 / (1.0 - double{ratio});
  forWords(seedOf(c.in[1]), c.in[0].size(), [&](int64_t i, uint32_t word) {
    const bool keep = word >= threshold;
    store(c.out[0], i, keep ? load(c.in[0], i) * scale : 0.0);
    if (c.hasOut(1)) c.out[1].as<bool>()[i] = keep;
  });
}

void dropout(const Context &c) {
  if (c.op.attrInt("training_mode") != 0) return dropMasked(c);
  for (int64_t i = 0; i < c.in[0].size(); ++i) {
    store(c.out[0], i, load(c.in[0], i));
    if (c.hasOut(1)) c.out[1].as<bool>()[i] = true;
  }
}

void shapedDropout(const Context &c) {
  const float ratio = c.op.attrFloat("ratio");
  const uint32_t threshold = dropoutThreshold(ratio);
  const double scale = 1.0 / (1.0 - double{ratio});
  const PhiloxKey seed = seedOf(c.in[1]);
  const Shape &mask = c.op.attrInts("shape");
  for (int64_t i = 0; i < c.in[0].size(); ++i) {
    const int64_t m = broadcastIndex(i, c.in[0].shape(), mask);
    const bool keep = randomBlock(seed, static_cast<uint64_t>(m / 4))[m % 4] >= threshold;
    store(c.out[0], i, keep ? load(c.in[0], i) * scale : 0.0);
  }
}

void roundStochastically(const Context &c) {
  const PhiloxKey seed = seedOf(c.in[1]);
  const auto stream = static_cast<uint32_t>(c.op.attrInt("stream"));
  const bool isHalf = c.out[0].info.dataType() == DataType::FLOAT16;
  const float *x = c.in[0].as<const float>();
  uint16_t *y = c.out[0].as<uint16_t>();
  for (int64_t i = 0; i < c.in[0].size(); ++i) {
    const float uniform = uniformFromWord(roundingBlock(seed, static_cast<uint64_t>(i / 4), stream)[i % 4]);
    y[i] = isHalf ? roundToHalfBits(x[i], uniform) : roundToBFloat16Bits(x[i], uniform);
  }
}

void writeSeed(const View &out, PhiloxKey seed) {
  out.as<uint32_t>()[0] = seed[0];
  out.as<uint32_t>()[1] = seed[1];
}

void getRandomSeed(const Context &c) { writeSeed(c.out[0], advanceSeed(seedOf(c.in[0]))); }

void modifyRandomSeed(const Context &c) {
  writeSeed(c.out[0], modifySeed(seedOf(c.in[0]), c.in[1].as<const uint32_t>()[0]));
}

// The first replica keeps the seed, so it draws the same numbers as a program without replicas.
void replicaRandomSeed(const Context &c) {
  int64_t place = c.run.replica();
  if (c.op.hasAttr("group_size")) place = place / c.op.attrInt("stride") % c.op.attrInt("group_size");
  const auto replica = static_cast<uint32_t>(place);
  const PhiloxKey seed = seedOf(c.in[0]);
  writeSeed(c.out[0], replica == 0 ? seed : modifySeed(modifySeed(seed, 0), replica));
}

constexpr Entry kRandomKernels[] = {
    {"RandomUniform", randomUniform},
    {"RandomNormal", randomNormal},
    {"Bernoulli", bernoulli},
    {"Dropout", dropout},
    {"DropoutGrad", dropMasked},
    {"ShapedDropout", shapedDropout},
    {"ShapedDropoutGrad", shapedDropout},
    {"RoundStochastically", roundStochastically},
    {"GetRandomSeed", getRandomSeed},
    {"ModifyRandomSeed", modifyRandomSeed},
    {"ReplicaRandomSeed", replicaRandomSeed},
};

}  // namespace

std::span<const Entry> randomKernels() { return kRandomKernels; }

}  // namespace popart::ref
