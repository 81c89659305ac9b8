// Attention without the matrix of scores: what the pass fuses and what not, values and gradients against the reference
// kernels of the ops it replaces, the same bits for any number of threads, and no matrix of scores in the memory plan.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include <popart/ir.hpp>

#include "../support/random_streams.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using Values = std::map<std::string, std::vector<float>>;
using ExecutablePtr = std::shared_ptr<const executable::Executable>;

ExecutablePtr compile(const std::string &text, std::vector<const executable::Backend *> backends, int threads = 2) {
  lower::LowerOptions options;
  options.backends = std::move(backends);
  options.threads = threads;
  return pipeline::lower(*parseIr(text), options);
}
ExecutablePtr onCpu(const std::string &text, int threads = 2) {
  return compile(text, {&cpu::backend(), &ref::backend()}, threads);
}

Values run(const ExecutablePtr &e, int threads = 2) {
  test::RandomStreams streams(*e);
  runtime::Engine(e, test::host(), {threads, runtime::WakePolicy::Always}).run(streams);
  return streams.outputs;
}

int kernels(const executable::Executable &e, const std::string &name) {
  int count = 0;
  for (const auto &step : e.main.steps) count += step.kernel && step.kernel->name() == name;
  return count;
}

void expectNear(const Values &got, const Values &expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto &[id, values] : expected) {
    const std::vector<float> &own = got.at(id);
    ASSERT_EQ(own.size(), values.size()) << id;
    double largest = 1e-2;  // what cancels is rounded as its terms are
    for (const float v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(double{v}));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::isnan(own[i]), std::isnan(values[i])) << id << " at " << i;
      if (std::isnan(values[i])) continue;
      ASSERT_NEAR(own[i], values[i], tolerance * largest) << id << " at " << i;
    }
  }
}

struct Sizes {
  int64_t batch = 2, heads = 3, queries = 40, keys = 40, size = 16, valueSize = 16;
};

// A program with q, k and v of these sizes; `steps` makes %a of %s, and may read streams that `streams` declares.
std::string attention(const Sizes &z, const std::string &streams, const std::string &steps,
                      const std::string &more = "") {
  return fmt::format(R"(main {{
  stream %q0 : float32[{0}, {1}, {2}, {4}]
  stream %k0 : float32[{0}, {1}, {3}, {4}]
  stream %v0 : float32[{0}, {1}, {3}, {5}]
  stream %dy0 : float32[{0}, {1}, {2}, {5}]
{6}
  %q = HostLoad() {{stream = "q0"}}
  %k = HostLoad() {{stream = "k0"}}
  %v = HostLoad() {{stream = "v0"}}
  %dy = HostLoad() {{stream = "dy0"}}
  %kt = Transpose(%k) {{perm = [0, 1, 3, 2]}}
  %s = MatMul(%q, %kt)
{7}
  %p = Softmax(%a) {{axis = -1}}
  %y = MatMul(%p, %v)
  HostStore(%y) {{stream = "y"}}
{8})",
                     z.batch, z.heads, z.queries, z.keys, z.size, z.valueSize, streams, steps, more) +
         "}\n";
}

// The gradients of that program as autodiff writes them; `steps` makes %ds of %da.
std::string gradients(const std::string &steps) {
  return R"(
  %vt = Transpose(%v) {perm = [0, 1, 3, 2]}
  %dp = MatMul(%dy, %vt)
  %pt = Transpose(%p) {perm = [0, 1, 3, 2]}
  %dv = MatMul(%pt, %dy)
  %da = SoftmaxGrad(%dp, %p) {axis = -1}
)" + steps +
         R"(
  %dq = MatMul(%ds, %k)
  %qt = Transpose(%q) {perm = [0, 1, 3, 2]}
  %dkt = MatMul(%qt, %ds)
  %dk = Transpose(%dkt) {perm = [0, 1, 3, 2]}
  HostStore(%dq) {stream = "dq"}
  HostStore(%dk) {stream = "dk"}
  HostStore(%dv) {stream = "dv"}
)";
}

