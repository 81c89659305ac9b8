// What the values of an initializer give away: masks and tables of sines are never parameters.
#pragma once
#include <popart/tensordata.hpp>

namespace popart::onnx {

// Zeros and ones; or infinities, NaN or numbers beyond 1e4, which are added to keep scores away.
bool isMask(const TensorData &values);
// A matrix, dimensions of 1 left out, whose columns are sines or cosines of multiples of an angle: rotary tables and
// position tables of formulas.
bool isTableOfSines(const TensorData &values);
// Every element is the same.
bool isUniform(const TensorData &values);

}  // namespace popart::onnx
