// Tables of the element-wise instructions, one copy per instruction set; the best set of the machine is chosen once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/element_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/element_ops.hpp"
#include "backends/cpu/vector/float_ops-inl.hpp"
#include "backends/cpu/vector/int_ops-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {

template <class F>
ElementFn floatPair(ScalarOperands scalars) {
  switch (scalars) {
    case 0:
      return floats::map2<F, 0>;
    case 1:
      return floats::map2<F, 1>;
    case 2:
      return floats::map2<F, 2>;
    default:
      return nullptr;
  }
}
template <double (*F)(double, double)>
ElementFn libraryPair(ScalarOperands scalars) {
  switch (scalars) {
    case 0:
      return floats::library2<F, 0>;
    case 1:
      return floats::library2<F, 1>;
    case 2:
      return floats::library2<F, 2>;
    default:
      return nullptr;
  }
}

ElementFn floatUnary(ElementOp op) {
  switch (op) {
    case ElementOp::kCopy:
    case ElementOp::kMaskCopy:
      return floats::map1<floats::Copy>;
    case ElementOp::kAbs:
      return floats::map1<floats::Abs>;
    case ElementOp::kNeg:
      return floats::map1<floats::Neg>;
    case ElementOp::kReciprocal:
      return floats::map1<floats::Reciprocal>;
    case ElementOp::kSqrt:
      return floats::map1<floats::Sqrt>;
    case ElementOp::kExp:
      return floats::map1<floats::Exp>;
    case ElementOp::kLog:
      return floats::map1<floats::Log>;
    case ElementOp::kErf:
      return floats::map1<floats::Erf>;
    case ElementOp::kTanh:
      return floats::map1<floats::Tanh>;
    case ElementOp::kCeil:
      return floats::map1<floats::Ceil>;
    case ElementOp::kFloor:
      return floats::map1<floats::Floor>;
    case ElementOp::kSign:
      return floats::map1<floats::Sign>;
    case ElementOp::kNearbyInt:
      return floats::map1<floats::NearbyInt>;
    case ElementOp::kRelu:
      return floats::map1<floats::Relu>;
    case ElementOp::kLeakyRelu:
      return floats::map1<floats::LeakyRelu>;
    case ElementOp::kThresholdedRelu:
      return floats::map1<floats::ThresholdedRelu>;
    case ElementOp::kElu:
      return floats::map1<floats::Elu>;
    case ElementOp::kSelu:
      return floats::map1<floats::Selu>;
    case ElementOp::kCelu:
      return floats::map1<floats::Celu>;
    case ElementOp::kShrink:
      return floats::map1<floats::Shrink>;
    case ElementOp::kClip:
      return floats::map1<floats::Clip>;
    case ElementOp::kSigmoid:
      return floats::map1<floats::Sigmoid>;
    case ElementOp::kHardSigmoid:
      return floats::map1<floats::HardSigmoid>;
    case ElementOp::kHardSwish:
      return floats::map1<floats::HardSwish>;
    case ElementOp::kSoftplus:
      return floats::map1<floats::Softplus>;
    case ElementOp::kSoftsign:
      return floats::map1<floats::Softsign>;
    case ElementOp::kMish:
      return floats::map1<floats::Mish>;
    case ElementOp::kSwish:
      return floats::map1<floats::Swish>;
    case ElementOp::kGelu:
      return floats::map1<floats::Gelu>;
    case ElementOp::kGeluErf:
      return floats::map1<floats::GeluErf>;
    case ElementOp::kScale:
      return floats::map1<floats::Scale>;
    case ElementOp::kIsNan:
      return floats::map1<floats::IsNan>;
    case ElementOp::kIsInf:
      return floats::map1<floats::IsInf>;
    case ElementOp::kNotZero:
      return floats::map1<floats::NotZero>;
    case ElementOp::kNot:
      return floats::map1<floats::Not>;
    case ElementOp::kMaskToFloat:
      return floats::map1<floats::MaskToFloat>;
    case ElementOp::kIncrementMod:
      return floats::incrementMod;
    case ElementOp::kRoundHalf:
      return ints::roundHalf;
    case ElementOp::kRoundBFloat16:
      return ints::roundBFloat16;
    default:
      return nullptr;
  }
}

