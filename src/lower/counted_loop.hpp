// Analysis of the values of a loop's iterations: which tensors of its body stay the same, and which integers are linear
// functions of the number of the iteration.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "lower/program_tensors.hpp"

namespace popart::lower {

// first + step * iteration
struct Line {
  int64_t first = 0, step = 0;
  bool isConstant() const { return step == 0; }
  bool operator==(const Line &) const = default;
};

// A loop of a flat program with a known number of iterations. A snapshot: later changes of the loop have no effect.
class CountedLoop {
 public:
  // `mostMakers`: how many loops to follow, from a stack to the loop that made it.
  explicit CountedLoop(const Op &loop, int mostMakers = 4);
  bool isCounted() const { return trips_ > 0; }
  int64_t trips() const { return trips_; }
  Graph &body() const { return body_; }

  // The value that the body's input `inner` carries; null for other tensors.
  const Passed *carried(TensorIndex inner) const;
  // Whether the tensor of the body is the same in all iterations.
  bool isInvariant(TensorIndex t) const;
  // The integer that `t`, of one element, has in each iteration. It is found by following scalars of the body back to
  // the iteration, to constants, to carried values that grow by a constant, and to stacks of such scalars that another
  // loop made. Returns nullopt if it is not a linear function of the iteration, or if an element type on the way cannot
  // hold its values.
  std::optional<Line> line(TensorIndex t);
  // Whether `rows` rows from the line on are inside a stack of `size` rows in every iteration.
  bool staysInside(const Line &l, int64_t rows, int64_t size) const;

 private:
  std::optional<int64_t> at(const Line &l, int64_t iteration) const;
  bool holds(const TensorInfo &info, const Line &l) const;
  bool isScalar(TensorIndex t) const;
  // The scalars that the line of `t` is derived from.
  std::vector<TensorIndex> operandScalars(TensorIndex t) const;
  std::optional<Line> known(TensorIndex t) const;  // a line that was found before
  std::optional<Line> derive(TensorIndex t);
  std::optional<Line> ofCarried(const Passed &c);
  std::optional<Line> ofStacked(const Op &gather);

  const Op &loop_;
  Graph &body_;
  const int64_t trips_;
  const int mostMakers_;
  std::map<TensorIndex, Passed> carried_;
  std::map<TensorIndex, std::optional<Line>> lines_;
};

}  // namespace popart::lower
