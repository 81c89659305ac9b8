// Transposition in register blocks, compiled once per instruction set by Highway. A block takes as many rows of x as a
// vector has lanes and as many columns as fit the registers: each 128-bit part of a vector transposes a square of its
// own, so that a store is a whole vector, a cache line with the widest ones.
//
//   x, rows r…r+15   ──128-bit loads──▶   four squares side by side   ──interleave──▶   y, 16 neighbours of a row
//
// Blocks follow each other down a narrow strip of x, so that few rows of y are written at a time and each grows by
// neighbouring cache lines; what the next block below reads and writes is prefetched meanwhile. Where nothing is
// prefetched, or rows of y are short, strips are wider.
//
// Rows and columns that are left form smaller blocks; the last of them reaches back over what is already moved. Two to
// four columns without gaps between the rows of x, or rows without gaps in y, go through interleaved loads and stores.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/transpose.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/transpose.hpp"
// clang-format on
#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <size_t kBytes>
HWY_INLINE void moveElement(const ByteMatrix &x, const ByteTarget &y, int64_t row, int64_t col) {
  constexpr auto kSize = static_cast<ptrdiff_t>(kBytes);
  std::memcpy(y.data + col * y.stride + row * kSize, x.data + row * x.stride + col * kSize, kBytes);
}

template <size_t kBytes>
void moveElements(const ByteMatrix &x, const ByteTarget &y, int64_t row, int64_t col) {
  for (int64_t c = col; c < x.cols; ++c)
    for (int64_t r = row; r < x.rows; ++r) moveElement<kBytes>(x, y, r, c);
}

#if HWY_TARGET == HWY_SCALAR
template <class T>
void transposeAs(const ByteMatrix &x, const ByteTarget &y, Prefetch /*prefetch*/) {
  moveElements<sizeof(T)>(x, y, 0, 0);
}
#else

constexpr int64_t kPartBytes = 16;  // of a vector, within which lanes can be interleaved
#if HWY_HAVE_SCALABLE
constexpr size_t kMostParts = 1;
#else
constexpr size_t kMostParts = HWY_LANES(uint8_t) / kPartBytes;
#endif
constexpr int64_t kLineBytes = 64;             // of a cache line
constexpr int64_t kNarrow = 2 * kLineBytes;    // bytes of a strip, and so the rows of y that are written at a time
constexpr int64_t kWide = 4 * kLineBytes;      // if nothing is prefetched
constexpr int64_t kLongRun = 3 * kLineBytes;   // bytes of a row of y
constexpr int64_t kLeastToPrefetch = 1 << 15;  // bytes of a matrix; smaller ones are mostly in the first level cache

// A vector whose 128-bit parts are `step` bytes apart in memory.
template <size_t kParts>
HWY_INLINE auto loadParts(const char *from, ptrdiff_t step) {
  const hn::FixedTag<uint8_t, kParts * kPartBytes> d;
  if constexpr (kParts == 1) {
    (void)step;
    return hn::LoadU(d, reinterpret_cast<const uint8_t *>(from));
  } else {
    constexpr size_t kHalf = kParts / 2;
    return hn::Combine(d, loadParts<kHalf>(from + static_cast<ptrdiff_t>(kHalf) * step, step),
                       loadParts<kHalf>(from, step));
  }
}

template <class T>
class Transposition {
  static constexpr size_t kSquare = kPartBytes / sizeof(T);  // rows and columns that a part transposes
  static constexpr auto kSide = static_cast<int64_t>(kSquare), kSize = static_cast<int64_t>(sizeof(T));
  // Number of squares per row of a block with `kParts` squares per column; a block has at most 16 vectors.
  template <size_t kParts>
  static constexpr size_t kAcross = std::min<size_t>(kParts, std::max<size_t>(1, 16 / kSquare));

 public:
  Transposition(const ByteMatrix &x, const ByteTarget &y) : x_(x), y_(y) {}

