// Optimizer rows: the formulas of the optimizers' documentation on numbers that are exact in binary.
#include <cmath>

#include <gtest/gtest.h>

#include "evaluate_op.hpp"

namespace popart::testing {
namespace {

using Values = std::vector<double>;

Values run(const std::string &type, Attributes attributes, const std::vector<TensorData> &inputs) {
  return valuesOf(evaluateOp(type, std::move(attributes), inputs).at(0));
}

const TensorData kVar = floats({2}, {4, -8});
const TensorData kUpdate = floats({2}, {2, 3});

TEST(VarUpdate, sgd0_scales_the_weight_and_takes_the_gradient_off) {
  EXPECT_EQ(run("SGD0VarUpdate", {}, {kVar, kUpdate, scalar(0.5f), scalar(0.25f)}), (Values{0, -3.5}));
}

TEST(VarUpdate, scalars_may_be_attributes) {
  EXPECT_EQ(run("SGD0VarUpdate", {{"slr0", 0.5f}, {"wdsf0", 0.25f}}, {kVar, kUpdate}), (Values{0, -3.5}));
}

TEST(VarUpdate, a_scalar_given_twice_or_not_at_all_is_refused) {
  EXPECT_THROW(run("SGD0VarUpdate", {{"slr0", 0.5f}, {"wdsf0", 1.0f}}, {kVar, kUpdate, scalar(0.5f)}), error);
  EXPECT_THROW(run("SGD0VarUpdate", {{"slr0", 0.5f}}, {kVar, kUpdate}), error);
}

TEST(VarUpdate, a_gradient_of_another_shape_is_refused) {
  EXPECT_THROW(run("SGD0VarUpdate", {{"slr0", 0.5f}, {"wdsf0", 1.0f}}, {kVar, floats({1}, {2})}), error);
}

TEST(VarUpdate, momentum_rows_follow_their_formulas) {
  EXPECT_EQ(run("SGD1AcclUpdate", {}, {kVar, kUpdate, scalar(0.5f), scalar(2)}), (Values{6, 2}));
  EXPECT_EQ(run("SGD2PartialAcclUpdate", {}, {kVar, kUpdate, scalar(0.5f), scalar(2)}), (Values{6, 2}));
  EXPECT_EQ(run("SGD1VarUpdate", {}, {kVar, kUpdate, scalar(0.5f)}), (Values{3, -9.5}));
  EXPECT_EQ(run("SGD2VarUpdate", {}, {kVar, kUpdate, scalar(0.5f)}), (Values{3, -9.5}));
  EXPECT_EQ(run("SGD1Nesterov", {{"ils", 0.5f}, {"wd", 0.25f}, {"ngsf", 2.0f}, {"mm", 4.0f}},
                {floats({1}, {8}), floats({1}, {16}), floats({1}, {3})}),
            (Values{2 * (4 + 4) + 12}));
}

TEST(VarUpdate, accumulation_types_follow_their_formulas) {
  auto accumulate = [](const char *kind, float factor) {
    return run("Accumulate", {{"accumulation_type", std::string(kind)}, {"factor", factor}}, {kVar, kUpdate});
  };
  EXPECT_EQ(run("Accumulate", {}, {kVar, kUpdate}), (Values{6, -5}));
  EXPECT_EQ(accumulate("DampenedAdd", 0.5f), (Values{5, -6.5}));
  EXPECT_EQ(accumulate("DampenedAddSquare", 0.5f), (Values{6, -3.5}));
  EXPECT_EQ(accumulate("DecayAdd", 0.5f), (Values{4, -1}));
  EXPECT_EQ(accumulate("DecayAddSquare", 0.5f), (Values{6, 5}));
  EXPECT_EQ(accumulate("MovingAverage", 0.25f), (Values{2.5, 0.25}));
  EXPECT_EQ(accumulate("MovingAverageSquare", 0.25f), (Values{4, 4.75}));
  EXPECT_EQ(accumulate("Infinity", 0.25f), (Values{2, 3}));
  EXPECT_EQ(accumulate("Mean", 3.0f), (Values{3.5, -5.25}));
  EXPECT_THROW(accumulate("Sometimes", 1.0f), error);
}

TEST(VarUpdate, accumulator_scale_of_zero_clears_infinities) {
  EXPECT_EQ(run("AccumulatorScale", {{"factor", 0.0f}}, {floats({2}, {INFINITY, NAN})}), (Values{0, 0}));
  EXPECT_EQ(run("AccumulatorScale", {{"factor", 0.5f}}, {kVar}), (Values{2, -4}));
  EXPECT_EQ(run("AccumulatorZero", {}, {kVar}), (Values{0, 0}));
}

TEST(VarUpdate, sparse_accumulate_adds_rows_from_either_end) {
  const TensorData indices = TensorData::of<int32_t>({3}, std::vector<int32_t>{1, 1, -2});
  EXPECT_EQ(run("PopartSparseAccumulate", {{"factor", 2.0f}},
                {floats({2, 2}, {1, 2, 3, 4}), floats({3, 2}, {1, 1, 2, 2, 9, 9}), indices}),
            (Values{19, 20, 9, 10}));
}

TEST(VarUpdate, sparse_accumulate_refuses_an_index_out_of_range) {
  for (int32_t bad : {2, -3}) {
    const TensorData indices = TensorData::of<int32_t>({2}, std::vector<int32_t>{1, bad});
    EXPECT_THROW(
        run("PopartSparseAccumulate", {}, {floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 1, 2, 2}), indices}),
        error);
  }
}

