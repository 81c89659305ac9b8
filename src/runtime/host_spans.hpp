// Finds the buffers of the host that a program can read and write in place (StreamSource::inputStays, outputAhead).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace popart::runtime {

// A buffer of the host for one or more values of a stream.
struct HostSpan {
  const char *begin = nullptr;
  int64_t bytes = 0;
  bool isWritten = false;
  size_t stream = 0;  // for the caller
  bool isUsable = false;

  const char *end() const { return begin + bytes; }
};

// Whether a buffer of values of this many bytes has each value where kernels can work on it.
bool isAligned(const void *begin, int64_t valueBytes);
// Sorts the spans. A usable span stays usable unless another one overlaps it and one of the two is written.
void findUsable(std::vector<HostSpan> &spans);

}  // namespace popart::runtime
