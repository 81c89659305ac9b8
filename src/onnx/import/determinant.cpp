// Det of ai.onnx: elimination with row pivots, one column per iteration, and the product of the pivots.
#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Rows are selected by products with 0 and 1, through which gradients go. A column without a pivot is not changed: the
// determinant is then 0.
void importDet(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const int64_t size = x.rank() >= 2 ? x.dim(-1) : 0;
  n.require(x.rank() >= 2 && x.dim(-2) == size, "the last two dimensions must be equal: got {}", x.info());
  const Shape outer(x.shape().begin(), x.shape().end() - 2);
  int64_t count = 1;
  for (int64_t s : outer) count *= s;
  LoopWriter loop(to, "columns", size);
  const Value rest = loop.carry(x.reshape({count, size, size}));
  const Value product = loop.carry(x.number(1).expand({count, 1}));
  Composer &body = loop.body();
  const Value rows = body.countUp(size), step = loop.iteration();
  const auto chosen = [&](const Value &row) { return rows.op("Equal", {row}).cast(x.type()); };
  const Value own = chosen(step), column = matmul(rest, own.reshape({size, 1})).reshape({count, size});
  const Value open = rows.op("GreaterOrEqual", {step});
  const Value place = where(open, column.op("Abs"), column.number(-1))
                          .op("ArgMax", {}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
  const Value best = chosen(place);  // (count, size)
  const auto rowOf = [&](const Value &choice) { return matmul(choice.reshape({count, 1, size}), rest); };
  const Value given = rowOf(own.expand({count, size})), taken = rowOf(best);
  const Value swapped = rest + (best - own).reshape({count, size, 1}) * (given - taken);
  const Value pivot = matmul(taken, own.reshape({size, 1})).reshape({count, 1});
  const Value sign = where(place.op("Equal", {step}), pivot.number(1), pivot.number(-1));
  const Value safe = where(pivot.op("Equal", {pivot.number(0)}), pivot.number(1), pivot);
  const Value below = rows.op("Greater", {step}).cast(x.type());
  const Value factors = matmul(swapped, own.reshape({size, 1})).reshape({count, size}) * below / safe;
  const Value next = swapped - factors.reshape({count, size, 1}) * taken;
  to.result(0, loop.run({next, product * pivot * sign}, {})[1].reshape(outer));
}

}  // namespace

std::vector<ImportRule> determinantRules() { return {{"ai.onnx", "Det", importDet}}; }

}  // namespace popart::onnx
