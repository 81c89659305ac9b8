// Rows are read block by block: reduce_ops finds the extreme of each block, and only the block with the row's extreme
// is searched for its position, while it is in the first level cache. For columns, the extremes so far and their rows
// are kept in that cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/extremes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/comparable.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/extremes.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"
// clang-format on
#include <algorithm>
#include <cmath>
#include <functional>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

// Position of the first or last number that is equal to `value`; there is one.
int64_t placeOfValue(Tie tie, const float *x, int64_t count, float value) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V wanted = hn::Set(d, value);
  const bool isNan = std::isnan(value);
  const auto equals = [&](float v) { return isNan ? std::isnan(v) : v == value; };
  int64_t found = -1, i = 0;  // found: first index of the vector that contains it
  for (; i + lanes <= count && (found < 0 || tie == Tie::kLast); i += lanes) {
    const V v = hn::LoadU(d, x + i);
    if (!hn::AllFalse(d, isNan ? hn::IsNaN(v) : hn::Eq(v, wanted))) found = i;
  }
  if (tie == Tie::kFirst) {
    for (i = found < 0 ? i : found; i < count && !equals(x[i]);) ++i;
    return i;
  }
  int64_t last = count;
  while (last > i && !equals(x[last - 1])) --last;
  if (last == i)
    for (last = found + lanes; !equals(x[last - 1]);) --last;
  return last - 1;
}

// Whether a precedes b in the order of comparable.hpp.
HWY_INLINE M isLess(V a, V b) { return hn::Or(hn::Lt(a, b), hn::AndNot(hn::IsNaN(a), hn::IsNaN(b))); }

template <Extreme kExtreme, Tie kTie, class Lanes>
HWY_INLINE void compareRow(Lanes lanes, const float *x, int32_t row, float *best, int32_t *places) {
  const hn::RebindToSigned<D> integers;
  const V v = lanes.load(x), top = hn::Load(D(), best);
  const M before = kTie == Tie::kFirst ? (kExtreme == Extreme::kLargest ? isLess(top, v) : isLess(v, top))
                                       : (kExtreme == Extreme::kLargest ? isLess(v, top) : isLess(top, v));
  const M takes = kTie == Tie::kFirst ? before : hn::Not(before);
  hn::Store(hn::IfThenElse(takes, v, top), D(), best);
  hn::Store(hn::IfThenElse(hn::RebindMask(integers, takes), hn::Set(integers, row), hn::Load(integers, places)),
            integers, places);
}

template <Extreme kExtreme, Tie kTie>
void columnsOf(const float *x, int64_t stride, int64_t rows, int64_t columns, int32_t *places) {
  constexpr int64_t kMost = 512;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  HWY_ALIGN float best[kMost];
  HWY_ALIGN int32_t rowsOfBest[kMost];
  for (int64_t first = 0; first < columns; first += kMost) {
    const int64_t count = std::min(kMost, columns - first);
    std::fill_n(best, kMost, 0.0f);
    std::copy_n(x + first, count, best);
    std::fill_n(rowsOfBest, kMost, 0);
    for (int64_t r = 1; r < rows; ++r) {
      const float *from = x + r * stride + first;
      int64_t c = 0;
      for (; c + lanes <= count; c += lanes)
        compareRow<kExtreme, kTie>(AllLanes(), from + c, static_cast<int32_t>(r), best + c, rowsOfBest + c);
      if (c < count)
        compareRow<kExtreme, kTie>(FirstLanes(count - c), from + c, static_cast<int32_t>(r), best + c, rowsOfBest + c);
    }
    std::copy_n(rowsOfBest, count, places + first);
  }
}

void placesOf(Extreme extreme, Tie tie, const float *x, int64_t stride, int64_t rows, int64_t columns,
              int32_t *places) {
  if (extreme == Extreme::kLargest)
    return tie == Tie::kFirst ? columnsOf<Extreme::kLargest, Tie::kFirst>(x, stride, rows, columns, places)
                              : columnsOf<Extreme::kLargest, Tie::kLast>(x, stride, rows, columns, places);
  return tie == Tie::kFirst ? columnsOf<Extreme::kSmallest, Tie::kFirst>(x, stride, rows, columns, places)
                            : columnsOf<Extreme::kSmallest, Tie::kLast>(x, stride, rows, columns, places);
}

