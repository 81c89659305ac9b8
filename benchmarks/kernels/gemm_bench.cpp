// Matrix products at the sizes that training and inference of common networks ask for; args are {M, N, K, threads}.
// Reports the best repetition, since a neighbour's noise only ever adds time. Results are checked first.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "base/threads/thread_pool.hpp"
#include "peak.hpp"

namespace popart::cpu::bench {
namespace {

void runTasks(const Matmul &matmul, const MatmulArgs &args, ThreadPool &pool, std::vector<Floats> &scratch) {
  pool.parallel(matmul.tasks(),
                [&](int task, int thread) { matmul.run(task, args, scratch[static_cast<size_t>(thread)].data()); });
}

enum class Form { kForward, kUnpacked, kDataGradient, kWeightUpdate };

template <Form kForm>
void product(benchmark::State &state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const auto threads = static_cast<int>(state.range(3));
  ThreadPool pool(threads);
  Floats a(static_cast<size_t>(m * k), 0.5f), bias(static_cast<size_t>(n), 0.5f);
  Floats b(static_cast<size_t>(std::max(packedSize(k, n), packedSize(n, k))), 0.25f);
  Floats c(static_cast<size_t>(packedSize(m, n)));
  MatmulShape shape{m, n, k};
  MatmulArgs args;
  args.a = a.data(), args.aRowStride = k, args.b = b.data(), args.bRowStride = n, args.c = c.data(),
  args.cRowStride = n;
  Update update{.kind = UpdateKind::kSgd, .rate = 1e-9f};
  if (kForm == Form::kForward) {
    shape.bLayout = BLayout::kPacked;
    args.epilogue.bias = bias.data();
    args.epilogue.step.op = ElementOp::kRelu;
  }
  if (kForm == Form::kDataGradient) shape.bLayout = BLayout::kPackedTransposed;
  if (kForm == Form::kWeightUpdate) args.aRowStride = 1, args.aColStride = m, args.update = &update;
  const Matmul matmul(shape, threads);
  std::vector<Floats> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(matmul.scratchFloats());
  const auto all = [&] { runTasks(matmul, args, pool, scratch); };
  const float sum = 0.5f * 0.25f * static_cast<float>(k);  // exact
  const bool updates = kForm == Form::kWeightUpdate;
  const float result = kForm == Form::kForward ? sum + bias.data()[0] : updates ? -update.rate * sum : sum;
  const float error = updates ? std::abs(result) * 1e-6f : 0.0f;
  if (!doesWork(c, updates ? 0.0f : -1.0f, m * n, all, [&](float v) { return std::abs(v - result) <= error; }))
    return state.SkipWithError(kNoWork);
  reportBest(state, 2.0 * static_cast<double>(m * n * k), threads, all);
}

void sizes(benchmark::internal::Benchmark *bench) {
  for (int threads : {1, 2}) {
    for (auto [m, n, k] : {std::array{80, 512, 784},
                           {80, 512, 512},
                           {8, 512, 784},
                           {8, 512, 512},
                           {1, 512, 512},
                           {128, 3072, 768},
                           {128, 768, 3072},
                           {1024, 1024, 1024},
                           {3136, 64, 64},
                           {3136, 256, 64},
                           {3136, 128, 256},
                           {3136, 128, 128},
                           {196, 512, 2048},
                           {49, 2048, 512}}) {
      bench->Args({m, n, k, threads});
    }
  }
}

void weightSizes(benchmark::internal::Benchmark *bench) {
  for (int threads : {1, 2}) {
    for (auto [m, n, k] : {std::array{784, 512, 8},
                           {512, 512, 8},
                           {512, 512, 1},
                           {512, 512, 16},
                           {768, 3072, 128},
                           {1024, 1024, 1024}}) {
      bench->Args({m, n, k, threads});
    }
  }
}

BENCHMARK(product<Form::kForward>)->Apply(sizes)->UseManualTime()->MinTime(0.05);
BENCHMARK(product<Form::kUnpacked>)->Apply(sizes)->UseManualTime()->MinTime(0.05);
BENCHMARK(product<Form::kDataGradient>)->Apply(sizes)->UseManualTime()->MinTime(0.05);
BENCHMARK(product<Form::kWeightUpdate>)->Apply(weightSizes)->UseManualTime()->MinTime(0.05);

}  // namespace
}  // namespace popart::cpu::bench

BENCHMARK_MAIN();
