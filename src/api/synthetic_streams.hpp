// SyntheticStreams: generated data for programs that run without data of the host (SessionOptions::syntheticDataMode).
#pragma once
#include <vector>

#include <popart/sessionoptions.hpp>
#include <popart/tensordata.hpp>

#include "executable/executable.hpp"
#include "runtime/engine.hpp"

namespace popart {

// Every input stream has one generated value, which each micro-batch of each replica reads. It holds zeros; or N(0, 1),
// for integers rounded to the nearest one of the type, for BOOL whether the number is not 0; or numbers that are
// uniform over the whole range of the type (-largest to largest for floats). Random labels and indices are mostly
// invalid: use zeros for them. Outputs of the program are dropped.
class SyntheticStreams : public runtime::StreamSource {
 public:
  // Throws internal_error for the mode Off.
  SyntheticStreams(const executable::Executable &executable, SyntheticDataMode mode);

  const void *input(int stream, int64_t) override { return inputs_[static_cast<size_t>(stream)].data(); }
  void *output(int stream, int64_t) override { return outputs_[static_cast<size_t>(stream)].data(); }

 private:
  std::vector<TensorData> inputs_;
  std::vector<std::vector<char>> outputs_;
};

}  // namespace popart
