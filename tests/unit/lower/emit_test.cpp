// Emission: which values share memory, and that sharing never changes what the host reads. Programs are written as IR
// text and run on the reference backend; the expected numbers follow from the text.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using Values = std::vector<float>;

// Streams by id: inputs repeat the same value, outputs keep every value written.
class Streams final : public runtime::StreamSource {
 public:
  Streams(const executable::Executable &e, std::map<std::string, Values> inputs)
      : executable_(e), inputs_(std::move(inputs)) {}
  const void *input(int s, int64_t) override { return inputs_.at(executable_.inputs[s].id).data(); }
  void *output(int s, int64_t bytes) override {
    auto &list = outputs[executable_.outputs[s].id];
    list.emplace_back(static_cast<size_t>(bytes) / sizeof(float));
    return list.back().data();
  }
  std::map<std::string, std::vector<Values>> outputs;

 private:
  const executable::Executable &executable_;
  std::map<std::string, Values> inputs_;
};

struct Program {
  explicit Program(std::string_view text) {
    const auto ir = parseIr(text);
    lower::LowerOptions options;
    options.backends = {&ref::backend()};
    executable = pipeline::lower(*ir, options);
    engine = std::make_unique<runtime::Engine>(executable, test::host());
  }
  std::map<std::string, std::vector<Values>> run(std::map<std::string, Values> inputs = {}) {
    Streams streams(*executable, std::move(inputs));
    engine->run(streams);
    return streams.outputs;
  }
  Values variable(const std::string &id) {
    for (size_t i = 0; i < executable->variables.size(); ++i) {
      if (executable->variables[i].id != id) continue;
      Values values(static_cast<size_t>(executable->variables[i].info.nelms()));
      engine->readVariable(static_cast<int>(i), values.data());
      return values;
    }
    ADD_FAILURE() << "no variable " << id;
    return {};
  }
  int copies() const {
    int count = 0;
    for (const auto &step : executable->main.steps) count += step.kind == executable::Step::Kind::Copy;
    return count;
  }
  std::shared_ptr<const executable::Executable> executable;
  std::unique_ptr<runtime::Engine> engine;
};

TEST(Emit, update_is_written_straight_into_the_variable) {
  Program p(R"(main {
  stream %in : float32[2]
  variable %w : float32[2] = [1, 2]
  %x = HostLoad() {stream = "in"}
  %v = AddLhsInplace(%w, %x)
})");
  EXPECT_EQ(p.copies(), 0);
  p.run({{"in", {10, 20}}});
  p.run({{"in", {10, 20}}});
  EXPECT_EQ(p.variable("w"), (Values{21, 42}));
}

TEST(Emit, late_reader_of_the_old_value_forces_a_copy) {
  Program p(R"(main {
  variable %w : float32[2] = [1, 2]
  variable %u : float32[2] = [0, 0]
  %old = Neg(%w)
  %v = Exp(%w)
  %w2 = CopyVarUpdate(%w, %v)
  %sum = Add(%old, %v)
  HostStore(%sum) {stream = "sum"}
})");
  const auto out = p.run();
  EXPECT_FLOAT_EQ(out.at("sum")[0][0], std::exp(1.0f) - 1.0f);
  EXPECT_FLOAT_EQ(p.variable("w")[1], std::exp(2.0f));
}

TEST(Emit, two_variables_may_swap_their_values) {
  Program p(R"(main {
  variable %a : float32[2] = [1, 2]
  variable %b : float32[2] = [3, 4]
  %oldA = Identity(%a)
  %a2 = CopyVarUpdate(%a, %b)
  %b2 = CopyVarUpdate(%b, %oldA)
})");
  p.run();
  EXPECT_EQ(p.variable("a"), (Values{3, 4}));
  EXPECT_EQ(p.variable("b"), (Values{1, 2}));
  p.run();
  EXPECT_EQ(p.variable("a"), (Values{1, 2}));
}

TEST(Emit, elementwise_chain_runs_in_one_buffer) {
  Program p(R"(main {
  stream %in : float32[64]
  %x = HostLoad() {stream = "in"}
  %a = Neg(%x)
  %b = Abs(%a)
  %c = Neg(%b)
  HostStore(%c) {stream = "out"}
})");
  EXPECT_EQ(p.executable->memory.arenaBytes, 64 * 4);
  EXPECT_EQ(p.run({{"in", Values(64, 2.0f)}}).at("out")[0], Values(64, -2.0f));
}

TEST(Emit, stored_variable_is_read_before_it_is_overwritten) {
  Program p(R"(main {
  stream %in : float32[2]
  variable %w : float32[2] = [1, 2]
  %x = HostLoad() {stream = "in"}
  HostStore(%w) {stream = "before"}
  %v = AddLhsInplace(%w, %x)
})");
  EXPECT_EQ(p.run({{"in", {5, 5}}}).at("before")[0], (Values{1, 2}));
  EXPECT_EQ(p.run({{"in", {5, 5}}}).at("before")[0], (Values{6, 7}));
}

TEST(Emit, memory_limit_names_the_largest_tensors) {
  const auto ir = parseIr(R"(main {
  stream %in : float32[1000]
  %x = HostLoad() {stream = "in"}
  %s = Add(%x, %x)
  HostStore(%s) {stream = "out"}
})");
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  options.maxMemoryBytes = 1000;
  try {
    pipeline::lower(*ir, options);
    FAIL() << "a program of 4,000 bytes fitted 1,000";
  } catch (const memory_allocation_err &e) {
    EXPECT_NE(std::string(e.what()).find("memory limit"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("4000 bytes"), std::string::npos);
  }
}

}  // namespace
}  // namespace popart