const std::string kNone = "  %a = Identity(%s)\n";
const std::string kNoneBack = "  %ds = Identity(%da)\n";
const std::string kScale = "  const %c : float32[] = 0.25\n";
const std::string kScaled = "  %a = Mul(%s, %c)\n", kScaledBack = "  %ds = Mul(%da, %c)\n";

// 0 on and below the diagonal, else minus infinity.
std::string causal(int64_t queries, int64_t keys, const char *low = "-inf") {
  std::string values;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) values += std::string(values.empty() ? "" : ", ") + (j <= i ? "0" : low);
  return fmt::format("  const %mask : float32[{}, {}] = [{}]\n", queries, keys, values);
}

void expectAttention(const std::string &text, bool withGradient, double tolerance = 2e-5) {
  const ExecutablePtr fused = onCpu(text), plain = compile(text, {&ref::backend()});
  EXPECT_EQ(kernels(*fused, "attention"), 1);
  EXPECT_EQ(kernels(*fused, "attention gradient"), withGradient ? 1 : 0);
  const Values values = run(fused);
  expectNear(values, run(plain), tolerance);
  for (const int threads : {1, 3, 8}) {
    const Values again = run(onCpu(text, threads), threads);
    for (const auto &[id, v] : values)
      EXPECT_EQ(std::memcmp(v.data(), again.at(id).data(), v.size() * sizeof(float)), 0) << id << ", " << threads;
  }
}
void expectLeft(const std::string &text) {
  const ExecutablePtr e = onCpu(text);
  EXPECT_EQ(kernels(*e, "attention"), 0);
  EXPECT_EQ(kernels(*e, "attention gradient"), 0);
}

TEST(FuseAttention, odd_sizes_forward_and_backward) {
  for (const Sizes &z : {Sizes{1, 1, 33, 1, 5, 3}, Sizes{2, 3, 37, 41, 7, 9}, Sizes{1, 2, 70, 300, 64, 64},
                         Sizes{1, 1, 600, 530, 33, 20}, Sizes{3, 1, 64, 65, 130, 257}}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys", z.queries, z.keys));
    expectAttention(attention(z, kScale, kScaled), false);
    expectAttention(attention(z, kScale, kScaled, gradients(kScaledBack)), true);
  }
}

TEST(FuseAttention, causal_masks_leave_keys_out) {
  for (const auto &[queries, keys] : {std::pair<int64_t, int64_t>{48, 48}, {100, 100}, {40, 90}, {90, 40}}) {
    const Sizes z{2, 2, queries, keys, 16, 16};
    const std::string masked = "  %a = Add(%s, %mask)\n";
    expectAttention(attention(z, causal(queries, keys), masked), false);
    expectAttention(attention(z, causal(queries, keys), masked, gradients(kNoneBack)), true);
    expectAttention(attention(z, causal(queries, keys, "-3e38"), masked, gradients(kNoneBack)), true);
  }
}

// A row without a key is not a number, as in the softmax alone.
TEST(FuseAttention, rows_without_keys_stay_what_they_are) {
  std::string values;
  for (int i = 0; i < 40; ++i) values += std::string(i ? ", " : "") + (i < 3 || i == 20 ? "-inf" : "0");
  const std::string mask = "  const %mask : float32[40, 1] = [" + values + "]\n";
  expectAttention(attention({}, mask, "  %a = Add(%s, %mask)\n"), false);
  expectAttention(attention({}, mask, "  %a = Add(%s, %mask)\n", gradients(kNoneBack)), true);
}

