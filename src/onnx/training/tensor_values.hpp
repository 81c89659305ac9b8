// Recognises initializers by their values: masks and tables made by formulas are no parameters.
#pragma once
#include <popart/tensordata.hpp>

namespace popart::onnx {

// Only zeros and ones; or infinities, NaN or numbers beyond 1e4, which are added to exclude scores.
bool isMask(const TensorData &values);
// A matrix, ignoring dimensions of 1, whose columns are sines or cosines of multiples of an angle: rotary tables and
// position tables made by formulas.
bool isTableOfSines(const TensorData &values);
// Different integers: counts, distances, positions in a grid. At least `fewest` of them.
bool isWholeNumbers(const TensorData &values, int64_t fewest);
// A vector, ignoring dimensions of 1, with equal differences or equal quotients of neighbours: linspace, frequencies.
bool isProgression(const TensorData &values);
bool isGeometricProgression(const TensorData &values);
// Few different numbers, each of them many times: coordinates of a grid, sizes of anchors. Trained numbers do not
// repeat unless they were rounded to 16 bits; for 16-bit values, a table with more than a few different numbers does
// not count.
bool isFewNumbers(const TensorData &values);
// Most elements, ignoring 0 and 1, occur several times, and not because of rounding to 16 bits: rows that were picked
// from a table.
bool holdsCopies(const TensorData &values);
// Most elements of the smaller tensor, ignoring 0 and 1, also occur in the other one.
bool sharesElements(const TensorData &a, const TensorData &b);
// All elements are equal.
bool isUniform(const TensorData &values);

}  // namespace popart::onnx
