// Random rows: a pure function of seed and shape, the documented ranges and moments, masks shared with the gradient.
#include <cmath>

#include <gtest/gtest.h>

#include "evaluate_op.hpp"

namespace popart::testing {
namespace {

using Values = std::vector<double>;

Values draw(const std::string &type, Attributes attributes, std::vector<uint32_t> seed) {
  return valuesOf(evaluateOp(type, std::move(attributes), {words(std::move(seed))}).at(0));
}

double mean(const Values &v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}
double variance(const Values &v) {
  double sum = 0;
  for (double x : v) sum += (x - mean(v)) * (x - mean(v));
  return sum / static_cast<double>(v.size());
}

const Shape kMany{5, 1999};

TEST(Random, the_same_seed_gives_the_same_numbers_and_another_seed_others) {
  const Attributes attributes{{"shape", kMany}};
  EXPECT_EQ(draw("RandomNormal", attributes, {1, 2}), draw("RandomNormal", attributes, {1, 2}));
  EXPECT_NE(draw("RandomNormal", attributes, {1, 2}), draw("RandomNormal", attributes, {1, 3}));
}

TEST(Random, a_shorter_tensor_is_the_beginning_of_a_longer_one) {
  Values longer = draw("RandomNormal", {{"shape", Shape{11}}}, {1, 2}),
         shorter = draw("RandomNormal", {{"shape", Shape{6}}}, {1, 2});
  longer.resize(6);
  EXPECT_EQ(longer, shorter);
}

TEST(Random, normal_numbers_have_the_asked_moments) {
  const Values v = draw("RandomNormal", {{"shape", kMany}, {"mean", 3.0f}, {"scale", 2.0f}}, {1, 2});
  EXPECT_NEAR(mean(v), 3, 0.1);
  EXPECT_NEAR(variance(v), 4, 0.2);
}

TEST(Random, uniform_numbers_stay_below_the_upper_end_in_every_type) {
  for (int type : {1, 10, 11, 16}) {
    const Values v = draw("RandomUniform",
                          {{"shape", kMany}, {"low", 1.0f}, {"high", 1.0078125f}, {"dtype", int64_t{type}}}, {1, 2});
    for (double x : v) {
      ASSERT_GE(x, 1.0);
      ASSERT_LT(x, 1.0078125);
    }
  }
  const Values v = draw("RandomUniform", {{"shape", kMany}, {"low", -2.0f}, {"high", 4.0f}}, {1, 2});
  EXPECT_NEAR(mean(v), 1, 0.1);
  EXPECT_NEAR(variance(v), 3, 0.1);
}

TEST(Random, integer_types_and_wrong_seeds_are_refused) {
  EXPECT_THROW(draw("RandomUniform", {{"shape", kMany}, {"dtype", int64_t{7}}}, {1, 2}), error);
  EXPECT_THROW(draw("RandomUniform", {{"shape", kMany}}, {1, 2, 3}), error);
}

TEST(Random, dropout_drops_the_ratio_and_scales_the_rest) {
  const TensorData ones = floats({10000}, std::vector<float>(10000, 1.0f));
  const auto out = evaluateOp("Dropout", {{"ratio", 0.25f}, {"training_mode", int64_t{1}}}, {ones, words({5, 6})}, 2);
  const Values y = valuesOf(out[0]), mask = valuesOf(out[1]);
  EXPECT_NEAR(mean(mask), 0.75, 0.02);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], mask[i] != 0 ? double{static_cast<float>(1 / 0.75)} : 0.0);
  EXPECT_EQ(valuesOf(evaluateOp("DropoutGrad", {{"ratio", 0.25f}}, {ones, words({5, 6})})[0]), y);
}

TEST(Random, dropout_is_the_identity_without_training_mode) {
  const TensorData x = floats({3}, {1, 2, 3});
  EXPECT_EQ(valuesOf(evaluateOp("Dropout", {{"ratio", 0.5f}}, {x})[0]), (Values{1, 2, 3}));
  EXPECT_THROW(evaluateOp("Dropout", {{"training_mode", int64_t{1}}}, {x}), error);
  EXPECT_THROW(evaluateOp("Dropout", {{"ratio", 1.0f}}, {x}), error);
}

TEST(Random, shaped_dropout_shares_its_mask_along_broadcast_dimensions) {
  const TensorData ones = floats({50, 3}, std::vector<float>(150, 1.0f));
  const Values y =
      valuesOf(evaluateOp("ShapedDropout", {{"shape", Shape{50, 1}}, {"ratio", 0.5f}}, {ones, words({5, 6})})[0]);
  int kept = 0;
  for (size_t row = 0; row < 50; ++row) {
    ASSERT_EQ(y[3 * row], y[3 * row + 1]);
    ASSERT_EQ(y[3 * row], y[3 * row + 2]);
    kept += y[3 * row] != 0;
  }
  EXPECT_GT(kept, 10);
  EXPECT_LT(kept, 40);
  EXPECT_THROW(evaluateOp("ShapedDropout", {{"shape", Shape{7}}}, {ones, words({5, 6})}), error);
}

TEST(Random, bernoulli_draws_ones_with_the_given_probability) {
  std::vector<float> p(10000, 0.25f);
  p[0] = 0, p[1] = 1;
  const Values v = valuesOf(evaluateOp("Bernoulli", {{"dtype", int64_t{6}}}, {floats({10000}, p), words({5, 6})})[0]);
  EXPECT_EQ(v[0], 0);
  EXPECT_EQ(v[1], 1);
  EXPECT_NEAR(mean(v), 0.25, 0.02);
}

TEST(Random, rounding_is_unbiased_and_depends_on_seed_and_stream) {
  const std::vector<float> x(40000, 1.0f + 0x1p-12f);  // a quarter of the way to the next FLOAT16
  const auto rounded = [&](std::vector<uint32_t> seed, int64_t stream) {
    return valuesOf(evaluateOp("RoundStochastically", {{"to", int64_t{10}}, {"stream", stream}},
                               {floats({40000}, x), words(std::move(seed))})[0]);
  };
  const Values a = rounded({5, 6}, 0);
  EXPECT_NEAR(mean(a), 1.0 + 0x1p-12, 5 * std::sqrt(0.25 * 0.75 / 40000) * 0x1p-10);
  EXPECT_EQ(a, rounded({5, 6}, 0));
  EXPECT_NE(a, rounded({5, 7}, 0));
  EXPECT_NE(a, rounded({5, 6}, 1));
  EXPECT_THROW(evaluateOp("RoundStochastically", {{"to", int64_t{1}}}, {floats({1}, {1}), words({5, 6})}), error);
}

TEST(Random, seed_ops_advance_and_modify) {
  const TensorData seed = words({5, 6});
  EXPECT_NE(valuesOf(evaluateOp("GetRandomSeed", {}, {seed})[0]), (Values{5, 6}));
  const TensorData first = TensorData::scalar(uint32_t{0}), second = TensorData::scalar(uint32_t{1});
  const Values a = valuesOf(evaluateOp("ModifyRandomSeed", {}, {seed, first})[0]);
  const Values b = valuesOf(evaluateOp("ModifyRandomSeed", {}, {seed, second})[0]);
  EXPECT_EQ(a[0], 5);
  EXPECT_EQ(b[0], 5);
  EXPECT_NE(a[1], b[1]);
}

}  // namespace
}  // namespace popart::testing
