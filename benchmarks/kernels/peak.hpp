// Multiply-add peak of one core, the yardstick of the kernel benchmarks: independent chains in registers, no memory
// traffic. Invariant: reports the widest vectors this processor has, so that a share of it is a share of the machine's
// limit.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace popart::cpu::bench {

constexpr int kChains = 16;
constexpr int kRounds = 20000;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline void chains512() {
  __m512 acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 scale = _mm512_set1_ps(0.999f), shift = _mm512_set1_ps(0.1f);
  for (int r = 0; r < kRounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_fmadd_ps(acc[i], scale, shift);
  }
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  benchmark::DoNotOptimize(acc[0]);
}

__attribute__((target("avx2,fma"))) inline void chains256() {
  __m256 acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 scale = _mm256_set1_ps(0.999f), shift = _mm256_set1_ps(0.1f);
  for (int r = 0; r < kRounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], scale, shift);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  benchmark::DoNotOptimize(acc[0]);
}
#endif

// Array on a cache-line boundary, as the engine's arena gives them.
class Floats {
 public:
  explicit Floats(size_t count, float value = 0.0f)
      : data_(new (std::align_val_t(64)) float[count + 1],
              [](float *p) { ::operator delete[](p, std::align_val_t(64)); }) {
    std::fill_n(data_.get(), count, value);
    count_ = count;
  }
  float *data() const { return data_.get(); }
  std::span<float> all() const { return {data_.get(), count_}; }

 private:
  std::shared_ptr<float> data_;
  size_t count_ = 0;
};

// Flop per second of one core, best of several short runs; zero where the probe knows no instruction for it.
inline double measurePeak() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) return 0;
  const double flops = kRounds * (wide ? kChains * 32.0 : 12 * 16.0);
  double best = 0;
  for (int i = 0; i < 30; ++i) {
    const auto start = std::chrono::steady_clock::now();
    wide ? chains512() : chains256();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, flops / took.count());
  }
  return best;
#else
  return 0;
#endif
}

constexpr const char *kNoWork = "the work did not run: build this benchmark again, the library may have changed since";

// Whether one run of `body` gives at least `least` of `results` a value that `isResult` accepts, where all of them are
// `before` at first.
template <typename Body, typename IsResult>
bool doesWork(const Floats &results, float before, int64_t least, Body body, IsResult isResult) {
  std::ranges::fill(results.all(), before);
  body();
  return std::ranges::count_if(results.all(), isResult) >= least;
}

// Repeats `body` and reports the best repetition: GFLOP/s and share of the peak of `threads` cores. No rate is reported
// that exceeds the peak, whose probe a neighbour may have slowed down.
template <typename Body>
void reportBest(benchmark::State &state, double flops, int threads, Body body) {
  static const double peak = measurePeak();
  constexpr double kMostOfPeak = 2;
  double best = 1e30;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    state.SetIterationTime(took.count());
  }
  if (peak > 0 && flops / best > kMostOfPeak * peak * threads) return state.SkipWithError(kNoWork);
  state.counters["best_us"] = best * 1e6;
  state.counters["GFLOPS"] = flops / best * 1e-9;
  if (peak > 0) state.counters["peak_share"] = flops / best / (peak * threads);
}

}  // namespace popart::cpu::bench