  void run(Prefetch prefetch) const {
    if (x_.rows < kSide) return fewRows();
    if (x_.cols < kSide) return fewColumns();
    if (prefetch == Prefetch::kNone || x_.rows * kSize < kLongRun || x_.rows * x_.cols * kSize < kLeastToPrefetch)
      strips<Prefetch::kNone>();
    else
      strips<Prefetch::kNext>();
  }

 private:
  static constexpr int64_t kTallest = kSide * static_cast<int64_t>(kMostParts);

  template <Prefetch kPrefetch>
  void strips() const {
    constexpr int64_t kStrip = (kPrefetch == Prefetch::kNext ? kNarrow : kWide) / kSize;
    for (int64_t c = 0; c < x_.cols; c += kStrip) {
      const int64_t end = std::min(x_.cols, c + kStrip), begin = std::min(c, end - kSide);
      if (rowBlocks<kMostParts, kPrefetch>(0, begin, end) < x_.rows)
        columnBlocks<1, Prefetch::kNone>(x_.rows - kSide, begin, end);
    }
  }
  // Columns [begin, end) of rows from `row` on, in blocks with kParts squares per column, then in smaller ones. Returns
  // the first remaining row.
  template <size_t kParts, Prefetch kPrefetch>
  int64_t rowBlocks(int64_t row, int64_t begin, int64_t end) const {
    constexpr int64_t kHeight = kSide * static_cast<int64_t>(kParts);
    for (; row + kHeight <= x_.rows; row += kHeight) columnBlocks<kParts, kPrefetch>(row, begin, end);
    if constexpr (kParts > 1) return rowBlocks<kParts / 2, Prefetch::kNone>(row, begin, end);
    return row;
  }
  template <size_t kParts, Prefetch kPrefetch>
  void columnBlocks(int64_t row, int64_t begin, int64_t end) const {
    constexpr int64_t kWidth = kSide * static_cast<int64_t>(kAcross<kParts>), kStrip = kNarrow / kSize;
    // Prefetches the blocks below, or those at the top of the next strip; nothing outside the matrix, where other
    // threads write.
    const bool isLast = row + 2 * kTallest > x_.rows;
    const int64_t nextRow = isLast ? 0 : row + kTallest, next = isLast ? begin + kStrip : begin;
    const bool asks = kPrefetch == Prefetch::kNext && next < x_.cols;
    const bool isFull = end - begin == kStrip && next + kStrip <= x_.cols;
    if (asks && !isFull) prefetchShare(nextRow, next, 0, kStrip, std::min(kStrip, x_.cols - next));
    int64_t c = begin;
    for (; c + kWidth <= end; c += kWidth) {
      if (asks && isFull) prefetchShare(nextRow, next, c - begin, kWidth, kStrip);
      block<kParts, kAcross<kParts> >(row, c, kSide);
    }
    for (; c + kSide <= end; c += kSide) block<kParts, 1>(row, c, kSide);
    if (c < end) block<kParts, 1>(row, end - kSide, kSide);
  }
  // From the blocks of kTallest rows and `columns` columns at (row, col), prefetches the share of x and y that belongs
  // to `width` columns of a strip, from its column `at` on. If the rows cover only a part of a cache line of y, it
  // prefetches a part of the lines.
  HWY_INLINE void prefetchShare(int64_t row, int64_t col, int64_t at, int64_t width, int64_t columns) const {
    constexpr int64_t kTimes = std::max<int64_t>(1, kLineBytes / kSize / kTallest), kStrip = kNarrow / kSize;
    const int64_t first = kTallest * at / kStrip, end = kTallest * (at + width) / kStrip;
    const char *x = x_.data + (row + first) * x_.stride + col * kSize;
    for (int64_t r = first; r < end; ++r, x += x_.stride)
      for (int64_t b = 0; b < columns * kSize; b += kLineBytes) __builtin_prefetch(x + b, 0, 3);
    const int64_t part = row / kTallest % kTimes;
    const int64_t begin = at + width * part / kTimes, stop = std::min(columns, at + width * (part + 1) / kTimes);
    const char *y = y_.data + (col + begin) * y_.stride + (row - part * kTallest) * kSize;
    for (int64_t c = begin; c < stop; ++c, y += y_.stride) __builtin_prefetch(y, 1, 3);
  }

