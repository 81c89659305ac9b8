// The rows of element_table.hpp, sorted by what they take.
#include "backends/cpu/element_table.hpp"

#include <unordered_map>

namespace popart::cpu {
namespace {

using R = ElementRow;
using O = ElementOp;
constexpr auto kUnary = R::Shape::Unary, kFold = R::Shape::Fold, kCompare = R::Shape::Compare;

constexpr R kRows[] = {
    {.type = "Abs", .shape = kUnary, .floats = O::kAbs, .ints = O::kIntAbs, .narrows = true, .isSigned = true},
    {.type = "Neg", .shape = kUnary, .floats = O::kNeg, .ints = O::kIntNeg, .narrows = true},
    {.type = "NegGrad", .shape = kUnary, .floats = O::kNeg},
    {.type = "Sign", .shape = kUnary, .floats = O::kSign, .ints = O::kIntSign, .isSigned = true},
    {.type = "Relu", .shape = kUnary, .floats = O::kRelu, .ints = O::kIntRelu, .isSigned = true},
    {.type = "Reciprocal", .shape = kUnary, .floats = O::kReciprocal},
    {.type = "Sqrt", .shape = kUnary, .floats = O::kSqrt},
    {.type = "Exp", .shape = kUnary, .floats = O::kExp},
    {.type = "Expm1", .shape = kUnary, .floats = O::kExpm1},
    {.type = "Log", .shape = kUnary, .floats = O::kLog},
    {.type = "Log1p", .shape = kUnary, .floats = O::kLog1p},
    {.type = "Erf", .shape = kUnary, .floats = O::kErf},
    {.type = "Sin", .shape = kUnary, .floats = O::kSin},
    {.type = "Cos", .shape = kUnary, .floats = O::kCos},
    {.type = "Tan", .shape = kUnary, .floats = O::kTan},
    {.type = "Asin", .shape = kUnary, .floats = O::kAsin},
    {.type = "Acos", .shape = kUnary, .floats = O::kAcos},
    {.type = "Atan", .shape = kUnary, .floats = O::kAtan},
    {.type = "Sinh", .shape = kUnary, .floats = O::kSinh},
    {.type = "Cosh", .shape = kUnary, .floats = O::kCosh},
    {.type = "Tanh", .shape = kUnary, .floats = O::kTanh},
    {.type = "Asinh", .shape = kUnary, .floats = O::kAsinh},
    {.type = "Acosh", .shape = kUnary, .floats = O::kAcosh},
    {.type = "Atanh", .shape = kUnary, .floats = O::kAtanh},
    {.type = "Ceil", .shape = kUnary, .floats = O::kCeil},
    {.type = "Floor", .shape = kUnary, .floats = O::kFloor},
    {.type = "Round", .shape = kUnary, .floats = O::kRound},
    {.type = "NearbyInt", .shape = kUnary, .floats = O::kNearbyInt},
    {.type = "Scale", .shape = kUnary, .floats = O::kScale, .parameters = {"scale"}},
    {.type = "ScaleGrad", .shape = kUnary, .floats = O::kScale, .parameters = {"scale"}},
    {.type = "IncrementMod", .shape = kUnary, .floats = O::kIncrementMod, .parameters = {"increment", "modulus"}},
    {.type = "IsNaN", .shape = kUnary, .floats = O::kIsNan},
    {.type = "IsInf", .shape = kUnary, .floats = O::kIsInf, .parameters = {"detect_negative", "detect_positive"}},
    {.type = "LeakyRelu", .shape = kUnary, .floats = O::kLeakyRelu, .parameters = {"alpha"}},
    {.type = "ThresholdedRelu", .shape = kUnary, .floats = O::kThresholdedRelu, .parameters = {"alpha"}},
    {.type = "Elu", .shape = kUnary, .floats = O::kElu, .parameters = {"alpha"}},
    {.type = "Selu", .shape = kUnary, .floats = O::kSelu, .parameters = {"alpha", "gamma"}},
    {.type = "Celu", .shape = kUnary, .floats = O::kCelu, .parameters = {"alpha"}},
    {.type = "Shrink", .shape = kUnary, .floats = O::kShrink, .parameters = {"bias", "lambd"}},
    {.type = "Clip", .shape = kUnary, .floats = O::kClip, .parameters = {"min", "max"}},
    {.type = "Sigmoid", .shape = kUnary, .floats = O::kSigmoid},
    {.type = "HardSigmoid", .shape = kUnary, .floats = O::kHardSigmoid, .parameters = {"alpha", "beta"}},
    {.type = "HardSwish", .shape = kUnary, .floats = O::kHardSwish},
    {.type = "Softplus", .shape = kUnary, .floats = O::kSoftplus},
    {.type = "Softsign", .shape = kUnary, .floats = O::kSoftsign},
    {.type = "Mish", .shape = kUnary, .floats = O::kMish},
    {.type = "Swish", .shape = kUnary, .floats = O::kSwish, .parameters = {"alpha"}},
    {.type = "Gelu", .shape = kUnary, .floats = O::kGelu},
    {.type = "GeluErf", .shape = kUnary, .floats = O::kGeluErf},
    {.type = "Not", .shape = kUnary, .masks = O::kNot},
    {.type = "BitwiseNot", .shape = kUnary, .ints = O::kIntNot, .narrows = true},

    {.type = "Add", .shape = kFold, .floats = O::kAdd, .ints = O::kIntAdd, .narrows = true},
    {.type = "Sum", .shape = kFold, .floats = O::kAdd, .ints = O::kIntAdd, .narrows = true},
    {.type = "Sub", .shape = kFold, .floats = O::kSub, .ints = O::kIntSub, .narrows = true},
    {.type = "Mul", .shape = kFold, .floats = O::kMul, .ints = O::kIntMul, .narrows = true},
    {.type = "Div", .shape = kFold, .floats = O::kDiv, .ints = O::kIntDiv, .narrows = true, .isSigned = true},
    {.type = "Mean", .shape = kFold, .floats = O::kAdd},
    {.type = "Max", .shape = kFold, .floats = O::kMax, .ints = O::kIntMax, .isSigned = true},
    {.type = "Min", .shape = kFold, .floats = O::kMin, .ints = O::kIntMin, .isSigned = true},
    {.type = "Fmod", .shape = kFold, .floats = O::kFmod, .ints = O::kIntFmod, .isSigned = true},
    {.type = "Remainder", .shape = kFold, .floats = O::kRemainder, .ints = O::kIntRemainder, .isSigned = true},
    {.type = "Atan2", .shape = kFold, .floats = O::kAtan2},
    {.type = "PRelu", .shape = kFold, .floats = O::kPRelu},
    {.type = "ReluGrad", .shape = kFold, .floats = O::kReluGrad},
    {.type = "GeluGrad", .shape = kFold, .floats = O::kGeluGrad},
    {.type = "GeluErfGrad", .shape = kFold, .floats = O::kGeluErfGrad},
    {.type = "SigmoidGrad", .shape = kFold, .floats = O::kSigmoidGrad},
    {.type = "TanhGrad", .shape = kFold, .floats = O::kTanhGrad},
    {.type = "SwishGrad", .shape = kFold, .floats = O::kSiluGrad, .needsAlphaOne = true},
    {.type = "And", .shape = kFold, .masks = O::kAnd},
    {.type = "Or", .shape = kFold, .masks = O::kOr},
    {.type = "Xor", .shape = kFold, .masks = O::kXor},
    {.type = "BitwiseAnd", .shape = kFold, .ints = O::kIntAnd},
    {.type = "BitwiseOr", .shape = kFold, .ints = O::kIntOr},
    {.type = "BitwiseXor", .shape = kFold, .ints = O::kIntXor},
    {.type = "BitwiseXnor", .shape = kFold, .ints = O::kIntXor, .narrows = true},
    {.type = "BitShift", .shape = kFold, .ints = O::kShiftLeft, .narrows = true},

    {.type = "Equal", .shape = kCompare, .floats = O::kEqual, .ints = O::kIntEqual, .masks = O::kXor},
    {.type = "Less", .shape = kCompare, .floats = O::kLess, .ints = O::kIntLess, .isSigned = true},
    {.type = "LessOrEqual", .shape = kCompare, .floats = O::kLessOrEqual, .ints = O::kIntLessOrEqual, .isSigned = true},
    {.type = "Greater", .shape = kCompare, .floats = O::kLess, .ints = O::kIntLess, .isSigned = true, .swaps = true},
    {.type = "GreaterOrEqual",
     .shape = kCompare,
     .floats = O::kLessOrEqual,
     .ints = O::kIntLessOrEqual,
     .isSigned = true,
     .swaps = true},
};

}  // namespace

std::span<const ElementRow> elementRows() { return kRows; }

const ElementRow *findElementRow(std::string_view type) {
  static const std::unordered_map<std::string_view, const R *> rows = [] {
    std::unordered_map<std::string_view, const R *> map;
    for (const R &row : kRows) map[row.type] = &row;
    return map;
  }();
  const auto it = rows.find(type);
  return it == rows.end() ? nullptr : it->second;
}

}  // namespace popart::cpu
