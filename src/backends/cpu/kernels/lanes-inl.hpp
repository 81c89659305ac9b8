// Reads and writes of one vector: all lanes, or the first few where an array ends. Compiled once per instruction set;
// only for .cpp files that Highway compiles so.
// Invariant: memory beyond the array is neither read nor written.
#if defined(POPART_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_LANES_INL_HPP
#undef POPART_CPU_LANES_INL_HPP
#else
#define POPART_CPU_LANES_INL_HPP
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace lanes {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

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
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
