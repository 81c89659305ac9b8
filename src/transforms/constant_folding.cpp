// One walk in topological order is enough: an op's inputs have been folded before it is reached.
#include "transforms/constant_folding.hpp"

namespace popart::transforms {

int foldConstants(Graph &graph, const EvaluateOp &evaluate) {
  int folded = 0;
  FoldBudget budget(graph);
  for (Op *op : graph.getOpSchedule()) {
    const std::vector<TensorIndex> inputs = op->inputs();
    if (!foldOp(*op, evaluate, budget)) continue;
    ++folded;
    for (TensorIndex t : inputs) {
      if (!t.valid() || !graph.alive(t)) continue;
      const Tensor &tensor = graph.tensor(t);
      if (tensor.tensorType() == TensorType::Const && tensor.uses().empty() && !tensor.hasProducer() &&
          !tensor.isGraphInput() && !tensor.isGraphOutput()) {
        budget.giveBack(tensor.tensorData().nbytes());
        graph.eraseTensor(t);
      }
    }
  }
  return folded;
}

}  // namespace popart::transforms
