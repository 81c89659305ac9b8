// How operands of attention's element-wise operations are indexed by scores, and which keys constant masks exclude.
#pragma once
#include <string>
#include <vector>

#include "backends/cpu/kernels/attention.hpp"
#include "executable/kernel.hpp"

namespace popart::cpu {

// An operand that is broadcast to the scores: offset in elements of its row for a row of scores.
struct ScoreRows {
  struct Dimension {
    int64_t divisor, size, stride;
  };
  std::vector<Dimension> dimensions;  // the dimensions along which it changes
  int64_t keyStride = 0;              // 0 or 1

  int64_t offset(int64_t row) const {
    int64_t at = 0;
    for (const Dimension &d : dimensions) at += row / d.divisor % d.size * d.stride;
    return at;
  }
};
ScoreRows rowsOf(const Shape &operand, const Shape &scores);

// A graph attribute of an op.
const Graph &graphOf(const Op &op, const char *attribute);

// For each query, the keys that some batch needs, as far as constant masks tell. A query without any such key needs all
// keys, so that its result is the same as without knowledge of the masks. Empty: all queries need all keys.
std::vector<KeyRange> neededKeys(const executable::KernelRequest &request, size_t firstExtra,
                                 const AttentionShape &shape);

}  // namespace popart::cpu
