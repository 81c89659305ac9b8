// One pass only tests whether any element is invalid, which the compiler vectorises; its position is found afterwards.
#include "backends/cpu/vector/element_checks.hpp"

namespace popart::cpu {
namespace {

using executable::FailureKind;

template <class Bad>
int64_t findBad(const int64_t *a, const int64_t *b, int64_t count, Bad bad) {
  bool any = false;
  for (int64_t i = 0; i < count; ++i) any |= bad(a[i], b[i]);
  if (!any) [[likely]]
    return -1;
  int64_t i = 0;
  while (!bad(a[i], b[i])) ++i;
  return i;
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

void checkElements(ElementCheck check, const void *const *in, int64_t count, int bits,
                   const ElementBlock &block) noexcept {
  const auto *a = static_cast<const int64_t *>(in[0]), *b = static_cast<const int64_t *>(in[1]);
  const int64_t smallest = INT64_MIN >> (64 - bits);
  int64_t at = -1;
  if (check == ElementCheck::Quotient)
    at = findBad(a, b, count, [smallest](int64_t x, int64_t y) { return (y == 0) | ((y == -1) & (x == smallest)); });
  else if (check == ElementCheck::Remainder)
    at = findBad(a, b, count, [](int64_t, int64_t y) { return y == 0; });
  if (at < 0) [[likely]]
    return;
  if (b[at] == 0)
    block.context->report({FailureKind::DivisionByZero, 1, block.position + at, 0, 0, 0, block.type});
  else
    block.context->report({FailureKind::QuotientOverflow, 0, block.position + at, a[at], smallest + 1, 0, block.type});
}

}  // namespace popart::cpu
