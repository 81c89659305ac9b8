// Reading of tensor values from words of the IR text (written by text.cpp).
#pragma once
#include <string_view>
#include <vector>

#include <popart/tensordata.hpp>

namespace popart {

// One float, "nan.<bits>" included. Throws popart::error when it cannot be read.
float floatFromText(std::string_view text);
int64_t intFromText(std::string_view text);

// Values of `info` from one word per element in C order. Throws popart::error for a wrong count, an unreadable or
// out-of-range element and a type without text elements.
TensorData valuesFromWords(const TensorInfo &info, const std::vector<std::string_view> &words);
// All elements equal to `word`. Throws popart::error above `byteBudget`, before anything is allocated.
TensorData valuesFilled(const TensorInfo &info, std::string_view word, int64_t byteBudget);
// Little-endian bytes as hexadecimal digits. Throws popart::error for a wrong length.
TensorData valuesFromHex(const TensorInfo &info, std::string_view digits);

}  // namespace popart
