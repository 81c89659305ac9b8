#include "backends/cpu/axis.hpp"

#include "base/element_types.hpp"

namespace popart::cpu {
namespace {

// Returns whether an index is out of range.
template <class I, class Step>
bool placesOf(const I *indices, Step step, int64_t count, int64_t size, NegativeIndex negative, int64_t *at) {
  const int64_t fromEnd = negative == NegativeIndex::kFromEnd ? size : 0;
  bool isOutside = false;
  for (int64_t k = 0; k < count; ++k) {
    const auto index = static_cast<int64_t>(indices[step(k)]);  // UINT64 values beyond the signed range become negative
    const int64_t place = std::is_signed_v<I> && index < 0 ? index + fromEnd : index;
    const bool isInside = place >= 0 && place < size;
    at[k] = isInside ? place : -1;
    isOutside |= !isInside;
  }
  return isOutside;
}

}  // namespace

template <class Step>
void IndexOperand::findPlaces(const executable::KernelArgs &args, int64_t first, Step step, int64_t count, int64_t size,
                              int64_t *at) const noexcept {
  bool isOutside = false;
  forElement(kIntegerElements, type, [&](auto zero) {
    const auto *indices = static_cast<const decltype(zero) *>(args.in[operand]) + first;
    isOutside = placesOf(indices, step, count, size, negative, at);
  });
  if (!isOutside || !reports) return;
  for (int64_t k = 0; k < count; ++k)
    if (at[k] < 0) report(args.context, first + step(k), indexAt(args.in[operand], type, first + step(k)), size);
}

void IndexOperand::places(const executable::KernelArgs &args, int64_t first, int64_t step, int64_t count, int64_t size,
                          int64_t *at) const noexcept {
  if (step == 1)
    return findPlaces(
        args, first, [](int64_t k) { return k; }, count, size, at);
  findPlaces(
      args, first, [step](int64_t k) { return k * step; }, count, size, at);
}
void IndexOperand::places(const executable::KernelArgs &args, int64_t first, const int64_t *steps, int64_t count,
                          int64_t size, int64_t *at) const noexcept {
  findPlaces(
      args, first, [steps](int64_t k) { return steps[k]; }, count, size, at);
}

}  // namespace popart::cpu
