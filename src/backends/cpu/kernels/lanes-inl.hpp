// Reads and writes of one vector: all lanes, or the first few at the end of an array. Compiled once per instruction
// set; only for .cpp files that Highway compiles this way.
// Invariant: memory outside the array is neither read nor written.
#if defined(POPART_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_LANES_INL_HPP
#undef POPART_CPU_LANES_INL_HPP
#else
#define POPART_CPU_LANES_INL_HPP
#endif

#include <cstdint>

#include <hwy/highway.h>

#include <popart/datatype.hpp>
#include <popart/half.hpp>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace lanes {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;
using D16 = hn::Rebind<uint16_t, D>;  // 16-bit lanes, as many as of floats
using V16 = hn::Vec<D16>;

struct AllLanes {
  HWY_INLINE V load(const float *p) const { return hn::LoadU(D(), p); }
  HWY_INLINE void store(V v, float *p) const { hn::StoreU(v, D(), p); }
  HWY_INLINE V16 load(const uint16_t *p) const { return hn::LoadU(D16(), p); }
  HWY_INLINE void store(V16 v, uint16_t *p) const { hn::StoreU(v, D16(), p); }
};
class FirstLanes {
 public:
  HWY_INLINE explicit FirstLanes(int64_t count) : mask(hn::FirstN(D(), static_cast<size_t>(count))), count_(count) {}
#if HWY_TARGET <= HWY_AVX2
  HWY_INLINE V load(const float *p) const { return hn::MaskedLoad(mask, D(), p); }
  HWY_INLINE void store(V v, float *p) const { hn::BlendedStore(v, mask, D(), p); }
#else
  // Without masked memory instructions, Highway would access whole vectors, and so memory outside the array.
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
#if HWY_TARGET <= HWY_AVX3
  HWY_INLINE V16 load(const uint16_t *p) const {
    return hn::MaskedLoad(hn::FirstN(D16(), static_cast<size_t>(count_)), D16(), p);
  }
  HWY_INLINE void store(V16 v, uint16_t *p) const {
    hn::BlendedStore(v, hn::FirstN(D16(), static_cast<size_t>(count_)), D16(), p);
  }
#else
  HWY_INLINE V16 load(const uint16_t *p) const {
    HWY_ALIGN uint16_t whole[hn::MaxLanes(D16())] = {};
    for (int64_t i = 0; i < count_; ++i) whole[i] = p[i];
    return hn::Load(D16(), whole);
  }
  HWY_INLINE void store(V16 v, uint16_t *p) const {
    HWY_ALIGN uint16_t whole[hn::MaxLanes(D16())];
    hn::Store(v, D16(), whole);
    for (int64_t i = 0; i < count_; ++i) p[i] = whole[i];
  }
#endif

  Mask mask;

 private:
  [[maybe_unused]] int64_t count_;
};

// ---- element types in memory that are floats in registers; conversion to 16 bits rounds to nearest even

struct Float {
  using Stored = float;
  static constexpr DataType kType = DataType::FLOAT;
  template <class Lanes>
  static HWY_INLINE V load(Lanes lanes, const float *p) {
    return lanes.load(p);
  }
  template <class Lanes>
  static HWY_INLINE void store(Lanes lanes, V v, float *p) {
    lanes.store(v, p);
  }
  static HWY_INLINE V round(V v) { return v; }
};

template <class Bits>
struct InSixteenBits {
  using Stored = uint16_t;
  static constexpr DataType kType = Bits::kType;
  template <class Lanes>
  static HWY_INLINE V load(Lanes lanes, const uint16_t *p) {
    return Bits::widen(lanes.load(p));
  }
  template <class Lanes>
  static HWY_INLINE void store(Lanes lanes, V v, uint16_t *p) {
    lanes.store(Bits::narrow(v), p);
  }
  static HWY_INLINE V round(V v) { return Bits::widen(Bits::narrow(v)); }
};

struct Float16Bits {
  static constexpr DataType kType = DataType::FLOAT16;
#if HWY_TARGET <= HWY_AVX2
  using DH = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE V widen(V16 bits) { return hn::PromoteTo(D(), hn::BitCast(DH(), bits)); }
  static HWY_INLINE V16 narrow(V v) { return hn::BitCast(D16(), hn::DemoteTo(DH(), v)); }
#else  // no such instruction
  static HWY_INLINE V widen(V16 bits) {
    HWY_ALIGN uint16_t from[hn::MaxLanes(D16())];
    HWY_ALIGN float to[hn::MaxLanes(D())];
    hn::Store(bits, D16(), from);
    for (size_t i = 0; i < hn::Lanes(D()); ++i) to[i] = halfBitsToFloat(from[i]);
    return hn::Load(D(), to);
  }
  static HWY_INLINE V16 narrow(V v) {
    HWY_ALIGN float from[hn::MaxLanes(D())];
    HWY_ALIGN uint16_t to[hn::MaxLanes(D16())];
    hn::Store(v, D(), from);
    for (size_t i = 0; i < hn::Lanes(D()); ++i) to[i] = floatToHalfBits(from[i]);
    return hn::Load(D16(), to);
  }
#endif
};
using Float16 = InSixteenBits<Float16Bits>;

// The same as floatToBFloat16Bits(). The processor's instruction would treat subnormal numbers as zeros.
struct Bfloat16Bits {
  static constexpr DataType kType = DataType::BFLOAT16;
  using DU = hn::Rebind<uint32_t, D>;
  static HWY_INLINE V widen(V16 bits) { return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), bits))); }
  static HWY_INLINE V16 narrow(V v) {
    const DU d;
    const auto bits = hn::BitCast(d, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), odd);
    const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
    return hn::TruncateTo(D16(), hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, rounded)));
  }
};
using Bfloat16 = InSixteenBits<Bfloat16Bits>;

}  // namespace lanes
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
