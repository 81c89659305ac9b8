// MemoryFit: how a program was changed to fit into the memory limit.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace popart {

// The compiler's choices for a program that exceeded the limit, with predictions. Bytes are those of one replica on the
// device, to which the limit applies; times are per run.
struct MemoryFit {
  // One kind of choice.
  struct Choice {
    std::string what;         // "computed again", "activations off chip", "weights off chip", …
    int64_t tensors = 0;      // number of tensors
    int64_t bytes = 0;        // bytes of these tensors
    double milliseconds = 0;  // predicted time of these alone, per update
  };
  int64_t limitBytes = 0;                          // the limit
  int64_t plainBytes = 0, bytes = 0;               // of the original program, and of the changed one
  int64_t remoteBytes = 0;                         // of the changed program
  double plainMilliseconds = 0, milliseconds = 0;  // of the original program, and of the changed one
  std::vector<Choice> choices;                     // by kind
  int compilations = 0;                            // in the search
};

}  // namespace popart
