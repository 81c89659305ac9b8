// MemoryFit: how a program was changed so that it fits into the memory limit.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace popart {

// What the compiler chose for a program that did not fit as it is, with what it predicts. Bytes are those of one
// replica on the device, where the limit holds; times those of one run.
struct MemoryFit {
  // One kind of choice.
  struct Choice {
    std::string what;         // "computed again", "activations off chip", "weights off chip", …
    int64_t tensors = 0;      // how many
    int64_t bytes = 0;        // of them
    double milliseconds = 0;  // predicted for these alone, in one update
  };
  int64_t limitBytes = 0;                          // what is allowed
  int64_t plainBytes = 0, bytes = 0;               // of the program as it is, and as it runs
  int64_t remoteBytes = 0;                         // of the program as it runs
  double plainMilliseconds = 0, milliseconds = 0;  // of the program as it is, and as it runs
  std::vector<Choice> choices;                     // by kind
  int compilations = 0;                            // of the search
};

}  // namespace popart
