// Content hashes of the constants of one session, for the keys of its programs: making a key reads all weights
// otherwise.
#pragma once
#include <vector>

#include <popart/ir.hpp>

#include "ir/text.hpp"

namespace popart {

// Reads each constant once. It holds what it has read, so that the bytes cannot change behind its back: who writes
// shared values makes a copy first (TensorData). For constants that lie in memory of a caller, who may write it, make a
// new one for each key.
class ConstantHashes {
 public:
  // Hashes of the constants of 64 KiB and more, by first byte and size; new ones are read by as many threads as pay.
  const KnownHashes &of(const Ir &ir, int threads);

 private:
  KnownHashes known_;
  std::vector<TensorData> held_;
};

}  // namespace popart
