// Fact `precision` of rows (docs/decisions/0085-precision.md): what reads floats states it, or is listed here with the
// reason for which it computes in FLOAT.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include <popart/opdef.hpp>

namespace popart {
namespace {

// Forward operators of models: no gradients, updates, transfers, collectives, or what lowering makes.
bool isOfModels(const OpDef &row) {
  constexpr Trait kOthers = Trait::Gradient | Trait::VarUpdate | Trait::Internal | Trait::HostIo | Trait::SideEffect;
  if (row.has(kOthers) || row.isInplaceVariant()) return false;
  if (row.domain() == "popart") return false;                                           // lowering's
  if (row.domain().ends_with(".test") || row.type().starts_with("Test")) return false;  // other tests'
  for (const InputDef &input : row.inputs())
    if (input.types & typeBit(DataType::FLOAT)) return true;
  return false;
}

const std::map<std::string, std::set<std::string>> kFull = {
    {"losses",
     {"Ctc", "CtcBeamSearchDecoder", "IdentityLoss", "L1", "NegativeLogLikelihoodLoss", "Nll",
      "NlllWithSoftmaxGradDirect", "SoftmaxCrossEntropyLoss"}},
    {"softmax", {"Hardmax", "LogSoftmax", "Softmax"}},
    {"exponents, logarithms, powers, roots", {"Exp", "Expm1", "Log", "Log1p", "Pow", "Reciprocal", "Sqrt"}},
    {"angles lose their digits",
     {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cos", "Cosh", "RotaryPosEmbed", "Sin", "Sinh",
      "Tan"}},
    {"results jump with the last digit of an operand",
     {"ArgMax",         "ArgMin",    "Bucketize",    "Ceil",  "Equal", "Floor", "Fmod",        "Greater",
      "GreaterOrEqual", "Histogram", "IncrementMod", "IsInf", "IsNaN", "Less",  "LessOrEqual", "NearbyInt",
      "OneHot",         "Remainder", "Round",        "Sign",  "Sort",  "TopK"}},
    {"sums and extremes of many elements",
     {"CumSum", "DynamicAdd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
      "ReduceMedian", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Scatter", "ScatterElements",
      "ScatterND", "ScatterReduce"}},
    {"an operand holds coordinates, sizes or probabilities", {"Bernoulli", "MaxRoiPool", "Resize", "RoiAlign"}},
    {"says the types itself, or reads no values",
     {"BitCast", "Cast", "Fp8Scale", "Pow2ScaleThenCast", "RandomNormalLike", "RandomUniformLike", "Shape", "Size"}},
    {"bodies compute as before", {"Call", "DynamicUpdate", "DynamicZero", "If", "Loop"}},
    {"of PopXL programs, which state their types",
     {"GroupQuantizeDecompress", "LayerNormDistributed", "LinearLayout", "ScaledAdd", "SparseMatmul"}},
    {"transfers between replicas",
     {"AllReduce", "AllReduceGrad", "CrossEntropySharded", "CrossEntropyShardedWR", "ReplicatedAllGather",
      "ReplicatedAllGatherStrided", "ReplicatedAllReduce", "ReplicatedAllReduceStrided", "ReplicatedAllReduceTP",
      "ReplicatedAllToAll", "ReplicatedBroadcast", "ReplicatedReduceScatter", "ReplicatedReduceScatterStrided"}},
    {"optimizers",
     {"AdaDeltaUpdater", "AdamUpdater", "GradReduceSquareAdd", "LambSquare", "RMSPropUpdater", "SGD1Nesterov"}},
};

TEST(Precision, WhatReadsFloatsStatesItOrIsListed) {
  std::map<std::string, std::string> reasons;
  for (const auto &[reason, types] : kFull)
    for (const std::string &type : types)
      EXPECT_TRUE(reasons.emplace(type, reason).second) << type << " is listed twice";
  for (const OpDef *row : allOpDefs())
    if (isOfModels(*row) && row->precision() == Precision::Full && reasons.erase(row->type()) == 0)
      ADD_FAILURE() << row->type() << ": state .precision(...) of the row, or list it here with the reason";
  for (const auto &[type, reason] : reasons)
    ADD_FAILURE() << type << " is listed (" << reason << "), but follows, is reduced or is no row";
}

TEST(Precision, NormsPoolsAndActivationsFollow) {
  for (const OpDef *row : allOpDefs()) {
    if (!isOfModels(*row) || row->has(Trait::Gradient)) continue;
    const bool isPool = row->type().ends_with("Pool") && row->type() != "MaxRoiPool";
    if (!row->has(Trait::Norm) && !isPool) continue;
    EXPECT_EQ(row->precision(), Precision::Follows) << row->type();
  }
  for (const char *type :
       {"Relu", "Gelu", "GeluErf", "Swish", "Mish", "HardSwish", "Sigmoid", "Tanh", "Elu", "Selu", "Celu", "LeakyRelu",
        "PRelu", "ThresholdedRelu", "Softplus", "Softsign", "HardSigmoid", "LRN"})
    EXPECT_EQ(opDef(type).precision(), Precision::Follows) << type;
}

}  // namespace
}  // namespace popart
