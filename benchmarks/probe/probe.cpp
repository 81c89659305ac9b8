// What bench.py cannot measure from Python: the multiply-add limit of two cores, and the time of a session call from
// C++. popart-bench-probe [MODEL]: MODEL is an ONNX file with float input "input" (1,) and output "output" (1,). Prints
// one JSON object; "call_overhead" is present when a model is given.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>

#include "../kernels/peak.hpp"

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
  std::printf("{\"flops_per_s\": %.6g, \"threads\": %d", measureLimit(), kThreads);
  if (argc > 1) {
    const std::vector<double> times = measureCalls(argv[1]);
    std::printf(", \"call_overhead\": {\"median_ms\": %.6g, \"best_ms\": %.6g, \"calls\": %zu}",
                times[times.size() / 2], times.front(), times.size());
  }
  std::printf("}\n");
  return EXIT_SUCCESS;
} catch (const std::exception &e) {
  std::fprintf(stderr, "popart-bench-probe: %s\n", e.what());
  return EXIT_FAILURE;
}
