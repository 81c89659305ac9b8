// What bench.py cannot measure from Python: the limits of two cores (multiply-adds per second, bytes per second read
// from a block of a given size, the time of a cache line between them) and the time of a session call from C++.
//   popart-bench-probe [--model FILE] [--bytes N]...
//   popart-bench-probe --exchange
// FILE is an ONNX file with float input "input" (1,) and output "output" (1,). Prints one JSON object; "call_overhead"
// is present when a model is given, "bytes_per_s" maps each N to what was measured. With --exchange the time of a cache
// line alone, in some tens of milliseconds: bench.py asks for it between turns.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>

#include "../kernels/peak.hpp"
#include "read_rate.hpp"

namespace {

constexpr int kThreads = 2;
constexpr int kWarmUpCalls = 1000;
constexpr int kCalls = 20000;

// Flop per second of kThreads cores working at once.
double measureLimit() {
  std::vector<double> peaks(kThreads);
  std::vector<std::thread> threads;
  for (double &peak : peaks) threads.emplace_back([&peak] { peak = popart::cpu::bench::measurePeak(); });
  for (std::thread &thread : threads) thread.join();
  double sum = 0;
  for (const double peak : peaks) sum += peak;
  return sum;
}

// Floats on large pages where the system has them.
class Block {
 public:
  explicit Block(size_t count) {
    constexpr size_t kPage = size_t{2} << 20;
    const size_t bytes = (count * sizeof(float) + kPage - 1) / kPage * kPage;
    data_ = static_cast<float *>(std::aligned_alloc(kPage, bytes));
    if (!data_) throw std::bad_alloc();
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::fill_n(data_, count, 1.0f);
  }
  ~Block() { std::free(data_); }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  const float *data() const { return data_; }

 private:
  float *data_;
};

// Bytes per second at which kThreads cores read a block of `bytes` bytes again and again, half each, best of several
// passes: from cache when it fits there.
double measureBandwidth(size_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kBytesPerPass = size_t{64} << 20;
  constexpr int kPasses = 10;
  constexpr size_t kUnit = 512;  // of sumOf
  const size_t count = std::max<size_t>(bytes / sizeof(float) / kThreads / kUnit, 1) * kUnit;
  const size_t rounds = std::max<size_t>(1, kBytesPerPass / (count * sizeof(float)));
  std::vector<double> best(kThreads, 0);
  std::vector<std::thread> threads;
  for (double &rate : best)
    threads.emplace_back([&rate, count, rounds] {
      const Block block(count);
      for (int pass = 0; pass < kPasses; ++pass) {
        const auto start = Clock::now();
        for (size_t i = 0; i < rounds; ++i) benchmark::DoNotOptimize(popart::bench::sumOf(block.data(), count));
        const std::chrono::duration<double> took = Clock::now() - start;
        rate = std::max(rate, static_cast<double>(rounds * count * sizeof(float)) / took.count());
      }
    });
  for (std::thread &thread : threads) thread.join();
  double sum = 0;
  for (const double rate : best) sum += rate;
  return sum;
}

// Nanoseconds for a cache line from one thread to another and back, median of several rounds: some tens where the two
// cores share a last-level cache, some hundreds where they do not. 0 on one processor, where threads would only wait.
double measureExchange() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return 0;
  constexpr int kRounds = 21, kTurns = 2000;
  alignas(64) std::atomic<int> line{0};  // odd: the other thread's turn
  std::thread other([&line] {
    for (int turn = 0; turn < kRounds * kTurns; ++turn) {
      while (line.load(std::memory_order_acquire) != 2 * turn + 1) {
      }
      line.store(2 * turn + 2, std::memory_order_release);
    }
  });
  std::vector<double> times;
  for (int round = 0, turn = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (const int end = turn + kTurns; turn < end; ++turn) {
      line.store(2 * turn + 1, std::memory_order_release);
      while (line.load(std::memory_order_acquire) != 2 * turn + 2) {
      }
    }
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
                    kTurns);
  }
  other.join();
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

// Milliseconds of each call of an inference session on `model`.
std::vector<double> measureCalls(const char *model) {
  const popart::DataFlow dataFlow(1, {{"output", popart::AnchorReturnType("All")}});
  auto session = popart::InferenceSession::createFromOnnxModel(
      model, dataFlow, popart::DeviceManager::createDeviceManager().createCpuDevice());
  session->prepareDevice();
  float in = 1.0f, out = 0.0f;
  popart::NDArrayWrapper<float> input(&in, {1}), output(&out, {1});
  popart::StepIO stepIO({{"input", input}}, {{"output", output}});
  for (int i = 0; i < kWarmUpCalls; ++i) session->run(stepIO);
  std::vector<double> times(kCalls);
  for (double &time : times) {
    const auto start = std::chrono::steady_clock::now();
    session->run(stepIO);
    time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc == 2 && std::string_view(argv[1]) == "--exchange") {
    std::printf("{\"exchange_ns\": %.4g}\n", measureExchange());
    return EXIT_SUCCESS;
  }
  const char *model = nullptr;
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 == argc || (option != "--model" && option != "--bytes"))
      throw std::invalid_argument("usage: popart-bench-probe [--model FILE] [--bytes N]... | --exchange");
    if (option == "--model") {
      model = argv[i + 1];
    } else {
      sizes.push_back(std::stoull(argv[i + 1]));
    }
  }
  std::printf("{\"flops_per_s\": %.6g, \"threads\": %d, \"exchange_ns\": %.4g, \"bytes_per_s\": {", measureLimit(),
              kThreads, measureExchange());
  for (size_t i = 0; i < sizes.size(); ++i)
    std::printf("%s\"%zu\": %.6g", i ? ", " : "", sizes[i], measureBandwidth(sizes[i]));
  std::printf("}");
  if (model) {
    const std::vector<double> times = measureCalls(model);
    std::printf(", \"call_overhead\": {\"median_ms\": %.6g, \"best_ms\": %.6g, \"calls\": %zu}",
                times[times.size() / 2], times.front(), times.size());
  }
  std::printf("}\n");
  return EXIT_SUCCESS;
} catch (const std::exception &e) {
  std::fprintf(stderr, "popart-bench-probe: %s\n", e.what());
  return EXIT_FAILURE;
}
