// Lengths of sequences as an input of a node.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// Input `input` as INT64. Lengths below 0 or above `most`, the number of steps, are refused: when the model is read if
// they are constant, otherwise in the run, which ends. Throws popart::error.
inline Value checkedLengths(Composer &to, int input, int64_t most) {
  const NodeContext &n = to.node();
  const Value lengths = to.input(input);
  if (!n.isConstant(lengths.tensor()))
    return lengths.op("CheckRange", {}, {{"what", std::string("sequence_lens")}, {"low", int64_t{0}}, {"high", most}})
        .cast(DataType::INT64);
  const std::vector<int64_t> all = n.constantInts(input);
  for (int64_t length : all)
    n.require(length >= 0 && length <= most,
              "input {} (sequence_lens) has a length out of range: got {}, expected 0 to {}", input, all, most);
  return lengths.cast(DataType::INT64);
}

}  // namespace popart::onnx
