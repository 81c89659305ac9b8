// How operands of attention's element-wise work lie beside the scores, and which keys constant masks leave out.
#pragma once
#include <string>
#include <vector>

#include "backends/cpu/kernels/attention.hpp"
#include "executable/kernel.hpp"

namespace popart::cpu {

// An operand broadcast to the scores: where its row for a row of scores begins, in elements.
struct ScoreRows {
  struct Dimension {
    int64_t divisor, size, stride;
  };
  std::vector<Dimension> dimensions;  // those along which it changes
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

// By query: the keys that some batch needs, as far as constant masks say. Those of a query without any key are all
// keys, so that its result is what it would be without masks known. Empty: all.
std::vector<KeyRange> neededKeys(const executable::KernelRequest &request, size_t firstExtra,
                                 const AttentionShape &shape);

}  // namespace popart::cpu
