// One vector of a parameter update, compiled once per instruction set; only for the .cpp files of this folder.
// Invariant: the only definition of the update formulas, so fused and stand-alone updates have the same bits.
#if defined(POPART_CPU_UPDATE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_UPDATE_INL_HPP
#undef POPART_CPU_UPDATE_INL_HPP
#else
#define POPART_CPU_UPDATE_INL_HPP
#endif

#include <cstddef>

#include <hwy/highway.h>

#include "backends/cpu/kernels/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace update {
using D = lanes::D;
using V = lanes::V;

// Updates w[at] with gradient g.
template <UpdateKind kKind, class Lanes>
HWY_INLINE void updateVector(const Update &u, Lanes lanes, V g, float *w, ptrdiff_t at) {
  static_assert(kKind != UpdateKind::kElements);
  const D d;
  if constexpr (kKind == UpdateKind::kStore) {
    lanes.store(g, w + at);
  } else {
    V old = lanes.load(w + at + u.source);
    if (u.decay != 1.0f) old = hn::Mul(hn::Set(d, u.decay), old);
    lanes.store(hn::Sub(old, hn::Mul(hn::Set(d, u.rate), g)), w + at);
  }
}

}  // namespace update
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
