// Layouts around convolutions: programs on the CPU backend, where they are channels last and packed, give what the
// reference backend gives on plain memory, keep variables readable by the host, and give the same bits with one thread
// and with two.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <popart/ir.hpp>

#include "../support/random_floats.hpp"
#include "../support/random_streams.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using test::randomFloats;
using Values = std::vector<float>;

// "variable %w : float32[2,3] = [...]"
std::string stored(const std::string &kind, const std::string &id, const Shape &shape, unsigned seed,
                   float offset = 0) {
  std::string text = "  " + kind + " %" + id + " : float32[", list;
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  for (float v : randomFloats(elementCount(shape), seed))
    list += (list.empty() ? "" : ", ") + std::to_string(v + offset);
  return text + "] = [" + list + "]\n";
}

enum class Device { Reference, Cpu };

struct Result {
  std::map<std::string, Values> values;  // output streams and variables
  std::vector<std::string> fallbacks, kernels;
};

Result run(const std::string &text, Device device, int threads = 1) {
  const auto ir = parseIr(text);
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  if (device == Device::Cpu) options.backends.insert(options.backends.begin(), &cpu::backend());
  options.threads = threads;
  const auto executable = pipeline::lower(*ir, options);
  runtime::Engine engine(executable, test::host(), {threads, runtime::WakePolicy::Always});
  test::RandomStreams streams(*executable);
  engine.run(streams);
  Result result{streams.outputs, {}, {}};
  for (size_t i = 0; i < executable->variables.size(); ++i) {
    Values &values = result.values[executable->variables[i].id];
    values.resize(static_cast<size_t>(executable->variables[i].info.nelms()));
    engine.readVariable(static_cast<int>(i), values.data());
  }
  for (const auto &f : executable->fallbacks) result.fallbacks.push_back(f.op + ": " + f.reason);
  for (const auto &step : executable->main.steps)
    if (step.kernel) result.kernels.push_back(step.kernel->name());
  return result;
}

int count(const Result &r, const std::string &prefix) {
  int n = 0;
  for (const std::string &k : r.kernels) n += k.rfind(prefix, 0) == 0;
  return n;
}

// Runs on both devices and compares; the CPU run must not fall back and must not depend on the number of threads.
Result expectSame(const std::string &text) {
  const Result expected = run(text, Device::Reference), one = run(text, Device::Cpu, 1);
  const Result others[] = {run(text, Device::Cpu, 2), run(text, Device::Cpu, 3), run(text, Device::Cpu, 8)};
  EXPECT_EQ(one.fallbacks, std::vector<std::string>{});
  for (const auto &[id, values] : expected.values) {
    const Values &got = one.values.at(id);
    for (const Result &other : others) EXPECT_EQ(got, other.values.at(id)) << id << " depends on the number of threads";
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(got[i] - values[i]) <= 2e-5f * (1 + std::abs(values[i]))) continue;
      ADD_FAILURE() << id << "[" << i << "]: got " << got[i] << ", expected " << values[i];
      break;
    }
  }
  return one;
}

const std::string kConv3 =
    "{strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], kernel_shape = [3, 3], group = 1}";

TEST(ChannelsLast, residual_block_needs_reorders_at_the_host_only) {
  const Result r = expectSame("main {\n  stream %in : float32[2,5,7,6]\n" + stored("const", "w", {5, 5, 3, 3}, 1) +
                              stored("const", "b", {5}, 2) + R"(
  %x = HostLoad() {stream = "in"}
  %a = Conv(%x, %w, %b) )" + kConv3 +
                              R"(
  %r = Relu(%a)
  %c = Conv(%r, %w) )" + kConv3 +
                              R"(
  %s = Add(%c, %x)
  %y = Relu(%s)
  HostStore(%y) {stream = "out"}
})");
  EXPECT_EQ(count(r, "reorder"), 2);
  EXPECT_EQ(count(r, "conv"), 2);
  EXPECT_EQ(r.kernels.size(), 4u) << "bias, residual and activation belong to the convolutions";
}

TEST(ChannelsLast, batch_norm_with_constant_statistics_goes_into_the_weights) {
  const Result r = expectSame("main {\n  stream %in : float32[2,3,6,6]\n" + stored("const", "w", {4, 3, 3, 3}, 1) +
                              stored("const", "s", {4}, 2, 2) + stored("const", "b", {4}, 3) +
                              stored("const", "m", {4}, 4) + stored("const", "v", {4}, 5, 2) + R"(
  %x = HostLoad() {stream = "in"}
  %a = Conv(%x, %w) )" + kConv3 +
                              R"(
  %n = BatchNormalization(%a, %s, %b, %m, %v)
  %y = Relu(%n)
  HostStore(%y) {stream = "out"}
})");
  EXPECT_EQ(count(r, "batch"), 0);
  EXPECT_EQ(count(r, "conv"), 1);
}

