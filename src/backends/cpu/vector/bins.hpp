// Sums and maxima over the bins of a box in a plane, one channel of an image; vectorised per instruction set. Elements
// of planes are FLOAT, FLOAT16 or BFLOAT16.
// Invariant: the order of every sum depends only on the box and the instruction set.
#pragma once
#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

// Bins along one axis as weighted elements: bin b has the elements [begin[b], begin[b + 1]). No weight is 0.
struct BinTaps {
  int64_t bins;
  const int32_t *begin, *index;  // index: positions along the axis, in [low, high)
  const float *weight;
  int64_t low, high;
};
// Bins along one axis as ranges of elements: bin b is [begin[b], end[b]), and empty unless end is above begin. All that
// are not empty are inside [low, high).
struct BinRanges {
  int64_t bins;
  const int32_t *begin, *end;
  int64_t low, high;
};
// Both axes of a box in planes with rows of `width` elements.
template <class Bins>
struct BinsOfBox {
  Bins rows, columns;
  int64_t width;
};

// Floats of `work` for the functions below, in planes with rows of `width` elements.
int64_t workOfBins(int64_t width);

// y[i * columns + j] = sum of the elements of bin (i, j), each multiplied by the weights of its row and its column.
void sumBins(DataType type, const void *plane, const BinsOfBox<BinTaps> &box, float *work, float *y) noexcept;
// The transpose: adds g[i * columns + j], multiplied by both weights, to every element of bin (i, j).
void spreadBins(const float *g, const BinsOfBox<BinTaps> &box, float *work, float *plane) noexcept;
// y[i * columns + j] = the largest element of bin (i, j), 0 if the bin is empty; NaN wins.
void maximaOfBins(DataType type, const void *plane, const BinsOfBox<BinRanges> &box, float *work, float *y) noexcept;

}  // namespace popart::cpu