// The same as orderKey(): the bits of negative numbers are inverted.
void keysOf(const float *x, int64_t count, uint32_t *keys) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> integers;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto sign = hn::Set(bits, 0x80000000u), all = hn::Set(bits, 0xffffffffu);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V v = hn::Add(hn::LoadU(d, x + i), hn::Zero(d));  // no -0
    const auto b = hn::BitCast(bits, v);
    const auto negative = hn::BitCast(bits, hn::ShiftRight<31>(hn::BitCast(integers, v)));
    const auto key = hn::Xor(b, hn::Or(negative, sign));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), all, key), bits, keys + i);
  }
  for (; i < count; ++i) keys[i] = orderKey(x[i]);
}

// The first position in [begin, end) whose key is above `limit`; `end` if there is none.
int64_t nextAbove(const uint32_t *keys, int64_t begin, int64_t end, uint32_t limit) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bound = hn::Set(d, limit);
  for (; begin + lanes <= end; begin += lanes) {
    const intptr_t found = hn::FindFirstTrue(d, hn::Gt(hn::LoadU(d, keys + begin), bound));
    if (found >= 0) return begin + found;
  }
  while (begin < end && keys[begin] <= limit) ++begin;
  return begin;
}

// A number such that at least `count` <= kGroups keys are not below it: the count-th largest of the maxima of kGroups
// groups. Without branches, which processors could not predict.
constexpr int64_t kGroups = 32;
uint32_t reachedByMany(const uint32_t *keys, int64_t length, int64_t count) {
  HWY_ALIGN uint32_t maxima[kGroups] = {};
  const hn::CappedTag<uint32_t, static_cast<size_t>(kGroups)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i + kGroups <= length; i += kGroups)
    for (int64_t j = 0; j < kGroups; j += lanes)
      hn::Store(hn::Max(hn::Load(d, maxima + j), hn::LoadU(d, keys + i + j)), d, maxima + j);
  uint32_t least = 0xffffffffu;
  for (const uint32_t maximum : maxima) {
    int64_t above = 0;
    for (int64_t j = 0; j < kGroups; j += lanes)
      above += static_cast<int64_t>(hn::CountTrue(d, hn::Gt(hn::Load(d, maxima + j), hn::Set(d, maximum))));
    least = std::min(least, above < count ? maximum : 0xffffffffu);
  }
  return least;
}

// For few of many keys: only keys above a limit are visited, and the limit rises to the last of the largest keys so
// far. Of equal keys, the first one is kept.
void largestOf(const uint32_t *keys, int64_t length, int64_t count, uint64_t *items) {
  if (count == 0) return;
  const auto item = [&](int64_t j) { return uint64_t{keys[j]} << 32 | static_cast<uint32_t>(~j); };
  const int64_t room = std::min(length, 2 * count + 32);
  const uint32_t reached = count <= kGroups / 2 && length >= 8 * kGroups ? reachedByMany(keys, length, count) : 0;
  int64_t held = 0, next = 0;
  if (reached == 0)
    for (; held < room; ++held, ++next) items[held] = item(held);
  for (uint32_t limit = reached - 1; next < length;) {
    if (held == room) {
      std::nth_element(items, items + count - 1, items + held, std::greater<>());
      held = count;
      limit = static_cast<uint32_t>(items[count - 1] >> 32);
    }
    for (next = nextAbove(keys, next, length, limit); next < length && held < room;) {
      items[held++] = item(next);
      next = nextAbove(keys, next + 1, length, limit);
    }
  }
  constexpr int64_t kFew = 16;
  if (held > count + kFew) {
    std::nth_element(items, items + count, items + held, std::greater<>());
    held = count;
  }
  std::sort(items, items + held, std::greater<>());
}

// Number of keys below a limit, as four independent counts.
int64_t countBelow(const uint32_t *keys, int64_t length, uint32_t limit) {
  const hn::ScalableTag<uint32_t> d;
  constexpr int64_t kCounts = 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bound = hn::Set(d, limit), one = hn::Set(d, 1);
  decltype(hn::Zero(d)) counts[kCounts] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0, count = 0;
  for (; i + kCounts * lanes <= length; i += kCounts * lanes)
    for (int64_t k = 0; k < kCounts; ++k) {
      const auto isBelow = hn::Lt(hn::LoadU(d, keys + i + k * lanes), bound);
      counts[k] = hn::Add(counts[k], hn::IfThenElseZero(isBelow, one));
    }
  const auto all = hn::Add(hn::Add(counts[0], counts[1]), hn::Add(counts[2], counts[3]));
  for (; i < length; ++i) count += static_cast<int64_t>(keys[i] < limit);
  return count + static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, all)));
}

