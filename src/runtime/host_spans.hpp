// Which buffers of the host a program can read and write where they lie (StreamSource::inputStays, outputAhead).
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
  size_t stream = 0;  // for the one who asks
  bool isUsable = false;

  const char *end() const { return begin + bytes; }
};

// Whether a buffer of values of so many bytes has each of them where kernels can work on it.
bool isAligned(const void *begin, int64_t valueBytes);
// Sorts the spans. Those that were usable stay so unless another one has a part of them and one of the two is written.
void findUsable(std::vector<HostSpan> &spans);

}  // namespace popart::runtime
