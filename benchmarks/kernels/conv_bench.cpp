// Convolutions of ResNet-50 and MobileNet layers, forward and both gradients; args are {C in, C out, size, kernel,
// stride, groups, threads}. Reports the best repetition, since a neighbour's noise only ever adds time. Checks first
// that every result is written.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/conv.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "base/threads/thread_pool.hpp"
#include "peak.hpp"

namespace popart::cpu::bench {
namespace {

enum class Pass { kForward, kDataGradient, kWeightGradient };

template <Pass kPass, typename Plan>
void convolution(benchmark::State &state) {
  const int64_t kernel = state.range(3), stride = state.range(4);
  const auto threads = static_cast<int>(state.range(6));
  ConvShape s;
  s.cin = state.range(0), s.cout = state.range(1), s.in = {1, state.range(2), state.range(2)},
  s.groups = state.range(5);
  s.kernel = {1, kernel, kernel}, s.stride = {1, stride, stride}, s.padLow = s.padHigh = {0, kernel / 2, kernel / 2};
  const int64_t pixels = s.out()[1] * s.out()[2];
  const Floats x(static_cast<size_t>(s.in[1] * s.in[2] * s.cin), 0.5f), y(static_cast<size_t>(pixels * s.cout), 0.5f);
  const int64_t weights = s.groups * std::max(packedSize(s.taps() * s.cin / s.groups, s.cout / s.groups),
                                              packedSize(s.taps() * s.cout / s.groups, s.cin / s.groups));
  Floats w(static_cast<size_t>(weights), 0.25f);
  const Floats bias(static_cast<size_t>(s.cout), 0.5f);
  Epilogue relu;
  relu.bias = bias.data();
  relu.step.op = ElementOp::kRelu;
  ThreadPool pool(threads);
  const Plan plan(s, threads);
  std::vector<Floats> scratch;
  size_t sharedFloats = 0;
  if constexpr (kPass == Pass::kWeightGradient) sharedFloats = plan.sharedFloats();
  Floats shared(sharedFloats);
  for (int i = 0; i < threads; ++i) scratch.emplace_back(plan.scratchFloats());
  const auto run = [&](int task, int thread) {
    float *own = scratch[static_cast<size_t>(thread)].data();
    if constexpr (kPass == Pass::kForward) plan.run(task, x.data(), w.data(), y.data(), relu, own);
    if constexpr (kPass == Pass::kDataGradient) plan.run(task, y.data(), w.data(), x.data(), Epilogue(), own);
    if constexpr (kPass == Pass::kWeightGradient)
      plan.run(task, x.data(), y.data(), w.data(), Update(), own, shared.data());
  };
  std::vector<int> ends{plan.tasks()};
  if constexpr (kPass == Pass::kWeightGradient)
    if (const auto rounds = plan.rounds().ends(); !rounds.empty()) ends.assign(rounds.begin(), rounds.end());
  const auto all = [&] {
    int first = 0;
    for (int end : ends) {
      pool.parallel(end - first, [&](int task, int thread) { run(first + task, thread); });
      first = end;
    }
  };
  const Floats &results = kPass == Pass::kForward ? y : kPass == Pass::kDataGradient ? x : w;
  const int64_t count = kPass == Pass::kForward        ? pixels * s.cout
                        : kPass == Pass::kDataGradient ? s.in[1] * s.in[2] * s.cin
                                                       : s.taps() * s.cout * s.cin / s.groups;
  if (!doesWork(results, NAN, count, all, [](float v) { return !std::isnan(v); })) return state.SkipWithError(kNoWork);
  const double flops = 2.0 * static_cast<double>(pixels * s.cout * kernel * kernel * s.cin / s.groups);
  reportBest(state, flops, threads, all);
}

void layers(benchmark::internal::Benchmark *bench) {
  for (int threads : {1, 2}) {
    bench->Args({3, 64, 224, 7, 2, 1, threads});
    bench->Args({64, 64, 56, 3, 1, 1, threads});
    bench->Args({128, 128, 28, 3, 1, 1, threads});
    bench->Args({256, 256, 14, 3, 1, 1, threads});
    bench->Args({512, 512, 7, 3, 1, 1, threads});
    bench->Args({128, 128, 56, 3, 2, 1, threads});
    bench->Args({64, 256, 56, 1, 1, 1, threads});
    bench->Args({1024, 512, 14, 1, 2, 1, threads});
    bench->Args({96, 96, 56, 3, 1, 96, threads});
    bench->Args({128, 128, 28, 3, 1, 128, threads});
    bench->Args({64, 64, 28, 3, 1, 16, threads});
  }
}

BENCHMARK(convolution<Pass::kForward, ConvForward>)->Apply(layers)->UseManualTime()->MinTime(0.05);
BENCHMARK(convolution<Pass::kDataGradient, ConvDataGradient>)->Apply(layers)->UseManualTime()->MinTime(0.05);
BENCHMARK(convolution<Pass::kWeightGradient, ConvWeightGradient>)->Apply(layers)->UseManualTime()->MinTime(0.05);

}  // namespace
}  // namespace popart::cpu::bench

BENCHMARK_MAIN();