// Copies the keys in [first, last] to the front of `to`, which may be `keys`; returns their number.
int64_t keepBetween(const uint32_t *keys, int64_t length, uint32_t first, uint32_t last, uint32_t *to) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, first), high = hn::Set(d, last);
  int64_t i = 0, kept = 0;
  for (; i + lanes <= length; i += lanes) {
    const auto v = hn::LoadU(d, keys + i);
    const auto isKept = hn::Not(hn::Or(hn::Lt(v, low), hn::Gt(v, high)));
    if (hn::AllFalse(d, isKept)) continue;
    hn::StoreU(hn::Compress(v, isKept), d, to + kept);
    kept += static_cast<int64_t>(hn::CountTrue(d, isKept));
  }
  for (; i < length; ++i)
    if (keys[i] >= first && keys[i] <= last) to[kept++] = keys[i];
  return kept;
}

// Position of the `number`-th of the keys that are equal to `key`, counted from 0; there is one.
int64_t placeOfEqual(const uint32_t *keys, uint32_t key, int64_t length, int64_t number) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, key);
  int64_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    const auto equal = static_cast<int64_t>(hn::CountTrue(d, hn::Eq(hn::LoadU(d, keys + i), wanted)));
    if (equal > number) break;
    number -= equal;
  }
  while (keys[i] != key || number-- > 0) ++i;
  return i;
}

// Finds the key bit by bit, from the highest on: a bit is set if at most `rank` keys are below the result. After every
// eight bits, only keys with the bits so far are kept. The work does not depend on the order of the keys.
int64_t placeOfRankOf(const uint32_t *keys, int64_t length, int64_t rank, uint32_t *spare) {
  constexpr int kBits = 8;
  const uint32_t *left = keys;
  int64_t count = length, leftRank = rank;
  uint32_t key = 0;
  for (int bit = 32; bit > 0;) {
    int64_t below = 0;
    for (const int end = bit - kBits; bit > end; --bit) {
      const uint32_t tried = key | 1u << (bit - 1);
      const int64_t found = countBelow(left, count, tried);
      if (found <= leftRank) key = tried, below = found;
    }
    leftRank -= below;
    count = keepBetween(left, count, key, key | static_cast<uint32_t>((uint64_t{1} << bit) - 1), spare);
    left = spare;
  }
  return placeOfEqual(keys, key, length, leftRank);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(placeOfValue);
HWY_EXPORT(placesOf);
HWY_EXPORT(keysOf);
HWY_EXPORT(largestOf);
HWY_EXPORT(placeOfRankOf);

namespace {

bool isBefore(Extreme extreme, float a, float b) { return extreme == Extreme::kLargest ? isLess(b, a) : isLess(a, b); }

// NaN is the largest; it is the smallest only if all elements are NaN.
float extremeOf(Extreme extreme, const float *x, int64_t count) {
  const float found = reduceRow(extreme == Extreme::kLargest ? ReduceOp::kMax : ReduceOp::kMin, x, count);
  if (extreme == Extreme::kLargest || !std::isnan(found)) return found;
  return *std::min_element(x, x + count, isLess<float>);
}

}  // namespace

int64_t placeOfExtreme(Extreme extreme, Tie tie, const float *x, int64_t count) noexcept {
  constexpr int64_t kBlock = 2048;  // 8 KiB
  if (count <= 0) return 0;
  int64_t block = 0;
  float best = extremeOf(extreme, x, std::min(kBlock, count));
  for (int64_t i = kBlock; i < count; i += kBlock) {
    const float found = extremeOf(extreme, x + i, std::min(kBlock, count - i));
    if (isBefore(extreme, found, best) || (tie == Tie::kLast && !isBefore(extreme, best, found)))
      block = i, best = found;
  }
  return block + HWY_DYNAMIC_DISPATCH(placeOfValue)(tie, x + block, std::min(kBlock, count - block), best);
}

void placesOfExtremes(Extreme extreme, Tie tie, const float *x, int64_t stride, int64_t rows, int64_t columns,
                      int32_t *places) noexcept {
  HWY_DYNAMIC_DISPATCH(placesOf)(extreme, tie, x, stride, rows, columns, places);
}

void orderKeys(const float *x, int64_t count, uint32_t *keys) noexcept { HWY_DYNAMIC_DISPATCH(keysOf)(x, count, keys); }

void largestKeys(const uint32_t *keys, int64_t length, int64_t count, uint64_t *items) noexcept {
  HWY_DYNAMIC_DISPATCH(largestOf)(keys, length, count, items);
}

int64_t placeOfRank(const uint32_t *keys, int64_t length, int64_t rank, uint32_t *spare) noexcept {
  return HWY_DYNAMIC_DISPATCH(placeOfRankOf)(keys, length, rank, spare);
}
}  // namespace popart::cpu
#endif
