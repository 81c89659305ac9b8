// See numbers.hpp.
#include "ops/numbers.hpp"

#include <cmath>

namespace popart::ops {

bool isNumber(const Tensor &tensor) {
  return tensor.tensorType() == TensorType::Const && tensor.hasTensorData() && tensor.info.nelms() == 1 &&
         tensor.info.nbytes() <= 8;
}

std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t) {
  static const OpDef &division = opDef("Div");
  const bool divides = &op.def().base() == &division.base();
  if (!(op.is(Role::Mul) || (divides && op.inputs()[0] == t)) || op.inputCount() != 2 ||
      op.outShape(0) != graph.info(t).shape())
    return std::nullopt;
  const TensorIndex other = op.inputs()[op.inputs()[0] == t ? 1 : 0];
  if (other == t || !isNumber(graph.tensor(other))) return std::nullopt;
  const double number = graph.tensor(other).tensorData().asDoubles()[0];
  const auto factor = static_cast<float>(divides ? 1 / number : number);
  if (!std::isfinite(factor) || factor == 0) return std::nullopt;
  return factor;
}

}  // namespace popart::ops
