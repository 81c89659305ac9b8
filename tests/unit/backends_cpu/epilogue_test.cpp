// Activations and their slopes against the C library in double, at ordinary, huge and non-finite arguments; epilogues
// against the element engine, for every row of its table; updates against their formulas; packing.
#include "backends/cpu/kernels/epilogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "../support/program.hpp"
#include "backends/cpu/element_table.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::cpu {
namespace {

// What the instruction computes of one operand, or of two.
std::vector<float> computed(const EpilogueStep &step, const std::vector<float> &a, const std::vector<float> &b = {}) {
  std::vector<float> y(a.size());
  const void *const operands[] = {a.data(), b.data()};
  elementFunction(step.op, 0)(operands, y.data(), static_cast<int64_t>(a.size()), step.parameters.data());
  return y;
}

enum class Saved { kInput, kOutput };
struct ExactActivation {
  const char *name;
  EpilogueStep activation, slope;
  Saved saved;
  double (*exact)(double);
};
const ExactActivation kExact[] = {
    {"Relu", {ElementOp::kRelu}, {ElementOp::kReluGrad}, Saved::kOutput, [](double x) { return x > 0 ? x : 0; }},
    {"GeluErf",
     {ElementOp::kGeluErf},
     {ElementOp::kGeluErfGrad},
     Saved::kInput,
     [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
    {"Gelu",
     {ElementOp::kGelu},
     {ElementOp::kGeluGrad},
     Saved::kInput,
     [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    {"Sigmoid",
     {ElementOp::kSigmoid},
     {ElementOp::kSigmoidGrad},
     Saved::kOutput,
     [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", {ElementOp::kTanh}, {ElementOp::kTanhGrad}, Saved::kOutput, [](double x) { return std::tanh(x); }},
    {"Swish",
     {ElementOp::kSwish, {1, 0}},
     {ElementOp::kSwishGrad, {1, 0}},
     Saved::kInput,
     [](double x) { return x / (1 + std::exp(-x)); }},
    {"Swish 1.7",
     {ElementOp::kSwish, {1.75f, 0}},
     {ElementOp::kSwishGrad, {1.75f, 0}},
     Saved::kInput,
     [](double x) { return x / (1 + std::exp(-1.75 * x)); }},
};

TEST(Activation, matches_the_exact_function) {
  std::vector<float> x;
  for (double v = -12; v <= 12; v += 0.00371) x.push_back(static_cast<float>(v));
  for (float v : {0.0f, -0.0f, 1e-20f, -1e-20f, 90.0f, -90.0f, 1e4f, -1e4f, 3e12f, -3e12f}) x.push_back(v);
  for (const ExactActivation &a : kExact) {
    const std::vector<float> y = computed(a.activation, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = a.exact(x[i]);
      ASSERT_NEAR(y[i], exact, 4e-7 * std::max(1.0, std::abs(exact))) << a.name << " at " << x[i];
    }
  }
}

TEST(Activation, keeps_nan_and_the_limits_at_infinity) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const ExactActivation &a : kExact) {
    const std::vector<float> y = computed(a.activation, {NAN, inf});
    EXPECT_TRUE(std::isnan(y[0])) << a.name;
    const bool bounded = a.activation.op == ElementOp::kSigmoid || a.activation.op == ElementOp::kTanh;
    EXPECT_EQ(y[1], bounded ? 1.0f : inf) << a.name;
  }
}

TEST(Activation, slope_matches_the_central_difference) {
  std::vector<float> x;
  for (double v = -8; v <= 8; v += 0.0173) x.push_back(static_cast<float>(v));
  for (float v : {60.0f, -60.0f, 1e15f, -1e15f}) x.push_back(v);
  const std::vector<float> dy(x.size(), -1.5f);
  for (const ExactActivation &a : kExact) {
    const bool fromOutput = a.saved == Saved::kOutput, isRelu = a.activation.op == ElementOp::kRelu;
    const std::vector<float> dx = computed(a.slope, dy, fromOutput ? computed(a.activation, x) : x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double at = x[i], step = 1e-5;
      if (isRelu && std::abs(at) < 2 * step) continue;
      const double limit = at > 0 && (!fromOutput || isRelu);
      const double slope = std::abs(at) > 50 ? limit : (a.exact(at + step) - a.exact(at - step)) / (2 * step);
      ASSERT_NEAR(dx[i], -1.5 * slope, 3e-6) << a.name << " at " << at;
    }
  }
}

void expectSameBits(const std::vector<float> &got, const std::vector<float> &want, const std::string &what) {
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
        << what << " [" << i << "]: got " << got[i] << ", expected " << want[i];
}

// Rows that are no multiple of a vector, and apart in memory.
struct Block {
  static constexpr int64_t kRows = 3, kCols = 533, kStride = 540;
  std::vector<float> sums = test::numbers(kRows * kStride, 1), bias = test::numbers(kCols, 2),
                     residual = test::numbers(kRows * kStride, 3), other = test::numbers(kRows * kStride, 4);
  std::vector<float> plain(float alpha) const {
    std::vector<float> v(sums.size());
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t column = i % kStride;
      v[i] = (alpha * sums[i] + (column < kCols ? bias[column] : 0)) + residual[i];
    }
    return v;
  }
  // Elements beyond a row's end must stay as they are.
  std::vector<float> withGaps(std::vector<float> y) const {
    for (size_t i = 0; i < y.size(); ++i)
      if (static_cast<int64_t>(i % kStride) >= kCols) y[i] = 7;
    return y;
  }
};

TEST(Epilogue, equals_the_instructions_that_run_in_registers) {
  const Block block;
  const int64_t rows = Block::kRows, cols = Block::kCols, stride = Block::kStride;
  int compared[2] = {0, 0};
  for (float alpha : {1.0f, 0.5f})
    for (const ElementRow &row : elementRows()) {
      if (row.form != RegisterForm::kFloat || !runsInRegisters(row.op)) continue;
      const EpilogueStep step{row.op, {0.75f, 1.25f}};
      const bool hasOther = row.operands == 2;
      std::vector<float> y = block.other, pre(y.size(), 7);  // over its operand
      const Epilogue e{.bias = block.bias.data(),
                       .residual = block.residual.data(),
                       .preActivation = alpha == 1.0f ? nullptr : pre.data(),
                       .other = hasOther ? y.data() : nullptr,
                       .alpha = alpha,
                       .step = step};
      applyEpilogue(e, block.sums.data(), stride, y.data(), stride, rows, cols);
      for (size_t i = 0; i < y.size(); ++i)
        if (static_cast<int64_t>(i % Block::kStride) >= cols) {
          ASSERT_EQ(y[i], block.other[i]);
        }
      expectSameBits(block.withGaps(y), block.withGaps(computed(step, block.plain(alpha), block.other)), row.type);
      if (e.preActivation) expectSameBits(pre, block.withGaps(block.plain(alpha)), row.type);
      ++compared[hasOther];
    }
  EXPECT_GT(compared[0], 30);
  EXPECT_GT(compared[1], 10);
}

TEST(Element, float_rows_do_not_depend_on_the_position_in_the_array) {
  const std::vector<float> x(67, 0.731f);
  for (const ElementRow &row : elementRows()) {
    if (row.form != RegisterForm::kFloat || row.operands != 1) continue;
    const std::vector<float> y = computed({row.op, {0.75f, 1.25f}}, x);
    for (float v : y) ASSERT_EQ(std::memcmp(&v, &y[0], sizeof v), 0) << row.type;
  }
}

// first = first / 2 + gradient; w = w - first. Counts positions from the start of both arrays.
class Momentum final : public ElementUpdate {
 public:
  Momentum(float *w, float *first) : w_(w), first_(first) {}
  void apply(const float *gradient, int64_t position, int64_t count) const noexcept override {
    for (int64_t i = 0; i < count; ++i) {
      first_[position + i] = 0.5f * first_[position + i] + gradient[i];
      w_[position + i] -= first_[position + i];
    }
  }
  void prefetch(int64_t, int64_t) const noexcept override {}
  void clear(int64_t position, int64_t count) const noexcept override {
    std::fill_n(w_ + position, count, 0.0f);
    std::fill_n(first_ + position, count, 0.0f);
  }

 private:
  float *w_, *first_;
};

TEST(Update, follows_the_documented_formulas) {
  const Update u{.kind = UpdateKind::kSgd, .rate = 0.5f, .decay = 0.75f};
  const float g = 2.0f;
  float w = 8.0f;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 5.0f);
  applyUpdate({}, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 2.0f);
}

// A block of a plain matrix, and rows of a panel whose last lanes hold no element.
TEST(Update, hands_places_to_compiled_steps_and_clears_padding) {
  constexpr int64_t kRows = 3, kWidth = 5, kCols = 2;
  const float gradient[kRows * kCols] = {1, 2, 3, 4, 5, 6};
  for (const bool isPanel : {false, true}) {
    std::vector<float> w(20, 10.0f), first(20, 2.0f);
    const Momentum momentum(w.data(), first.data());
    const Update u{.kind = UpdateKind::kElements, .elements = &momentum, .base = w.data()};
    (isPanel ? applyPanelUpdate : applyUpdate)(u, gradient, kCols, w.data() + kWidth, kWidth, kRows, kCols);
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t row = i / kWidth - 1, col = i % kWidth;
      const bool isElement = row >= 0 && col < kCols, isPadding = row >= 0 && col >= kCols && isPanel;
      const float g = isElement ? gradient[row * kCols + col] : 0.0f;
      ASSERT_EQ(first[i], isElement ? 1 + g : isPadding ? 0 : 2) << i;
      ASSERT_EQ(w[i], isElement ? 9 - g : isPadding ? 0 : 10) << i;
    }
  }
}

TEST(Pack, gives_the_stored_form_of_rows_and_columns) {
  for (int64_t n : {1, 7, 32, 45, 96}) {
    const int64_t k = 19;
    const std::vector<float> b = test::numbers(k * n);
    for (bool isTransposed : {false, true}) {  // b is (K, N), or (N, K)
      const executable::Layout &layout = *matrixPanels(isTransposed ? Transposed::kYes : Transposed::kNo);
      const TensorInfo info(DataType::FLOAT, isTransposed ? Shape{n, k} : Shape{k, n});
      std::vector<float> stored(static_cast<size_t>(packedSize(k, n))), packed(stored.size(), NAN);
      ASSERT_EQ(layout.bytes(info), packedSize(k, n) * static_cast<int64_t>(sizeof(float)));
      layout.pack(info, b.data(), stored.data());
      packPanels(b.data(), isTransposed ? 1 : n, isTransposed ? k : 1, k, n, packed.data());
      ASSERT_EQ(packed, stored);
    }
  }
}

}  // namespace
}  // namespace popart::cpu
