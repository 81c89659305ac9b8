// One pass only tests whether any element is invalid, which the compiler vectorises. If one is, a second pass finds it.
#include "backends/cpu/vector/element_checks.hpp"

#include <limits>
#include <type_traits>

namespace popart::cpu {
namespace {

using executable::FailureKind;

template <class T, class Bad>
int64_t findBad(const T *a, const T *b, int64_t count, Bad bad) {
  bool any = false;
  for (int64_t i = 0; i < count; ++i) any |= bad(a[i], b[i]);
  if (!any) [[likely]]
    return -1;
  int64_t i = 0;
  while (!bad(a[i], b[i])) ++i;
  return i;
}

template <class T>
void checkNumbers(ElementCheck check, const void *const *in, int64_t count, const ElementBlock &block) {
  const auto *a = static_cast<const T *>(in[0]), *b = static_cast<const T *>(in[1]);
  constexpr T kSmallest = std::numeric_limits<T>::min();
  const auto isZero = [](T, T y) { return y == 0; };
  const auto overflows = [](T x, T y) { return (y == 0) | ((y == static_cast<T>(-1)) & (x == kSmallest)); };
  const bool mayOverflow = check == ElementCheck::Quotient && std::is_signed_v<T>;
  const int64_t at = mayOverflow ? findBad(a, b, count, overflows) : findBad(a, b, count, isZero);
  if (at < 0) [[likely]]
    return;
  if (b[at] == 0)
    block.context->report({FailureKind::DivisionByZero, 1, block.position + at, 0, 0, 0, block.type});
  else
    block.context->report({FailureKind::QuotientOverflow, 0, block.position + at, static_cast<int64_t>(a[at]),
                           static_cast<int64_t>(kSmallest) + 1, 0, block.type});
}

}  // namespace

ElementCheck elementCheck(ElementOp op) {
  switch (op) {
    case ElementOp::kIntDiv:
      return ElementCheck::Quotient;
    case ElementOp::kIntFmod:
    case ElementOp::kIntRemainder:
      return ElementCheck::Remainder;
    default:
      return ElementCheck::None;
  }
}

void checkElements(ElementCheck check, DataType type, const void *const *in, int64_t count,
                   const ElementBlock &block) noexcept {
  switch (type) {
    case DataType::INT8:
      return checkNumbers<int8_t>(check, in, count, block);
    case DataType::INT16:
      return checkNumbers<int16_t>(check, in, count, block);
    case DataType::INT32:
      return checkNumbers<int32_t>(check, in, count, block);
    case DataType::INT64:
      return checkNumbers<int64_t>(check, in, count, block);
    case DataType::UINT8:
      return checkNumbers<uint8_t>(check, in, count, block);
    case DataType::UINT16:
      return checkNumbers<uint16_t>(check, in, count, block);
    case DataType::UINT32:
      return checkNumbers<uint32_t>(check, in, count, block);
    default:
      return checkNumbers<uint64_t>(check, in, count, block);
  }
}

}  // namespace popart::cpu
