// Numbers as text for people: in the largest unit in which they are at least 1, with four significant digits.
#pragma once
#include <string>

namespace popart {

std::string bytesText(double count);   // "12 B", "1.500 KiB", "128.1 MiB"
std::string timeText(double seconds);  // "0.8 us", "12.50 ms", "3.000 s"
std::string flopsText(double count);   // floating-point operations: "512 FLOP", "3.633 GFLOP"

}  // namespace popart
