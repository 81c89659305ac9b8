// The table of reserved prefixes.
#include <popart/tensornames.hpp>

#include <popart/error.hpp>

namespace popart {
namespace {

constexpr const char *kInternal[] = {"Counter___",
                                     "GlobalNorm___",
                                     "Init___",
                                     "Index___",
                                     "Iterator___",
                                     "LoopCond___",
                                     "ConcatInit___",
                                     "ConstValue___",
                                     "anchorSum___",
                                     "anchorFinal___",
                                     "cycleCount___",
                                     "AdaptiveUpdater___",
                                     "PreviousLossScaling_",
                                     "LossScalingRatio_",
                                     "lossScaleUpdateFactor"};

#define SCALAR(UPPER, LOWER)                                   \
  {"reservedDefault" UPPER "Prefix", LOWER "___default___"}, { \
    "reservedSpecific" UPPER "Prefix", LOWER "___specific___"  \
  }
const std::vector<ReservedPrefix> kPublic = {
    {"reservedGradientPrefix", "Gradient___"},
    {"reservedUpdatedVarPrefix", "UpdatedVar___"},
    {"reservedAccumPrefix", "Accum___"},
    {"reservedAcclPrefix", "Accl___"},
    {"reservedAccl1Prefix", "Accl1___"},
    {"reservedAccl2Prefix", "Accl2___"},
    {"reservedAccl3Prefix", "Accl3___"},
    {"reservedStepPrefix", "Step___"},
    {"reservedAcclToReducePrefix", "AcclIntoReduce___"},
    {"reservedAcclToUpdatePrefix", "AcclIntoUpdate___"},
    {"reservedAcclFinalOutPrefix", "AcclOutOfAcclUpdate___"},
    {"reservedFinalReducedGradPrefix", "FinalReducedGradient___"},
    {"reservedAdamUpdaterPrefix", "AdamUpdater___"},
    {"reservedLambR1SqPrefix", "LambR1Sq___"},
    {"reservedLambR2SqPrefix", "LambR2Sq___"},
    {"reservedStashedPrefix", "Stashed___"},
    {"reservedRestoredPrefix", "Restored___"},
    {"reservedLossScalingPrefix", "lossScaling_"},
    {"reservedRandomSeedPrefix", "randomSeed___"},
    {"reservedSeedModifierPrefix", "randomSeedModifier___"},
    {"reservedRemoteArgPrefix", "RemoteArg___"},
    {"reservedAutomaticLossScalePrefix", "AutomaticLossScaleProxy___"},
    SCALAR("WeightDecayScaleFactor0", "weightDecayScaleFactor0"),
    SCALAR("ScaledLearningRate0", "scaledLearningRate0"),
    SCALAR("ScaledWeightDecay1", "scaledWeightDecay1"),
    SCALAR("ScaledLearningRate1", "scaledLearningRate1"),
    SCALAR("DampeningScaleFactor1", "dampeningScaleFactor1"),
    SCALAR("ScaledMomentum1", "scaledMomentum1"),
    SCALAR("LearningRate", "learningRate"),
    SCALAR("WeightDecay", "weightDecay"),
    SCALAR("LossScaling", "lossScaling"),
    SCALAR("MaxWeightNorm", "maxWeightNorm"),
    SCALAR("AdamBeta1", "adamBeta1"),
    SCALAR("AdamBeta2", "adamBeta2"),
    SCALAR("AdamEps", "adamEps"),
    SCALAR("Step", "step"),
};
#undef SCALAR

}  // namespace

const std::vector<ReservedPrefix> &reservedPrefixes() { return kPublic; }

std::vector<std::string> allReservedPrefixes() {
  std::vector<std::string> all;
  for (const ReservedPrefix &prefix : kPublic) all.push_back(prefix.text);
  all.insert(all.end(), std::begin(kInternal), std::end(kInternal));
  return all;
}

void checkNoReservedPrefix(const TensorId &id, const std::string &what) {
  for (const std::string &prefix : allReservedPrefixes())
    if (id.find(prefix) != std::string::npos)
      throw error("{} '{}': the name contains the reserved prefix '{}'. Rename the tensor", what, id, prefix);
}

}  // namespace popart