  // One block. `rows`: number of existing rows, if a square has more; the lanes of the others repeat the last one.
  template <size_t kParts, size_t kColumns>
  HWY_INLINE void block(int64_t row, int64_t col, int64_t rows, int64_t cols = kSide) const {
    using D = hn::FixedTag<T, kParts * kSquare>;
    const hn::Repartition<uint8_t, D> bytes;
    hn::Vec<D> v[kColumns][kSquare];
    const char *from = x_.data + row * x_.stride + col * kSize;
    for (size_t i = 0; i < kSquare; ++i)
      for (size_t s = 0; s < kColumns; ++s)
        v[s][i] = hn::BitCast(D(), loadParts<kParts>(from + std::min(static_cast<int64_t>(i), rows - 1) * x_.stride +
                                                         static_cast<ptrdiff_t>(s) * kPartBytes,
                                                     kSide * x_.stride));
    char *to = y_.data + col * y_.stride + row * kSize;
    for (size_t s = 0; s < kColumns; ++s) {
      transposeParts(v[s]);
      for (size_t i = 0; i < kSquare; ++i)
        if (static_cast<int64_t>(i) < cols)
          hn::StoreU(hn::BitCast(bytes, v[s][i]), bytes,
                     reinterpret_cast<uint8_t *>(to + static_cast<int64_t>(s * kSquare + i) * y_.stride));
    }
  }
  // Transposes every part: interleaving the two halves of the vectors, log2(kSquare) times.
  template <class V>
  static HWY_INLINE void transposeParts(V (&v)[kSquare]) {
    const hn::DFromV<V> d;
    for (size_t round = 1; round < kSquare; round *= 2) {
      V next[kSquare];
      for (size_t i = 0; i < kSquare / 2; ++i) {
        next[2 * i] = hn::InterleaveLower(d, v[i], v[i + kSquare / 2]);
        next[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + kSquare / 2]);
      }
      for (size_t i = 0; i < kSquare; ++i) v[i] = next[i];
    }
  }

  // Whether elements are aligned for loads and stores of vectors of T.
  bool isAligned() const {
    const auto bits = reinterpret_cast<uintptr_t>(x_.data) | reinterpret_cast<uintptr_t>(y_.data) |
                      static_cast<uintptr_t>(x_.stride) | static_cast<uintptr_t>(y_.stride);
    return bits % sizeof(T) == 0;
  }
  const T *rowOfX(int64_t r) const { return reinterpret_cast<const T *>(x_.data + r * x_.stride); }
  T *rowOfY(int64_t c) const { return reinterpret_cast<T *>(y_.data + c * y_.stride); }

  // Contiguous rows of x with `kColumns` elements each. False if there are fewer rows than a vector has lanes.
  template <size_t kColumns, class D>
  bool splitRows(D d) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (x_.rows < lanes) return false;
    for (int64_t r = 0; r < x_.rows; r += lanes) {
      const int64_t at = std::min(r, x_.rows - lanes);
      hn::Vec<D> first, second, third, fourth;
      if constexpr (kColumns == 2) hn::LoadInterleaved2(d, rowOfX(at), first, second);
      if constexpr (kColumns == 3) hn::LoadInterleaved3(d, rowOfX(at), first, second, third);
      if constexpr (kColumns == 4) hn::LoadInterleaved4(d, rowOfX(at), first, second, third, fourth);
      hn::StoreU(first, d, rowOfY(0) + at);
      hn::StoreU(second, d, rowOfY(1) + at);
      if constexpr (kColumns > 2) hn::StoreU(third, d, rowOfY(2) + at);
      if constexpr (kColumns > 3) hn::StoreU(fourth, d, rowOfY(3) + at);
    }
    return true;
  }
  // Contiguous rows of y with `kRows` elements each.
  template <size_t kRows, class D>
  bool joinRows(D d) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (x_.cols < lanes) return false;
    for (int64_t c = 0; c < x_.cols; c += lanes) {
      const int64_t at = std::min(c, x_.cols - lanes);
      const auto load = [&](int64_t r) HWY_ATTR { return hn::LoadU(d, rowOfX(r) + at); };
      if constexpr (kRows == 2) hn::StoreInterleaved2(load(0), load(1), d, rowOfY(at));
      if constexpr (kRows == 3) hn::StoreInterleaved3(load(0), load(1), load(2), d, rowOfY(at));
      if constexpr (kRows == 4) hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d, rowOfY(at));
    }
    return true;
  }
  template <size_t kCount>
  bool splitInVectors() const {
    return splitRows<kCount>(hn::ScalableTag<T>()) || splitRows<kCount>(hn::FixedTag<T, kSquare>());
  }
  template <size_t kCount>
  bool joinInVectors() const {
    return joinRows<kCount>(hn::ScalableTag<T>()) || joinRows<kCount>(hn::FixedTag<T, kSquare>());
  }
  bool splits() const {
    if (x_.stride != x_.cols * kSize || !isAligned()) return false;
    return x_.cols == 2   ? splitInVectors<2>()
           : x_.cols == 3 ? splitInVectors<3>()
                          : x_.cols == 4 && splitInVectors<4>();
  }
  bool joins() const {
    if (y_.stride != x_.rows * kSize || !isAligned()) return false;
    return x_.rows == 2 ? joinInVectors<2>() : x_.rows == 3 ? joinInVectors<3>() : x_.rows == 4 && joinInVectors<4>();
  }

  // Fewer rows than a square has. If rows of y are contiguous, each is stored with excess lanes, which the next ones
  // overwrite.
  void fewRows() const {
    if constexpr (kSide > 2)
      if (joins()) return;
    int64_t c = 0;
    if (x_.rows > 0 && y_.stride == x_.rows * kSize)
      for (; c + kSide <= x_.cols && (c + kSide - 1) * y_.stride + kPartBytes <= x_.cols * y_.stride; c += kSide)
        block<1, 1>(0, c, x_.rows);
    moveElements<sizeof(T)>(x_, y_, 0, c);
  }
  // Fewer columns than a square has: rows of x are read with the elements after them, as far as those are in the
  // matrix.
  void fewColumns() const {
    if constexpr (kSide > 2)
      if (splits()) return;
    const ptrdiff_t bytes = (x_.rows - 1) * x_.stride + x_.cols * kSize;
    constexpr int64_t kHeight = kSide * static_cast<int64_t>(kMostParts);
    int64_t r = 0;
    for (; x_.stride > 0 && r + kHeight <= x_.rows && (r + kHeight - 1) * x_.stride + kPartBytes <= bytes; r += kHeight)
      block<kMostParts, 1>(r, 0, kSide, x_.cols);
    moveElements<sizeof(T)>(x_, y_, r, 0);
  }

  ByteMatrix x_;
  ByteTarget y_;
};

template <class T>
void transposeAs(const ByteMatrix &x, const ByteTarget &y, Prefetch prefetch) {
  Transposition<T>(x, y).run(prefetch);
}
#endif

void transposeOf(int64_t bytes, const ByteMatrix &x, const ByteTarget &y, Prefetch prefetch) {
  switch (bytes) {
    case 1:
      return transposeAs<uint8_t>(x, y, prefetch);
    case 2:
      return transposeAs<uint16_t>(x, y, prefetch);
    case 4:
      return transposeAs<uint32_t>(x, y, prefetch);
    case 8:
      return transposeAs<uint64_t>(x, y, prefetch);
    default:
      return moveElements<16>(x, y, 0, 0);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(transposeOf);

Prefetch prefetchFor(int64_t bytes) { return 2 * bytes > secondLevelCacheBytes() ? Prefetch::kNext : Prefetch::kNone; }

void transpose(int64_t elementBytes, const ByteMatrix &x, const ByteTarget &y, Prefetch prefetch) noexcept {
  if (x.rows > 0 && x.cols > 0) HWY_DYNAMIC_DISPATCH(transposeOf)(elementBytes, x, y, prefetch);
}

}  // namespace popart::cpu
#endif