TEST(VarUpdate, adam_corrects_the_bias_and_counts_the_step) {
  const TensorData m = floats({1}, {1}), v = floats({1}, {0.75f}), step = scalar(1);
  const Attributes attributes{{"beta1", 0.5f}, {"beta2", 0.5f}, {"epsilon", 1.0f}};
  const auto out = evaluateOp("AdamUpdater", attributes, {absent(), m, v, step}, 2);
  EXPECT_FLOAT_EQ(valuesOf(out[0])[0], (1 / 0.75) / (std::sqrt(0.75 / 0.75) + 1));
  EXPECT_EQ(valuesOf(out[1])[0], 2);
}

TEST(VarUpdate, adam_modes_differ_in_correction_and_root) {
  const TensorData m = floats({1}, {1}), v = floats({1}, {0.25f}), step = scalar(0);
  auto mode = [&](const char *name) {
    Attributes attributes{{"mode", std::string(name)}, {"beta1", 0.5f}, {"beta2", 0.75f}, {"epsilon", 0.5f}};
    return run("AdamUpdater", attributes, {absent(), m, v, step})[0];
  };
  EXPECT_NEAR(mode("Adam"), 2 / 1.5, 1e-6);
  EXPECT_NEAR(mode("Lamb"), 2 / 1.5, 1e-6);
  EXPECT_EQ(mode("AdamNoBias"), 1);
  EXPECT_EQ(mode("LambNoBias"), 1);
  EXPECT_NEAR(mode("AdaMax"), 2 / 0.75, 1e-6);
}

TEST(VarUpdate, adam_weight_decay_adds_the_weight) {
  Attributes attributes{{"mode", std::string("AdamNoBias")}, {"weight_decay", 0.5f}, {"epsilon", 1.0f}};
  const TensorData one = floats({1}, {1});
  EXPECT_EQ(run("AdamUpdater", attributes, {floats({1}, {8}), one, one}), (Values{4.5}));
  EXPECT_THROW(run("AdamUpdater", attributes, {absent(), one, one}), error);
  EXPECT_THROW(run("AdamUpdater", {{"epsilon", 1.0f}, {"beta1", 0.5f}, {"beta2", 0.5f}}, {absent(), one, one}), error);
}

TEST(VarUpdate, trust_ratio_is_limited_and_falls_back_to_one) {
  auto update = [](float r1, float r2, float limit) {
    return run("AdamVarUpdate", {{"lr", 0.5f}, {"max_weight_norm", limit}},
               {floats({1}, {10}), floats({1}, {2}), scalar(r1), scalar(r2)})[0];
  };
  EXPECT_EQ(update(16, 4, 100), 10 - 0.5 * 2 * 2);
  EXPECT_EQ(update(16, 4, 2), 10 - 0.5 * 1 * 2);
  EXPECT_EQ(update(0, 4, 2), 9);
  EXPECT_EQ(update(16, 0, 2), 9);
  EXPECT_EQ(update(16, 4, 0), 9);
  EXPECT_EQ(run("AdamVarUpdate", {{"lr", 0.5f}}, {floats({1}, {10}), floats({1}, {2})}), (Values{9}));
}

TEST(VarUpdate, adaptive_updaters_follow_their_formulas) {
  const TensorData g = floats({1}, {6}), v1 = floats({1}, {4}), v2 = floats({1}, {1});
  EXPECT_EQ(run("RMSPropUpdater", {{"epsilon", 1.0f}}, {g, v1}), (Values{2}));
  EXPECT_FLOAT_EQ(run("RMSPropUpdater", {{"epsilon", 1.0f}}, {g, v1, v2})[0], 6 / (std::sqrt(3.0) + 1));
  EXPECT_FLOAT_EQ(run("RMSPropUpdater", {{"epsilon", 1.0f}, {"tf_variant", int64_t{1}}}, {g, v1, v2})[0], 3);
  EXPECT_FLOAT_EQ(run("AdaDeltaUpdater", {{"epsilon", 5.0f}}, {g, v1, floats({1}, {11})})[0], 6 * 4 / 3.0);
  EXPECT_EQ(run("ScaledVarUpdate", {{"lr", 0.5f}, {"wd", 0.25f}}, {floats({1}, {8}), floats({1}, {2})}), (Values{6}));
  EXPECT_EQ(run("ScaledVarUpdate", {{"wd", 0.25f}}, {floats({1}, {8}), floats({1}, {2})}), (Values{4}));
}

TEST(VarUpdate, copy_takes_the_new_value_of_the_same_type) {
  EXPECT_EQ(run("CopyVarUpdate", {}, {kVar, kUpdate}), (Values{2, 3}));
  EXPECT_THROW(run("CopyVarUpdate", {}, {kVar, words({1, 2})}), error);
}

}  // namespace
}  // namespace popart::testing
