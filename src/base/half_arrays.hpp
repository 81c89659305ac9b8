// Arrays of 16-bit floats to floats and back, with the instructions of the processor. The same bits for every
// instruction set, which are those of popart/half.hpp; but signalling NaNs of FLOAT16 may become quiet.
#pragma once
#include <cstdint>

#include <popart/half.hpp>

namespace popart {

// to[i] = the value of from[i]; exact.
void widen(const Half *from, int64_t count, float *to) noexcept;
void widen(const BFloat16 *from, int64_t count, float *to) noexcept;
// to[i] = from[i], rounded to nearest even.
void narrow(const float *from, int64_t count, Half *to) noexcept;
void narrow(const float *from, int64_t count, BFloat16 *to) noexcept;

}  // namespace popart
