#include "transforms/copy_op.hpp"

#include <popart/ir.hpp>

namespace popart::transforms {

Op *copyOp(const Op &op, Graph &graph, const std::vector<TensorIndex> &inputs, const Op::Settings &settings,
           std::string_view suffix) {
  std::unique_ptr<Op> clone = op.clone();
  clone->settings = settings;
  clone->id = graph.getIr().getAndIncrOpsCounter();
  Op *copy = graph.addOp(std::move(clone));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].valid()) graph.connectInput(copy->index(), static_cast<InIndex>(i), inputs[i]);
  for (int o = 0; o < op.outputCount(); ++o) {
    if (!op.hasOutput(o)) continue;
    const TensorIndex made = graph.createOutput(copy->index(), o, graph.freeId(op.outId(o) + std::string(suffix)));
    graph.tensor(made).info = op.outInfo(o);
  }
  return copy;
}

}  // namespace popart::transforms
