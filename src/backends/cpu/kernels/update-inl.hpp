// One vector of a parameter update, compiled once per instruction set; only for the .cpp files of this folder.
// Invariant: the only place that spells out the update formulas, so fused and stand-alone updates agree to the bit.
#if defined(POPART_CPU_UPDATE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_UPDATE_INL_HPP
#undef POPART_CPU_UPDATE_INL_HPP
#else
#define POPART_CPU_UPDATE_INL_HPP
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace lanes {
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

// Reads and writes of one vector: all lanes, or the first few.
struct AllLanes {
  HWY_INLINE V load(const float *p) const { return hn::LoadU(D(), p); }
  HWY_INLINE void store(V v, float *p) const { hn::StoreU(v, D(), p); }
};
class FirstLanes {
 public:
  HWY_INLINE explicit FirstLanes(int64_t count) : mask(hn::FirstN(D(), static_cast<size_t>(count))), count_(count) {}
#if HWY_TARGET <= HWY_AVX2
  HWY_INLINE V load(const float *p) const { return hn::MaskedLoad(mask, D(), p); }
  HWY_INLINE void store(V v, float *p) const { hn::BlendedStore(v, mask, D(), p); }
#else
  // Without masked memory instructions the library would touch whole vectors, and so memory beyond the array.
  HWY_INLINE V load(const float *p) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())] = {};
    for (int64_t i = 0; i < count_; ++i) whole[i] = p[i];
    return hn::Load(D(), whole);
  }
  HWY_INLINE void store(V v, float *p) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())];
    hn::Store(v, D(), whole);
    for (int64_t i = 0; i < count_; ++i) p[i] = whole[i];
  }
#endif

  Mask mask;

 private:
  [[maybe_unused]] int64_t count_;
};

}  // namespace lanes

namespace update {
using D = lanes::D;
using V = lanes::V;

// w[at] takes the step for gradient g.
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
