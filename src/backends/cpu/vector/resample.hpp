// Rows that are weighted sums of other rows: one axis of Resize and of its gradient.
// Invariant: every element is summed in the order of the taps, so the length of a row and how it is split never change
// a bit.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace popart::cpu {

// Row r of a result: offset + sum over t of weight[t] x[index[t]].
struct RowTaps {
  std::span<const int32_t> index;
  const float *weight;
  float offset;
};
// y[i] = offset + sum over t of weight[t] x[index[t] * length + i], for i < length.
void sumOfRows(const float *x, const RowTaps &taps, int64_t length, float *y) noexcept;

// A map of single elements: y[o] = offset[o] + sum over k of weight[k rows + o] x[index[k rows + o]], for o < rows.
struct ElementTaps {
  int64_t rows, count;
  const int32_t *index;
  const float *weight;
  const float *offset;    // null: zeros
  const int32_t *window;  // result of windowsOf()
};
void sumOfElements(const float *x, const ElementTaps &taps, float *y) noexcept;
// y[o] = x[index[o]], for elements of 32 bits.
void pickElements(const uint32_t *x, const ElementTaps &taps, uint32_t *y) noexcept;

// For each vector of neighbouring results: the first position in x (of `length`) such that as many contiguous elements
// contain all of its taps, or -1 if the taps are further apart. `index` as in ElementTaps.
std::vector<int32_t> windowsOf(std::span<const int32_t> index, int64_t rows, int64_t length);

}  // namespace popart::cpu