TEST(ChannelsLast, batch_norm_with_variable_statistics_stays) {
  const Result r = expectSame("main {\n  stream %in : float32[2,3,6,6]\n" + stored("const", "w", {4, 3, 3, 3}, 1) +
                              stored("variable", "s", {4}, 2, 2) + stored("variable", "b", {4}, 3) +
                              stored("variable", "m", {4}, 4) + stored("variable", "v", {4}, 5, 2) + R"(
  %x = HostLoad() {stream = "in"}
  %a = Conv(%x, %w) )" + kConv3 +
                              R"(
  %n = BatchNormalization(%a, %s, %b, %m, %v)
  HostStore(%n) {stream = "out"}
})");
  EXPECT_EQ(count(r, "batch"), 1);
}

TEST(ChannelsLast, trained_weights_stay_packed_and_the_update_joins_the_gradient) {
  const std::string attributes =
      "{strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], kernel_shape = [3, 3], group = 1, fwd_shape = [20, "
      "3, 3, 3]}";
  const Result r = expectSame("main {\n  stream %in : float32[2,3,6,6]\n  stream %g : float32[2,20,6,6]\n" +
                              stored("variable", "w", {20, 3, 3, 3}, 1) + "  const %rate : float32[] = [0.125]\n" + R"(
  %x = HostLoad() {stream = "in"}
  %y = Conv(%x, %w) )" + kConv3 +
                              R"(
  HostStore(%y) {stream = "out"}
  %dy = HostLoad() {stream = "g"}
  %dw = ConvWeightsGrad(%dy, %x) )" +
                              attributes + R"(
  %step = Mul(%dw, %rate)
  %new = Sub(%w, %step)
  %end = CopyVarUpdate(%w, %new)
})");
  EXPECT_EQ(count(r, "conv weight gradient update"), 1);
  EXPECT_EQ(count(r, "reorder"), 3) << "two inputs and one output of the host";
}

TEST(ChannelsLast, momentum_joins_the_gradient_with_its_state_packed) {
  for (const auto &[weights, group] : {std::pair{Shape{20, 3, 3, 3}, 1}, {Shape{3, 1, 3, 3}, 3}}) {
    const int64_t channels = weights[0];
    const std::string stream = "float32[2," + std::to_string(channels) + ",6,6]", g = std::to_string(group);
    const std::string common =
        "strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], kernel_shape = [3, 3], group = " + g;
    const Result r = expectSame("main {\n  stream %in : float32[2,3,6,6]\n  stream %g : " + stream + "\n" +
                                stored("variable", "w", weights, 1) + stored("variable", "v", weights, 2) +
                                "  const %rate : float32[] = [0.125]\n  const %momentum : float32[] = [0.75]\n" + R"(
  %x = HostLoad() {stream = "in"}
  %y = Conv(%x, %w) {)" + common +
                                R"(}
  HostStore(%y) {stream = "out"}
  %dy = HostLoad() {stream = "g"}
  %dw = ConvWeightsGrad(%dy, %x) {)" +
                                common + ", fwd_shape = " + toText(weights) + R"(}
  %kept = Mul(%v, %momentum)
  %velocity = Add(%kept, %dw)
  %step = Mul(%velocity, %rate)
  %new = Sub(%w, %step)
  %v2 = CopyVarUpdate(%v, %velocity)
  %w2 = CopyVarUpdate(%w, %new)
})");
    const bool isPlain = group > 1;  // depthwise, and nothing else wants channels last
    EXPECT_EQ(count(r, std::string("conv weight gradient") + (isPlain ? " depthwise of plain memory" : "") + " update"),
              1);
    EXPECT_EQ(count(r, "elementwise"), 0);
    EXPECT_EQ(count(r, "reorder"), isPlain ? 0 : 3) << "two inputs and one output of the host";
  }
}

TEST(ChannelsLast, pools_without_convolution_go_channels_last_on_their_own) {
  const Result r = expectSame(R"(main {
  stream %in : float32[2,5,7,6]
  %x = HostLoad() {stream = "in"}
  %y = MaxPool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1]}
  HostStore(%y) {stream = "out"}
})");
  EXPECT_EQ(count(r, "max pool"), 1);
}

TEST(ChannelsLast, programs_without_spatial_ops_stay_plain) {
  const Result r = expectSame(R"(main {
  stream %in : float32[2,5,7,6]
  %x = HostLoad() {stream = "in"}
  %y = Relu(%x)
  HostStore(%y) {stream = "out"}
})");
  EXPECT_EQ(count(r, "reorder"), 0);
}

// A body returns its argument, once carried and once stacked, and no op of the body makes or reads the value.
TEST(ChannelsLast, values_that_a_body_passes_on_untouched) {
  expectSame("main {\n  stream %in : float32[2, 8, 6, 6]\n" + stored("const", "w", {8, 8, 3, 3}, 3) +
             R"(  %x = HostLoad() {stream = "in"}
  %c = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %y, %stack = Loop(_, _, %c) {body = @body, carried = 1, trip_count = 2}
  %z = Conv(%y, %w) {pads = [1, 1, 1, 1]}
  HostStore(%z) {stream = "z"}
  HostStore(%stack) {stream = "stack"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[2, 8, 6, 6]
  return %body/cond, %body/v, %body/v
}
)");
}

}  // namespace
}  // namespace popart