ElementFn libraryUnary(ElementOp op) {
  switch (op) {
    case ElementOp::kExpm1:
      return floats::library1<std::expm1>;
    case ElementOp::kLog1p:
      return floats::library1<std::log1p>;
    case ElementOp::kSin:
      return floats::library1<std::sin>;
    case ElementOp::kCos:
      return floats::library1<std::cos>;
    case ElementOp::kTan:
      return floats::library1<std::tan>;
    case ElementOp::kAsin:
      return floats::library1<std::asin>;
    case ElementOp::kAcos:
      return floats::library1<std::acos>;
    case ElementOp::kAtan:
      return floats::library1<std::atan>;
    case ElementOp::kSinh:
      return floats::library1<std::sinh>;
    case ElementOp::kCosh:
      return floats::library1<std::cosh>;
    case ElementOp::kAsinh:
      return floats::library1<std::asinh>;
    case ElementOp::kAcosh:
      return floats::library1<std::acosh>;
    case ElementOp::kAtanh:
      return floats::library1<std::atanh>;
    case ElementOp::kRound:
      return floats::library1<std::round>;
    default:
      return nullptr;
  }
}

ElementFn floatBinary(ElementOp op, ScalarOperands scalars) {
  switch (op) {
    case ElementOp::kAdd:
      return floatPair<floats::Add>(scalars);
    case ElementOp::kSub:
      return floatPair<floats::Sub>(scalars);
    case ElementOp::kMul:
      return floatPair<floats::Mul>(scalars);
    case ElementOp::kDiv:
      return floatPair<floats::Div>(scalars);
    case ElementOp::kMax:
      return floatPair<floats::Max>(scalars);
    case ElementOp::kMin:
      return floatPair<floats::Min>(scalars);
    case ElementOp::kPRelu:
      return floatPair<floats::PRelu>(scalars);
    case ElementOp::kReluGrad:
      return floatPair<floats::ReluGrad>(scalars);
    case ElementOp::kGeluGrad:
      return floatPair<floats::GeluGrad>(scalars);
    case ElementOp::kGeluErfGrad:
      return floatPair<floats::GeluErfGrad>(scalars);
    case ElementOp::kSigmoidGrad:
      return floatPair<floats::SigmoidGrad>(scalars);
    case ElementOp::kTanhGrad:
      return floatPair<floats::TanhGrad>(scalars);
    case ElementOp::kSiluGrad:
      return floatPair<floats::SiluGrad>(scalars);
    case ElementOp::kEqual:
      return floatPair<floats::Equal>(scalars);
    case ElementOp::kLess:
      return floatPair<floats::Less>(scalars);
    case ElementOp::kLessOrEqual:
      return floatPair<floats::LessOrEqual>(scalars);
    case ElementOp::kAnd:
      return floatPair<floats::And>(scalars);
    case ElementOp::kOr:
      return floatPair<floats::Or>(scalars);
    case ElementOp::kXor:
      return floatPair<floats::Xor>(scalars);
    case ElementOp::kPow:
      return libraryPair<std::pow>(scalars);
    case ElementOp::kFmod:
      return libraryPair<std::fmod>(scalars);
    case ElementOp::kAtan2:
      return libraryPair<std::atan2>(scalars);
    case ElementOp::kRemainder:
      return libraryPair<floats::flooredRemainder>(scalars);
    default:
      return nullptr;
  }
}

