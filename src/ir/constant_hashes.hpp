// Content hashes of the constants of one session, for the keys of its programs: making a key reads all weights
// otherwise.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include <popart/tensordata.hpp>

namespace popart {

// Reads each constant once. It holds what it has read, so that the bytes cannot change behind its back: who writes
// shared values makes a copy first (TensorData). For constants that lie in memory of a caller, who may write it, make a
// new one for each key.
class ConstantHashes {
 public:
  // Hashes of these values, in their order; new ones are read by as many threads as pay, with `beside` as one more
  // task.
  std::vector<uint64_t> of(const std::vector<TensorData> &constants, int threads, const std::function<void()> &beside);
  // Notes hashes of bytes that were read before and do not change.
  void learn(const std::vector<std::pair<TensorData, uint64_t>> &hashes);

 private:
  std::map<std::pair<const void *, int64_t>, uint64_t> known_;  // by first byte and size
  std::vector<TensorData> held_;
};

}  // namespace popart
