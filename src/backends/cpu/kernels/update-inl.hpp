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

// w[at], and the state arrays at the same place, take the step for gradient g.
template <UpdateKind kKind, class Lanes>
HWY_INLINE void updateVector(const Update &u, Lanes lanes, V g, float *w, ptrdiff_t at) {
  const D d;
  if (u.gradScale != 1.0f) g = hn::Mul(hn::Set(d, u.gradScale), g);
  if constexpr (kKind == UpdateKind::kStore) {
    lanes.store(g, w + at);
  } else if constexpr (kKind == UpdateKind::kAccumulate) {
    lanes.store(hn::Add(lanes.load(w + at + u.source), g), w + at);
  } else {
    V step = g;
    if constexpr (kKind == UpdateKind::kSgdMomentum) {
      step = hn::MulAdd(hn::Set(d, u.momentum), lanes.load(u.first + at), g);
      lanes.store(step, u.first + at);
    } else if constexpr (kKind != UpdateKind::kSgd) {
      const V first = hn::MulAdd(hn::Set(d, u.beta1), lanes.load(u.first + at), hn::Mul(hn::Set(d, 1.0f - u.beta1), g));
      const V square = hn::Mul(hn::Set(d, 1.0f - u.beta2), hn::Mul(g, g));
      const V second = hn::MulAdd(hn::Set(d, u.beta2), lanes.load(u.second + at), square);
      lanes.store(first, u.first + at);
      lanes.store(second, u.second + at);
      const V root = hn::Sqrt(hn::Mul(second, hn::Set(d, u.secondCorrection)));
      step = hn::Div(hn::Mul(first, hn::Set(d, u.firstCorrection)), hn::Add(root, hn::Set(d, u.epsilon)));
    }
    V old = lanes.load(w + at + u.source);
    if (kKind != UpdateKind::kAdam && u.decay != 1.0f) old = hn::Mul(hn::Set(d, u.decay), old);
    lanes.store(hn::NegMulAdd(hn::Set(d, u.rate), step, old), w + at);
  }
}

}  // namespace update
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
