#include "backends/cpu/normal_numbers.hpp"

#include <algorithm>

#include <popart/error.hpp>

#include "backends/cpu/kernels/instruction_sets.hpp"
#include "base/threads/for_each_sized.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kShare = 1 << 18;  // numbers per share, much larger than a generator of 2.5 kB
constexpr int64_t kWordsOfNumber = 2;

}  // namespace

NormalNumbers::NormalNumbers(Twister &generator, int64_t skipped, int64_t count) : count_(count) {
  check(skipped >= 0 && count >= 0, "NormalNumbers: got {} numbers after {}, expected no negative ones", count,
        skipped);
  check(generator.position >= 0 && generator.position <= Twister::kWords,
        "NormalNumbers: the state of the generator: got position {}, expected 0 to {}", generator.position,
        Twister::kWords);
  requireInstructionSet();
  skipWords(generator, kWordsOfNumber * skipped);
  shares_.reserve(static_cast<size_t>((count + kShare - 1) / kShare));
  for (int64_t i = 0; i < count; i += kShare) {
    shares_.push_back(generator);
    skipWords(generator, kWordsOfNumber * std::min(kShare, count - i));
  }
}

template <class T>
void NormalNumbers::make(double deviation, T *numbers, int threads) const {
  const auto size = [&](size_t share) { return std::min(kShare, count_ - static_cast<int64_t>(share) * kShare); };
  std::vector<int64_t> bytes;
  for (size_t s = 0; s < shares_.size(); ++s) bytes.push_back(size(s) * static_cast<int64_t>(sizeof(double)));
  forEachSized(bytes, threads, [&](size_t s) {
    Twister generator = shares_[s];
    drawCutNormal(generator, deviation, numbers + static_cast<int64_t>(s) * kShare, size(s));
  });
}

template void NormalNumbers::make(double deviation, float *numbers, int threads) const;
template void NormalNumbers::make(double deviation, double *numbers, int threads) const;

}  // namespace popart::cpu