TEST(FuseAttention, masks_of_any_shape_and_other_steps) {
  const std::string load = "  %m = HostLoad() {stream = \"m0\"}\n";
  for (const char *shape : {"40, 40", "2, 1, 1, 40", "3, 40, 1", "1", "2, 3, 40, 40", "2, 1, 40, 40"}) {
    SCOPED_TRACE(shape);
    const std::string stream = fmt::format("  stream %m0 : float32[{}]\n", shape);
    expectAttention(attention({}, stream, load + "  %a = Add(%s, %m)\n"), false);
    expectAttention(attention({}, stream, load + "  %a = Add(%m, %s)\n", gradients(kNoneBack)), true);
  }
  const std::string cap = "  const %c : float32[] = 2\n  const %one : float32[] = 1\n";
  expectAttention(attention({}, cap, "  %t0 = Div(%s, %c)\n  %t = Tanh(%t0)\n  %a = Mul(%t, %c)\n",
                            gradients("  %g0 = Mul(%da, %c)\n  %tt = Mul(%t, %t)\n  %slope = Sub(%one, %tt)\n"
                                      "  %g1 = Mul(%g0, %slope)\n  %ds = Div(%g1, %c)\n")),
                  true);
  expectAttention(
      attention({}, "  stream %m0 : float32[40, 40]\n  const %low : float32[] = -1e9\n  const %zero : float32[] = 0\n",
                load + "  %is = Greater(%m, %zero)\n  %a = Where(%is, %s, %low)\n"),
      false);
}

TEST(FuseAttention, heads_that_share_keys_are_rows_of_one_product) {
  expectAttention(R"(main {
  stream %q0 : float32[2, 6, 20, 8]
  stream %k0 : float32[2, 2, 8, 30]
  stream %v0 : float32[2, 2, 30, 8]
  stream %m0 : float32[2, 1, 20, 30]
  %q = HostLoad() {stream = "q0"}
  %k = HostLoad() {stream = "k0"}
  %v = HostLoad() {stream = "v0"}
  %m = HostLoad() {stream = "m0"}
  %g = Reshape(%q) {shape = [2, 2, 60, 8]}
  %s0 = MatMul(%g, %k)
  %s = Reshape(%s0) {shape = [2, 6, 20, 30]}
  %a = Add(%s, %m)
  %p = Softmax(%a) {axis = -1}
  %p0 = Reshape(%p) {shape = [2, 2, 60, 30]}
  %y0 = MatMul(%p0, %v)
  %y = Reshape(%y0) {shape = [2, 6, 20, 8]}
  HostStore(%y) {stream = "y"}
})",
                  false);
}

TEST(FuseAttention, operands_and_results_in_any_order) {
  expectAttention(R"(main {
  stream %q0 : float32[2, 50, 3, 16]
  stream %k0 : float32[2, 60, 3, 16]
  stream %v0 : float32[2, 60, 3, 16]
  stream %dy0 : float32[2, 50, 3, 16]
  const %c : float32[] = 0.5
  %q1 = HostLoad() {stream = "q0"}
  %k1 = HostLoad() {stream = "k0"}
  %v1 = HostLoad() {stream = "v0"}
  %dy1 = HostLoad() {stream = "dy0"}
  %q2 = Transpose(%q1) {perm = [0, 2, 1, 3]}
  %q = Mul(%q2, %c)
  %kt2 = Transpose(%k1) {perm = [0, 2, 3, 1]}
  %kt = Mul(%kt2, %c)
  %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
  %s = MatMul(%q, %kt)
  %p = Softmax(%s) {axis = -1}
  %y1 = MatMul(%p, %v)
  %y = Transpose(%y1) {perm = [0, 2, 1, 3]}
  %dy = Transpose(%dy1) {perm = [0, 2, 1, 3]}
  %vt = Transpose(%v) {perm = [0, 1, 3, 2]}
  %dp = MatMul(%dy, %vt)
  %pt = Transpose(%p) {perm = [0, 1, 3, 2]}
  %dv1 = MatMul(%pt, %dy)
  %ds = SoftmaxGrad(%dp, %p) {axis = -1}
  %k = Transpose(%kt) {perm = [0, 1, 3, 2]}
  %dq2 = MatMul(%ds, %k)
  %dq1 = Mul(%dq2, %c)
  %dq = Transpose(%dq1) {perm = [0, 2, 1, 3]}
  %qt = Transpose(%q) {perm = [0, 1, 3, 2]}
  %dkt = MatMul(%qt, %ds)
  %dk1 = Mul(%dkt, %c)
  %dk = Transpose(%dk1) {perm = [0, 3, 1, 2]}
  %dv = Transpose(%dv1) {perm = [0, 2, 1, 3]}
  HostStore(%y) {stream = "y"}
  HostStore(%dq) {stream = "dq"}
  HostStore(%dk) {stream = "dk"}
  HostStore(%dv) {stream = "dv"}
})",
                  true);
}

