// Depth-first chains: the same bits as kernel by kernel, less memory, and no chain where parts would depend on one
// another. A chain needs two parts per thread, so the number of threads that a program is lowered for switches them.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include <popart/ir.hpp>

#include "../support/random_streams.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using Values = std::vector<float>;

std::shared_ptr<const executable::Executable> compile(std::string_view text, int threads) {
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &ref::backend()};
  options.threads = threads;
  return pipeline::lower(*parseIr(text), options);
}

// Kernels in chains of a program.
int chained(const executable::Executable &e) {
  int count = 0;
  for (const auto &step : e.main.steps)
    if (step.kernel && step.kernel->name().rfind("depth first", 0) == 0) {
      const std::string name = step.kernel->name();
      count += 1 + static_cast<int>(std::count(name.begin(), name.end(), ','));
    }
  return count;
}

std::map<std::string, Values> run(std::shared_ptr<const executable::Executable> e, int threads) {
  test::RandomStreams streams(*e);
  runtime::Engine(e, test::host(), {threads, runtime::WakePolicy::Always}).run(streams);
  return streams.outputs;
}

constexpr int kManyThreads = 64;  // too many for a chain

void expectSameBits(std::string_view text, int kernelsInChains) {
  const auto chains = compile(text, 1), plain = compile(text, kManyThreads);
  EXPECT_EQ(chained(*chains), kernelsInChains);
  EXPECT_EQ(chained(*plain), 0);
  const auto expected = run(plain, 1);
  for (int threads : {1, 2, 3}) {
    const auto got = run(chains, threads);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto &[id, values] : expected)
      EXPECT_EQ(std::memcmp(values.data(), got.at(id).data(), values.size() * sizeof(float)), 0) << id;
  }
}

// Of logarithms: products around a softmax of probabilities become attention instead (decision 0061).
constexpr std::string_view kAttention = R"(main {
  stream %q : float32[2, 3, 33, 8]
  stream %k : float32[2, 3, 8, 40]
  stream %v : float32[2, 3, 40, 8]
  stream %mask : float32[33, 40]
  %q1 = HostLoad() {stream = "q"}
  %k1 = HostLoad() {stream = "k"}
  %v1 = HostLoad() {stream = "v"}
  %mask1 = HostLoad() {stream = "mask"}
  %scores = MatMul(%q1, %k1)
  %masked = Add(%scores, %mask1)
  %weights = LogSoftmax(%masked) {axis = -1}
  %out = MatMul(%weights, %v1)
  HostStore(%out) {stream = "out"}
})";

TEST(DepthFirst, attention_is_one_chain) { expectSameBits(kAttention, 4); }

TEST(DepthFirst, scores_take_memory_for_one_part_per_thread) {
  const auto chains = compile(kAttention, 1), plain = compile(kAttention, kManyThreads);
  constexpr int64_t kScores = 2 * 3 * 33 * 40 * sizeof(float);
  // The result is computed in place of q: part p of q is read before part p of the result is written.
  EXPECT_EQ(chains->memory.largestLiveSetBytes + kScores, plain->memory.largestLiveSetBytes);
  EXPECT_GE(chains->scratchBytesPerThread, kScores / 6);
}

TEST(DepthFirst, values_read_elsewhere_stay_whole) {
  std::string text(kAttention);
  text.insert(text.rfind('}'), "  HostStore(%weights) {stream = \"weights\"}\n");
  expectSameBits(text, 4);
}

TEST(DepthFirst, softmax_gradient_and_products_of_transposes_join) {
  expectSameBits(R"(main {
  stream %dy : float32[4, 20, 8]
  stream %v : float32[4, 12, 8]
  stream %p : float32[4, 20, 12]
  stream %k : float32[4, 12, 8]
  %dy1 = HostLoad() {stream = "dy"}
  %v1 = HostLoad() {stream = "v"}
  %p1 = HostLoad() {stream = "p"}
  %k1 = HostLoad() {stream = "k"}
  %vt = Transpose(%v1) {perm = [0, 2, 1]}
  %dp = MatMul(%dy1, %vt)
  %ds = SoftmaxGrad(%dp, %p1) {axis = -1}
  %dst = Transpose(%ds) {perm = [0, 2, 1]}
  %dk = MatMul(%dst, %dy1)
  %dq = MatMul(%ds, %k1)
  HostStore(%dk) {stream = "dk"}
  HostStore(%dq) {stream = "dq"}
})",
                 4);
}

TEST(DepthFirst, a_product_that_reads_across_parts_ends_the_chain) {
  expectSameBits(R"(main {
  stream %a : float32[2, 3, 16, 16]
  stream %b : float32[3, 2, 16, 16]
  %a1 = HostLoad() {stream = "a"}
  %b1 = HostLoad() {stream = "b"}
  %s = MatMul(%a1, %a1)
  %w = Softmax(%s) {axis = -1}
  %t = Transpose(%w) {perm = [1, 0, 2, 3]}
  %y = MatMul(%t, %b1)
  HostStore(%y) {stream = "y"}
})",
                 2);
}

TEST(DepthFirst, sums_over_parts_end_the_chain) {
  expectSameBits(R"(main {
  stream %a : float32[5, 16, 16]
  %a1 = HostLoad() {stream = "a"}
  %s = MatMul(%a1, %a1)
  %w = Softmax(%s) {axis = 0}
  %y = MatMul(%w, %a1)
  HostStore(%y) {stream = "y"}
})",
                 0);
}

}  // namespace
}  // namespace popart