ElementFn integerOp(ElementOp op) {
  switch (op) {
    case ElementOp::kIntCopy:
      return ints::map1<ints::Copy>;
    case ElementOp::kIntAbs:
      return ints::map1<ints::Abs>;
    case ElementOp::kIntNeg:
      return ints::map1<ints::Neg>;
    case ElementOp::kIntSign:
      return ints::map1<ints::Sign>;
    case ElementOp::kIntRelu:
      return ints::map1<ints::Relu>;
    case ElementOp::kIntNot:
      return ints::map1<ints::Not>;
    case ElementOp::kIntAdd:
      return ints::map2<ints::Add>;
    case ElementOp::kIntSub:
      return ints::map2<ints::Sub>;
    case ElementOp::kIntMul:
      return ints::map2<ints::Mul>;
    case ElementOp::kIntDiv:
      return ints::map2<ints::Div>;
    case ElementOp::kIntFmod:
      return ints::map2<ints::Fmod>;
    case ElementOp::kIntRemainder:
      return ints::map2<ints::Remainder>;
    case ElementOp::kIntMax:
      return ints::map2<ints::Max>;
    case ElementOp::kIntMin:
      return ints::map2<ints::Min>;
    case ElementOp::kIntAnd:
      return ints::map2<ints::And>;
    case ElementOp::kIntOr:
      return ints::map2<ints::Or>;
    case ElementOp::kIntXor:
      return ints::map2<ints::Xor>;
    case ElementOp::kShiftLeft:
      return ints::shift<true>;
    case ElementOp::kShiftRight:
      return ints::shift<false>;
    case ElementOp::kIntEqual:
      return ints::compare<ints::Equal>;
    case ElementOp::kIntLess:
      return ints::compare<ints::Less>;
    case ElementOp::kIntLessOrEqual:
      return ints::compare<ints::LessOrEqual>;
    case ElementOp::kIntNotZero:
      return ints::notZero;
    case ElementOp::kIntWhere:
      return ints::where;
    case ElementOp::kWhere:
      return floats::where;
    case ElementOp::kFloatToInt:
      return ints::floatToInt;
    case ElementOp::kIntToFloat:
      return ints::intToFloat;
    case ElementOp::kMaskToInt:
      return ints::maskToInt;
    default:
      return nullptr;
  }
}

ElementFn functionOf(ElementOp op, ScalarOperands scalars) {
  if (ElementFn fn = floatBinary(op, scalars)) return fn;
  if (scalars != 0) return nullptr;
  if (ElementFn fn = floatUnary(op)) return fn;
  if (ElementFn fn = libraryUnary(op)) return fn;
  return integerOp(op);
}

template <bool kScalar>
ElementFn loadOf(DataType type) {
  switch (type) {
    case DataType::FLOAT:
      return ints::loadFloat<kScalar>;
    case DataType::FLOAT16:
      return ints::loadHalf<kScalar>;
    case DataType::BFLOAT16:
      return ints::loadBFloat16<kScalar>;
    case DataType::BOOL:
      return ints::loadBool<kScalar>;
    case DataType::INT8:
      return ints::loadInt<int8_t, kScalar>;
    case DataType::INT16:
      return ints::loadInt<int16_t, kScalar>;
    case DataType::INT32:
      return ints::loadInt<int32_t, kScalar>;
    case DataType::INT64:
      return ints::loadInt<int64_t, kScalar>;
    case DataType::UINT8:
      return ints::loadInt<uint8_t, kScalar>;
    case DataType::UINT16:
      return ints::loadInt<uint16_t, kScalar>;
    case DataType::UINT32:
      return ints::loadInt<uint32_t, kScalar>;
    case DataType::UINT64:
      return ints::loadInt<uint64_t, kScalar>;
    default:
      return nullptr;
  }
}
ElementFn loadElements(DataType type, LoadFrom from) {
  return from == LoadFrom::kOneElement ? loadOf<true>(type) : loadOf<false>(type);
}