// Programs of 16 bits round what they store; probabilities between the products are not stored.
TEST(FuseAttention, halves_are_stored_and_summed_in_float32) {
  for (const int type : {10, 16}) {
    std::string text = fmt::format(R"(main {{
  stream %q0 : float32[2, 3, 50, 16]
  stream %k0 : float32[2, 3, 60, 16]
  stream %v0 : float32[2, 3, 60, 16]
  stream %dy0 : float32[2, 3, 50, 16]
  %q1 = HostLoad() {{stream = "q0"}}
  %k1 = HostLoad() {{stream = "k0"}}
  %v1 = HostLoad() {{stream = "v0"}}
  %dy1 = HostLoad() {{stream = "dy0"}}
  %q = Cast(%q1) {{to = {0}}}
  %k = Cast(%k1) {{to = {0}}}
  %v = Cast(%v1) {{to = {0}}}
  %dy = Cast(%dy1) {{to = {0}}}
  %kt = Transpose(%k) {{perm = [0, 1, 3, 2]}}
  %s = MatMul(%q, %kt)
  %p = Softmax(%s) {{axis = -1}}
  %y = MatMul(%p, %v)
  %vt = Transpose(%v) {{perm = [0, 1, 3, 2]}}
  %dp = MatMul(%dy, %vt)
  %pt = Transpose(%p) {{perm = [0, 1, 3, 2]}}
  %dv = MatMul(%pt, %dy)
  %ds = SoftmaxGrad(%dp, %p) {{axis = -1}}
  %dq = MatMul(%ds, %k)
  %qt = Transpose(%q) {{perm = [0, 1, 3, 2]}}
  %dkt = MatMul(%qt, %ds)
)",
                                   type);
    for (const char *name : {"y", "dq", "dkt", "dv"})
      text += fmt::format("  %{0}32 = Cast(%{0}) {{to = 1}}\n  HostStore(%{0}32) {{stream = \"{0}\"}}\n", name);
    expectAttention(text + "}\n", true, type == 10 ? 4e-3 : 3e-2);
  }
}

TEST(FuseAttention, no_matrix_of_scores_in_the_memory_plan) {
  const Sizes z{1, 4, 512, 512, 16, 16};
  constexpr int64_t kScores = int64_t{4} * 512 * 512 * sizeof(float);
  const ExecutablePtr e = onCpu(attention(z, kScale, kScaled, gradients(kScaledBack)));
  EXPECT_EQ(kernels(*e, "attention gradient"), 1);
  EXPECT_LT(e->memory.largestLiveSetBytes + 2 * e->scratchBytesPerThread, kScores);
}

TEST(FuseAttention, scores_that_are_read_elsewhere_stay) {
  expectLeft(attention({}, "", kNone, "  HostStore(%s) {stream = \"s\"}\n"));
  expectLeft(attention({}, "", kNone, "  HostStore(%p) {stream = \"p\"}\n"));
  expectLeft(attention({}, kScale, kScaled, gradients(kScaledBack) + "  HostStore(%da) {stream = \"da\"}\n"));
  expectLeft(attention({}, "", kNone, "  %z = ReduceSum(%p) {axes = [3]}\n  HostStore(%z) {stream = \"z\"}\n"));
}

TEST(FuseAttention, a_softmax_over_another_axis_stays) {
  std::string text = attention({}, "", kNone);
  text.replace(text.find("axis = -1"), 9, "axis = 2 ");
  expectLeft(text);
}

}  // namespace
}  // namespace popart
