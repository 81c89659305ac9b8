// Order of updates: a gradient that only an update reads lives no longer than until that update, and the numbers are
// those of program order.
#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

constexpr int64_t kSize = 32;
constexpr int64_t kBytes = kSize * kSize * 4;
constexpr int kWeights = 5;

class Ones final : public runtime::StreamSource {
 public:
  const void *input(int, int64_t) override { return values_.data(); }
  void *output(int, int64_t) override { return values_.data(); }

 private:
  std::vector<float> values_ = std::vector<float>(kSize * kSize, 1.0f);
};

// For every weight w: g = in · w; then, after all gradients, w += g. `stored`: the host reads every gradient at the
// end.
std::shared_ptr<const executable::Executable> program(bool stored) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  const TensorInfo info(DataType::FLOAT, {kSize, kSize});
  auto add = [&](std::string_view type, const std::vector<TensorIndex> &inputs, const std::vector<TensorId> &ids,
                 Attributes attributes) {
    return main.addConnectedOp(opDef(type), inputs, ids, std::move(attributes), Op::Settings(main, ""));
  };
  const TensorIndex in =
      add("HostLoad", {main.addStream("in", info)}, {"x"}, {{"stream", std::string("in")}})->outputs()[0];
  std::vector<TensorIndex> weights, gradients;
  for (int i = 0; i < kWeights; ++i) {
    TensorData first(info);
    static_cast<float *>(first.mutableData())[0] = static_cast<float>(i + 1);
    weights.push_back(main.addVariable("w" + std::to_string(i), first));
    gradients.push_back(add("MatMul", {in, weights.back()}, {"g" + std::to_string(i)}, {})->outputs()[0]);
  }
  for (int i = 0; i < kWeights; ++i)
    add("AddLhsInplace", {weights[static_cast<size_t>(i)], gradients[static_cast<size_t>(i)]},
        {"u" + std::to_string(i)}, {});
  for (int i = 0; stored && i < kWeights; ++i)
    add("HostStore", {gradients[static_cast<size_t>(i)]}, {}, {{"stream", "s" + std::to_string(i)}});
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  options.fuse = false;
  return pipeline::lower(ir, options);
}

void expectUpdated(const std::shared_ptr<const executable::Executable> &executable) {
  runtime::Engine engine(executable, test::host());
  Ones streams;
  engine.run(streams);
  ASSERT_EQ(executable->variables.size(), static_cast<size_t>(kWeights));
  for (int i = 0; i < kWeights; ++i) {
    std::vector<float> values(kSize * kSize);
    engine.readVariable(i, values.data());
    const auto first = static_cast<float>(i + 1);
    EXPECT_EQ(values[0], 2 * first);
    EXPECT_EQ(values[1], 0);
    EXPECT_EQ(values[kSize], first);
  }
}

TEST(OrderUpdates, one_gradient_is_alive_at_a_time) {
  const auto executable = program(false);
  EXPECT_EQ(executable->memory.arenaBytes, 2 * kBytes);  // the input and one gradient
  expectUpdated(executable);
}

TEST(OrderUpdates, gradients_that_the_host_reads_stay_alive) {
  const auto executable = program(true);
  EXPECT_GE(executable->memory.arenaBytes, kWeights * kBytes);
  expectUpdated(executable);
}

}  // namespace
}  // namespace popart
