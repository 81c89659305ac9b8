// Optimizer classes: checks of values and keys, replacement rules, specific values, compound scalars; random seeds of a
// program.
#include <gtest/gtest.h>

#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/sgd.hpp>

#include "../support/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart {
namespace {

using Pairs = std::map<std::string, std::pair<float, bool>>;

TEST(SgdClass, RefusesValuesOutOfRange) {
  for (const auto &[key, value] :
       std::vector<std::pair<std::string, std::pair<float, bool>>>{{"defaultLearningRate", {-1.0f, false}},
                                                                   {"defaultWeightDecay", {-0.1f, true}},
                                                                   {"defaultMomentum", {-0.1f, true}},
                                                                   {"defaultDampening", {-0.1f, true}},
                                                                   {"defaultVelocityScaling", {0.0f, true}},
                                                                   {"lossScaling", {0.0f, true}},
                                                                   {"learningRate", {0.1f, true}}})
    EXPECT_THROW(SGD(Pairs{{key, value}}), error) << key;
  EXPECT_NO_THROW(SGD(Pairs{{"defaultLearningRate", {0.0f, false}}}));
  EXPECT_NO_THROW(SGD(Pairs{{"defaultLearningRate", {0.0f, true}}}));  // nothing trains but weights of their own
  EXPECT_THROW(
      SGD(Pairs{{"nesterov", {1.0f, true}}, {"defaultMomentum", {0.9f, true}}, {"defaultDampening", {0.1f, true}}}),
      error);
}

TEST(SgdClass, UnknownKeyListsTheAllowedOnes) {
  try {
    SGD(Pairs{{"defaultLearnRate", {0.1f, true}}});
    FAIL();
  } catch (const error &e) {
    EXPECT_NE(std::string(e.what()).find("defaultLearningRate"), std::string::npos) << e.what();
  }
}

TEST(SgdClass, SpecificValuesTakeCurrentDefaultsAndAreSetOnce) {
  SGD sgd({{"defaultLearningRate", {0.5f, false}}, {"defaultWeightDecay", {0.25f, true}}});
  sgd.insertSpecific("w", Pairs{{"learningRate", {0.75f, false}}});
  EXPECT_EQ(sgd.learningRates().get("w").val(), 0.75f);
  EXPECT_EQ(sgd.weightDecays().get("w").val(), 0.25f);
  EXPECT_EQ(sgd.learningRates().get("v").val(), 0.5f);
  EXPECT_THROW(sgd.insertSpecific("w", Pairs{}), error);
  EXPECT_THROW(sgd.insertSpecific("v", Pairs{{"momentum", {-1.0f, true}}}), error);
  EXPECT_FALSE(sgd.hasSpecific("v")) << "a refused call changes nothing";
}

TEST(SgdClass, ReplacementNeedsTheSameConstnessAndConstants) {
  const SGD base(Pairs{{"defaultLearningRate", {0.1f, false}}});
  EXPECT_TRUE(base.validReplacement(SGD(Pairs{{"defaultLearningRate", {0.7f, false}}})));
  EXPECT_FALSE(base.validReplacement(SGD(Pairs{{"defaultLearningRate", {0.1f, true}}})));
  EXPECT_FALSE(
      base.validReplacement(SGD(Pairs{{"defaultLearningRate", {0.1f, false}}, {"defaultWeightDecay", {0.1f, true}}})));
  SGD specific(base);
  specific.insertSpecific("w", Pairs{});
  EXPECT_FALSE(base.validReplacement(specific));
  EXPECT_FALSE(base.validReplacement(
      Adam(Pairs{}, AdamMode::Adam, WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT)));
}

TEST(SgdClass, CompoundScalarsUseLossScaleAndMeanFactors) {
  SGD sgd(
      Pairs{{"defaultLearningRate", {0.8f, true}}, {"defaultDampening", {0.5f, true}}, {"lossScaling", {4.0f, false}}});
  EXPECT_THROW(sgd.scalar("scaledLearningRate0", "w"), error) << "factors are not set yet";
  OptimizerFactors factors;
  sgd.setFactors(factors);
  EXPECT_FLOAT_EQ(sgd.scalar("scaledLearningRate0", "w").value.val(), 0.1f);
  EXPECT_FALSE(sgd.scalar("scaledLearningRate0", "w").value.isConst());
  EXPECT_TRUE(sgd.scalar("weightDecayScaleFactor0", "w").value.isConst());
  factors = {true, 5, 2, OptimizerFactors::Reduction::MeanPost};
  sgd.setFactors(factors);
  EXPECT_FLOAT_EQ(sgd.scalar("scaledLearningRate0", "w").value.val(), 0.01f);
}

TEST(UpdateRules, HoldWhatUpdatesReadByWeight) {
  SGD sgd(Pairs{{"defaultLearningRate", {0.8f, true}}, {"lossScaling", {4.0f, true}}});
  sgd.insertSpecific("w", Pairs{{"learningRate", {0.4f, false}}, {"momentum", {0.5f, true}}});
  const UpdateRules rules = sgd.updateRules({true, 5, 1, OptimizerFactors::Reduction::MeanPost});
  const UpdateRule &common = rules.of("v"), &own = rules.of("w");
  EXPECT_FALSE(std::get<SgdRule>(common.form).hasVelocity);
  EXPECT_TRUE(std::get<SgdRule>(own.form).hasVelocity);
  EXPECT_FLOAT_EQ(common.scalar("scaledLearningRate0").value.val(), 0.8f / (4.0f * 5));
  EXPECT_EQ(common.scalar("scaledLearningRate0").id(), "scaledLearningRate0___default___FLOAT");
  EXPECT_FALSE(own.scalar("scaledLearningRate1").value.isConst());
  EXPECT_EQ(own.scalar("scaledLearningRate1").id(), "scaledLearningRate1___specific___w");
  EXPECT_THROW(common.scalar("scaledLearningRate1"), internal_error) << "an update without velocity does not read it";
  EXPECT_THROW(sgd.factors(), error) << "the optimizer itself is as before";
}

TEST(AdamClass, RefusesValuesOutOfRange) {
  auto make = [](const std::string &key, float value) {
    return Adam(Pairs{{key, {value, true}}}, AdamMode::Adam, WeightDecayMode::Decay, DataType::UNDEFINED,
                DataType::FLOAT, DataType::FLOAT);
  };
  EXPECT_THROW(make("defaultBeta1", -0.1f), error);
  EXPECT_THROW(make("defaultEps", 0.0f), error);
  EXPECT_THROW(make("beta1", 0.9f), error);
  EXPECT_EQ(make("maxWeightNorm", 3.0f).maxWeightNorms().getDefault().val(), 3.0f);
}

TEST(AdaptiveClass, TfVariantIsForRmsPropOnly) {
  auto make = [](AdaptiveMode mode) {
    return Adaptive(Pairs{}, mode, WeightDecayMode::Decay, DataType::UNDEFINED, DataType::FLOAT, DataType::FLOAT,
                    DataType::UNDEFINED, true);
  };
  EXPECT_THROW(make(AdaptiveMode::AdaGrad), error);
  EXPECT_THROW(make(AdaptiveMode::AdaDelta), error);
  EXPECT_NO_THROW(make(AdaptiveMode::CenteredRMSProp));
}

TEST(ClipNorm, ClipAllStandsAlone) {
  EXPECT_THROW(
      ConstSGD(0.1f, 0.0f, 1.0f, {ClipNormSettings::clipAllWeights(1.0f), ClipNormSettings::clipWeights({"w"}, 1.0f)}),
      error);
  EXPECT_THROW(ClipNormSettings::clipAllWeights(1.0f).getWeightIds(), error);
}

// Two dropouts of ones: their masks differ, change from batch to batch, and come back with the seed.
TEST(RandomSetup, EveryRandomOpAndBatchHasItsOwnNumbers) {
  constexpr int64_t kSize = 256;
  pipeline::PrepareRequest request;
  request.ir = std::make_unique<Ir>();
  test::GraphBuilder b(request.ir->getMainGraph());
  auto x = b.constant("x", {kSize}, std::vector<float>(kSize, 1.0f));
  auto seed =
      request.ir->getMainGraph().addVariable("randomSeed___fromHost", TensorData(TensorInfo(DataType::UINT32, {2})));
  for (const char *id : {"a", "b"}) b.op("Dropout", {x, seed}, id, {{"training_mode", int64_t{1}}, {"ratio", 0.5f}});
  request.anchors = {{"a"}, {"b"}};
  auto prepared = pipeline::prepare(std::move(request));
  ASSERT_EQ(prepared.randomSeed, "randomSeed___fromHost");
  auto run = [&](int batches) {
    test::ProgramRun program(*prepared.ir);
    for (int i = 0; i < batches; ++i) program.run();
    return std::pair(program.anchor("a"), program.anchor("b"));
  };
  const auto first = run(1), again = run(1), second = run(2);
  EXPECT_NE(first.first, first.second);
  EXPECT_NE(first.first, second.first);
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace popart
