// See constant_folding.hpp.
#include "transforms/constant_folding.hpp"

namespace popart::transforms {

int foldConstants(Graph &graph, const EvaluateOp &evaluate) {
  return foldOps(graph, evaluate, [](const Op &, const auto &) { return FoldSize::WithinBudget; });
}

}  // namespace popart::transforms
