// What the values of an initializer give away: masks and tables that a formula gives are no parameters.
#pragma once
#include <popart/tensordata.hpp>

namespace popart::onnx {

// Zeros and ones; or infinities, NaN or numbers beyond 1e4, which are added to keep scores away.
bool isMask(const TensorData &values);
// A matrix, dimensions of 1 left out, whose columns are sines or cosines of multiples of an angle: rotary tables and
// position tables of formulas.
bool isTableOfSines(const TensorData &values);
// Whole numbers that differ: counts, distances, places of a grid. At least `fewest` of them.
bool isWholeNumbers(const TensorData &values, int64_t fewest);
// A vector, dimensions of 1 left out, of numbers with equal differences or equal quotients: linspace, frequencies.
bool isProgression(const TensorData &values);
bool isGeometricProgression(const TensorData &values);
// Few numbers, each of them many times: coordinates of a grid, sizes of anchors. Numbers that were trained do not
// repeat, unless they were rounded to 16 bits; of those a table with more than a few numbers is none.
bool isFewNumbers(const TensorData &values);
// Most elements, 0 and 1 left out, are there several times, and not for a rounding to 16 bits: rows that were picked
// from a table.
bool holdsCopies(const TensorData &values);
// Most elements of the one with fewer of them, 0 and 1 left out, are in the other one too.
bool sharesElements(const TensorData &a, const TensorData &b);
// Every element is the same.
bool isUniform(const TensorData &values);

}  // namespace popart::onnx
