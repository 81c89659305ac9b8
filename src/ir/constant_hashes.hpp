// Content hashes of the constants of one session, for the keys of its programs. Without them, each key would read all
// weights.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include <popart/tensordata.hpp>

namespace popart {

// Reads each constant once, and keeps a reference to it, so that its bytes cannot change: a writer of shared values
// copies them first (TensorData). If constants are in memory of a caller, who may write it, make a new object for each
// key.
class ConstantHashes {
 public:
  // Hashes of these values, in their order. Several threads read new ones if that is worth it, with `extraTask` as one
  // more task.
  std::vector<uint64_t> of(const std::vector<TensorData> &constants, int threads,
                           const std::function<void()> &extraTask);
  // Records known hashes of bytes that do not change.
  void learn(const std::vector<std::pair<TensorData, uint64_t>> &hashes);

 private:
  std::map<std::pair<const void *, int64_t>, uint64_t> known_;  // by first byte and size
  std::vector<TensorData> held_;
};

}  // namespace popart
