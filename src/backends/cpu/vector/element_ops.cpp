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

// The functions of an instruction, by its scalar operands.
struct Functions {
  ElementFn of[3];
};
template <class F>
constexpr Functions kFloatPair = {{floats::map2<F, 0>, floats::map2<F, 1>, floats::map2<F, 2>}};

constexpr Functions kFunctions[] = {
#define UNARY(name, ...) {{floats::map1<floats::name>}},
#define BINARY(name, ...) kFloatPair<floats::name>,
#define MASK_UNARY(name, ...) {{floats::map1<floats::Mask##name>}},
#define MASK_BINARY(name, ...) kFloatPair<floats::Mask##name>,
#define LOOP(name, ...) {{__VA_ARGS__}},
#define ELEMENT(...) {{nullptr}},  // of integers
#include "backends/cpu/vector/element_ops.inc"
};
static_assert(std::size(kFunctions) == static_cast<size_t>(ElementOp::kCount));

constexpr ElementFn kBoolFunctions[] = {
#define MASK_UNARY(name, ...) floats::bools1<floats::Mask##name>,
#define MASK_BINARY(name, ...) floats::bools2<floats::Mask##name>,
#define ELEMENT(...) nullptr,
#include "backends/cpu/vector/element_ops.inc"
};
ElementFn boolFunctionOf(ElementOp op) { return kBoolFunctions[static_cast<size_t>(op)]; }

template <class T>
constexpr ElementFn kIntegerFunctions[] = {
#define INT_UNARY(name, as, ...) ints::map1<ints::as<T>, ints::name>,
#define INT_BINARY(name, as, ...) ints::map2<ints::as<T>, ints::name>,
#define INT_COMPARE(name, as, ...) ints::compare<ints::as<T>, ints::name>,
#define INT_LOOP(name, as, function) ints::function<ints::as<T>>,
#define ELEMENT(...) nullptr,
#include "backends/cpu/vector/element_ops.inc"
};

// f(number of the integer type); nullptr for other types.
template <class F>
ElementFn forInteger(DataType type, F f) {
  switch (type) {
    case DataType::INT8:
      return f(int8_t());
    case DataType::INT16:
      return f(int16_t());
    case DataType::INT32:
      return f(int32_t());
    case DataType::INT64:
      return f(int64_t());
    case DataType::UINT8:
      return f(uint8_t());
    case DataType::UINT16:
      return f(uint16_t());
    case DataType::UINT32:
      return f(uint32_t());
    case DataType::UINT64:
      return f(uint64_t());
    default:
      return nullptr;
  }
}

ElementFn functionOf(ElementOp op, ScalarOperands scalars) {
  return scalars < 3 ? kFunctions[static_cast<size_t>(op)].of[scalars] : nullptr;
}

ElementFn integerFunctionOf(ElementOp op, DataType type) {
  return forInteger(type, [op](auto tag) { return kIntegerFunctions<decltype(tag)>[static_cast<size_t>(op)]; });
}
ElementFn convertIntegers(DataType from, DataType to) {
  if (getDataTypeInfo(from).nbytes == getDataTypeInfo(to).nbytes) return nullptr;
  return forInteger(from, [to](auto tag) {
    return forInteger(
        to, [](auto wanted) -> ElementFn { return ints::convert<decltype(tag), ints::Bits<decltype(wanted)>>; });
  });
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
    default:
      return forInteger(type, [](auto tag) -> ElementFn {
        using T = ints::Bits<decltype(tag)>;
        return kScalar ? ints::fill<T> : ints::copy<T>;
      });
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
    default:
      return loadOf<false>(type);  // integers have the same form in registers and memory
  }
}

ElementFn loadAsFloat(DataType type) {
  return type == DataType::UINT64 ? nullptr : integerFunctionOf(ElementOp::kIntToFloat, type);
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

// Calls f with the form as a compile-time constant.
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

ElementFn scaledBy(OperandForm scale, OperandForm shift, Bounds bounds) {
  return forForm(scale, [shift, bounds](auto s) {
    return forForm(shift, [bounds](auto t) -> ElementFn {
      return bounds == Bounds::kGiven ? floats::scaled<decltype(s)::value, t(), true>
                                      : floats::scaled<decltype(s)::value, t(), false>;
    });
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(functionOf);
HWY_EXPORT(boolFunctionOf);
HWY_EXPORT(integerFunctionOf);
HWY_EXPORT(convertIntegers);
HWY_EXPORT(loadElements);
HWY_EXPORT(storeElements);
HWY_EXPORT(loadAsFloat);
HWY_EXPORT(storeFloatAs);
HWY_EXPORT(quantiseTo);
HWY_EXPORT(dequantiseFrom);
HWY_EXPORT(scaledBy);

ElementFn elementFunction(ElementOp op, ScalarOperands scalars) {
  return HWY_DYNAMIC_DISPATCH(functionOf)(op, scalars);
}
ElementFn boolFunction(ElementOp op) { return HWY_DYNAMIC_DISPATCH(boolFunctionOf)(op); }
ElementFn integerFunction(ElementOp op, DataType type) { return HWY_DYNAMIC_DISPATCH(integerFunctionOf)(op, type); }
ElementFn integerConversion(DataType from, DataType to) { return HWY_DYNAMIC_DISPATCH(convertIntegers)(from, to); }
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

ElementFn scaledFunction(OperandForm scale, OperandForm shift, Bounds bounds) {
  return HWY_DYNAMIC_DISPATCH(scaledBy)(scale, shift, bounds);
}

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