ElementFn storeElements(DataType type) {
  switch (type) {
    case DataType::FLOAT:
      return floats::map1<floats::Copy>;
    case DataType::FLOAT16:
      return ints::storeHalf;
    case DataType::BFLOAT16:
      return ints::storeBFloat16;
    case DataType::BOOL:
      return ints::storeBool;
    case DataType::INT8:
    case DataType::UINT8:
      return ints::storeInt<uint8_t>;
    case DataType::INT16:
    case DataType::UINT16:
      return ints::storeInt<uint16_t>;
    case DataType::INT32:
    case DataType::UINT32:
      return ints::storeInt<uint32_t>;
    case DataType::INT64:
    case DataType::UINT64:
      return ints::storeInt<uint64_t>;
    default:
      return nullptr;
  }
}

ElementFn narrowTo(DataType type) {
  switch (type) {
    case DataType::INT8:
      return ints::narrow<int8_t>;
    case DataType::INT16:
      return ints::narrow<int16_t>;
    case DataType::INT32:
      return ints::narrow<int32_t>;
    case DataType::UINT8:
      return ints::narrow<uint8_t>;
    case DataType::UINT16:
      return ints::narrow<uint16_t>;
    case DataType::UINT32:
      return ints::narrow<uint32_t>;
    default:
      return nullptr;
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(functionOf);
HWY_EXPORT(loadElements);
HWY_EXPORT(storeElements);
HWY_EXPORT(narrowTo);

ElementFn elementFunction(ElementOp op, ScalarOperands scalars) {
  return HWY_DYNAMIC_DISPATCH(functionOf)(op, scalars);
}
ElementFn loadFunction(DataType type, LoadFrom from) { return HWY_DYNAMIC_DISPATCH(loadElements)(type, from); }
ElementFn storeFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(storeElements)(type); }
ElementFn narrowFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(narrowTo)(type); }

RegisterForm registerForm(DataType type) {
  if (type == DataType::BOOL) return RegisterForm::kMask;
  return isFloatingPoint(type) ? RegisterForm::kFloat : RegisterForm::kInt;
}

RegisterForm resultForm(ElementOp op) {
  if (op >= ElementOp::kIsNan && op <= ElementOp::kXor) return RegisterForm::kMask;
  if (op >= ElementOp::kIntEqual && op <= ElementOp::kIntNotZero) return RegisterForm::kMask;
  if (op == ElementOp::kWhere || op == ElementOp::kIntToFloat || op == ElementOp::kMaskToFloat)
    return RegisterForm::kFloat;
  return op >= ElementOp::kIntWhere ? RegisterForm::kInt : RegisterForm::kFloat;
}

int elementCost(ElementOp op) {
  switch (op) {
    case ElementOp::kExp:
    case ElementOp::kLog:
    case ElementOp::kErf:
    case ElementOp::kTanh:
    case ElementOp::kSigmoid:
    case ElementOp::kSwish:
    case ElementOp::kElu:
    case ElementOp::kSelu:
    case ElementOp::kCelu:
    case ElementOp::kSoftplus:
    case ElementOp::kGelu:
    case ElementOp::kGeluErf:
    case ElementOp::kMish:
    case ElementOp::kGeluGrad:
    case ElementOp::kGeluErfGrad:
    case ElementOp::kSiluGrad:
      return 10;
    case ElementOp::kDiv:
    case ElementOp::kSqrt:
    case ElementOp::kReciprocal:
      return 3;
    case ElementOp::kExpm1:
    case ElementOp::kLog1p:
    case ElementOp::kSin:
    case ElementOp::kCos:
    case ElementOp::kTan:
    case ElementOp::kAsin:
    case ElementOp::kAcos:
    case ElementOp::kAtan:
    case ElementOp::kSinh:
    case ElementOp::kCosh:
    case ElementOp::kAsinh:
    case ElementOp::kAcosh:
    case ElementOp::kAtanh:
    case ElementOp::kPow:
    case ElementOp::kFmod:
    case ElementOp::kRemainder:
    case ElementOp::kAtan2:
    case ElementOp::kIncrementMod:
      return 100;
    default:
      return 1;
  }
}
}  // namespace popart::cpu
#endif
