// The functions of the element-wise instructions, one copy per instruction set; the best set of the machine is chosen
// once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/element_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/element_ops.hpp"
#include "backends/cpu/vector/float_ops-inl.hpp"
#include "backends/cpu/vector/int_ops-inl.hpp"
// clang-format on
#include <iterator>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {

// One function per instruction and scalar operands of it.
struct Functions {
  ElementFn of[3];
};
template <class F>
constexpr Functions kFloatPair = {{floats::map2<F, 0>, floats::map2<F, 1>, floats::map2<F, 2>}};
template <class F>
constexpr Functions kLibraryPair = {{floats::library2<F, 0>, floats::library2<F, 1>, floats::library2<F, 2>}};

constexpr Functions kFunctions[] = {
#define UNARY(name, ...) {{floats::map1<floats::name>}},
#define BINARY(name, ...) kFloatPair<floats::name>,
#define LIBRARY_UNARY(name, ...) {{floats::library1<floats::name>}},
#define LIBRARY_BINARY(name, ...) kLibraryPair<floats::name>,
#define MASK_UNARY(name, ...) {{floats::map1<floats::Mask##name>}},
#define MASK_BINARY(name, ...) kFloatPair<floats::Mask##name>,
#define INT_UNARY(name, ...) {{ints::map1<ints::name>}},
#define INT_BINARY(name, ...) {{ints::map2<ints::name>}},
#define INT_COMPARE(name, ...) {{ints::compare<ints::name>}},
#define LOOP(name, ...) {{__VA_ARGS__}},
#include "backends/cpu/vector/element_ops.inc"
};
static_assert(std::size(kFunctions) == static_cast<size_t>(ElementOp::kCount));

ElementFn functionOf(ElementOp op, ScalarOperands scalars) {
  return scalars < 3 ? kFunctions[static_cast<size_t>(op)].of[scalars] : nullptr;
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

ElementFn loadAsFloat(DataType type) {
  switch (type) {
    case DataType::INT8:
      return ints::loadAsFloat<int8_t>;
    case DataType::UINT8:
      return ints::loadAsFloat<uint8_t>;
    case DataType::INT16:
      return ints::loadAsFloat<int16_t>;
    case DataType::UINT16:
      return ints::loadAsFloat<uint16_t>;
    case DataType::INT32:
      return ints::loadAsFloat<int32_t>;
    default:
      return nullptr;
  }
}

ElementFn storeFloatAs(DataType type) {
  switch (type) {
    case DataType::INT8:
    case DataType::UINT8:
      return ints::storeFloatAs<uint8_t>;
    case DataType::INT16:
    case DataType::UINT16:
      return ints::storeFloatAs<uint16_t>;
    default:
      return nullptr;
  }
}

// f(constant) with the form as a constant.
template <class F>
ElementFn forForm(OperandForm form, F f) {
  if (form == OperandForm::kNone) return f(std::integral_constant<OperandForm, OperandForm::kNone>());
  if (form == OperandForm::kOne) return f(std::integral_constant<OperandForm, OperandForm::kOne>());
  return f(std::integral_constant<OperandForm, OperandForm::kEach>());
}
template <class T>
ElementFn quantisationTo(OperandForm divisor, OperandForm shift) {
  return forForm(divisor, [shift](auto d) {
    return forForm(shift, [](auto s) -> ElementFn { return floats::quantise<T, decltype(d)::value, s()>; });
  });
}
ElementFn quantiseTo(DataType type, OperandForm divisor, OperandForm shift) {
  if (!storeFloatAs(type)) return nullptr;
  const bool isByte = type == DataType::INT8 || type == DataType::UINT8;
  return isByte ? quantisationTo<uint8_t>(divisor, shift) : quantisationTo<uint16_t>(divisor, shift);
}

template <class T>
ElementFn dequantisationOf(OperandForm shift, OperandForm factor) {
  return forForm(shift, [factor](auto s) -> ElementFn {
    constexpr OperandForm kShift = decltype(s)::value;
    return factor == OperandForm::kOne ? floats::dequantise<T, kShift, OperandForm::kOne>
                                       : floats::dequantise<T, kShift, OperandForm::kEach>;
  });
}
ElementFn dequantiseFrom(DataType type, OperandForm shift, OperandForm factor) {
  switch (type) {
    case DataType::INT8:
      return dequantisationOf<int8_t>(shift, factor);
    case DataType::UINT8:
      return dequantisationOf<uint8_t>(shift, factor);
    case DataType::INT16:
      return dequantisationOf<int16_t>(shift, factor);
    case DataType::UINT16:
      return dequantisationOf<uint16_t>(shift, factor);
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
HWY_EXPORT(loadAsFloat);
HWY_EXPORT(storeFloatAs);
HWY_EXPORT(quantiseTo);
HWY_EXPORT(dequantiseFrom);
HWY_EXPORT(narrowTo);

ElementFn elementFunction(ElementOp op, ScalarOperands scalars) {
  return HWY_DYNAMIC_DISPATCH(functionOf)(op, scalars);
}
ElementFn loadFunction(DataType type, LoadFrom from) { return HWY_DYNAMIC_DISPATCH(loadElements)(type, from); }
ElementFn storeFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(storeElements)(type); }
ElementFn loadAsFloatFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(loadAsFloat)(type); }
ElementFn storeFloatAsFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(storeFloatAs)(type); }
ElementFn quantiseFunction(DataType type, OperandForm divisor, OperandForm shift) {
  return HWY_DYNAMIC_DISPATCH(quantiseTo)(type, divisor, shift);
}
ElementFn dequantiseFunction(DataType type, OperandForm shift, OperandForm factor) {
  return HWY_DYNAMIC_DISPATCH(dequantiseFrom)(type, shift, factor);
}
ElementFn narrowFunction(DataType type) { return HWY_DYNAMIC_DISPATCH(narrowTo)(type); }

RegisterForm registerForm(DataType type) {
  if (type == DataType::BOOL) return RegisterForm::kMask;
  return isFloatingPoint(type) ? RegisterForm::kFloat : RegisterForm::kInt;
}

int elementCost(ElementOp op) {
  static constexpr int kCosts[] = {
#define ELEMENT(enumerator, cost) cost,
#include "backends/cpu/vector/element_ops.inc"
  };
  return kCosts[static_cast<size_t>(op)];
}

}  // namespace popart::cpu
#endif
